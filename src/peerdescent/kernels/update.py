"""Executing a method's step on the agents' rows: eagerly, or as one fused pass over memory.

Both follow the same protocol. `begin(k)` returns the point where the gradient is wanted, and the caller writes the
gradient into `gradient`; if `gradients_at(k)` says that the step wants more of them, on the same samples, `again(k)`
returns the next point. `finish(k)` updates the state in place.
"""

from __future__ import annotations

from typing import Protocol

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import Exchange
from peerdescent.errors import InputError
from peerdescent.kernels.compiler import CompilerError
from peerdescent.kernels.fused import CompiledUpdate
from peerdescent.kernels.plain import PlainUpdate
from peerdescent.mixing.network import BlockNetwork, MemoryNetwork
from peerdescent.mixing.periods import Period, Periods
from peerdescent.tracing.recording import RecordingError

KERNELS = ("auto", "compiled", "torch", "plain")


class Update(Protocol):
    """One method on one state."""

    state: State
    gradient: torch.Tensor
    description: str
    algorithm: Algorithm

    def gradients_at(self, k: int) -> int:
        """The number of gradients that iteration k wants, all on the same samples."""
        ...

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k: return the n×p points where the gradient is wanted."""
        ...

    def again(self, k: int) -> torch.Tensor:
        """With a gradient of iteration k in `gradient` that is not the last one: return the points of the next."""
        ...

    def finish(self, k: int) -> None:
        """End iteration k with the gradient in `gradient`: update the state in place."""
        ...

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """After `begin(k)`: use the hyperparameters of another variant for the rest of the iteration."""
        ...

    def wait(self) -> None:
        """Await the messages in flight."""
        ...

    def exchanges(self) -> dict[int, Exchange]:
        """The exchanges with neighbours, by the number of the message."""
        ...


def is_message_memory(name: str) -> bool:
    """Whether an array of the state belongs to the messages, not to the method.

    >>> is_message_memory("message0.copy"), is_message_memory("v")
    (True, False)
    """
    return name.startswith("message") and "." in name


def synchronize_messages(update: Update) -> None:
    """After the state was written from outside: neighbours learn what they must know of it; all processes call this."""
    for exchange in update.exchanges().values():
        exchange.synchronize()


def make_update(
    algorithm: Algorithm,
    state: State,
    network: MemoryNetwork,
    kernel: str = "auto",
    threads: int = 1,
    communication_period: Period = 1,
) -> Update:
    """The fastest update that works here, or the requested one; its `description` says which.

    With `communication_period` = m, messages are sent only in iterations m−1, 2m−1, …; the others are local. It may
    be a schedule of periods, or random.
    Arrays that are exchanged between processes move to the exchange's buffers: use the update's `state`.
    """
    if kernel not in KERNELS:
        raise InputError(f"kernel = {kernel!r}: expected one of {', '.join(KERNELS)}.")
    periods = Periods.parse(communication_period)
    algorithm, gradient = algorithm.with_periods(periods), torch.zeros_like(state["x"])
    saved = {name: state.pop(name) for name in list(state) if is_message_memory(name)}
    exchanging = _make_one(algorithm, state, gradient, network, kernel, threads)
    if network.filters:
        _add_memory(exchanging, saved)
    if periods.always:
        return exchanging
    local_state = {name: rows for name, rows in exchanging.state.items() if not is_message_memory(name)}
    return PeriodicUpdate(
        exchanging,
        _make_one(algorithm, local_state, gradient, network.without_messages(), kernel, threads),
        periods,
    )


def _add_memory(update: Update, saved: State) -> None:
    """Make what messages keep from one iteration to the next a part of the state."""
    for number, exchange in update.exchanges().items():
        for name, rows in exchange.memory.items():
            update.state[f"message{number}.{name}"] = rows
    for name, rows in saved.items():
        update.state[name].copy_(rows)


def _make_one(
    algorithm: Algorithm, state: State, gradient: torch.Tensor, network: MemoryNetwork, kernel: str, threads: int
) -> Update:
    if kernel == "plain":
        _on_any_rank(network, "it was told to use kernel=plain")
        return PlainUpdate(algorithm, state, network, "", gradient)
    on_cpu = state["x"].device.type == "cpu"
    fused = _try_torch if kernel == "torch" or (kernel == "auto" and not on_cpu) else _try_compiled
    update, reason = fused(algorithm, state, gradient, network, threads)
    reason = _on_any_rank(network, reason)
    if update is not None and not reason:
        return update
    if kernel != "auto":
        raise InputError(f"kernel = {kernel!r} is not available here: {reason}; use kernel=plain.")
    return PlainUpdate(algorithm, state, network, reason, gradient)


def _try_compiled(
    algorithm: Algorithm, state: State, gradient: torch.Tensor, network: MemoryNetwork, threads: int
) -> tuple[Update | None, str]:
    """The compiled update, or the reason why there is none."""
    x = state["x"]
    reason = "" if x.device.type == "cpu" else f"tensors are on {x.device.type}"
    if x.dtype not in (torch.float32, torch.float64):
        reason = f"no compiled kernel for {x.dtype}"
    if reason:
        return None, reason
    try:
        return CompiledUpdate(algorithm, state, network, threads, gradient), ""
    except (CompilerError, RecordingError) as error:
        return None, str(error)


def _try_torch(
    algorithm: Algorithm, state: State, gradient: torch.Tensor, network: MemoryNetwork, threads: int
) -> tuple[Update | None, str]:
    """The update through torch.compile, or the reason why there is none."""
    from peerdescent.kernels.torch_kernel import TorchUpdate

    try:
        return TorchUpdate(algorithm, state, network, threads, gradient), ""
    except (CompilerError, RecordingError) as error:
        return None, str(error)


def _on_any_rank(network: MemoryNetwork, reason: str) -> str:
    """The first reason that any process has against the fused update.

    All processes use the same kernel: they send their messages in different orders and round differently.
    """
    if not isinstance(network, BlockNetwork):
        return reason
    reasons = network.group.broadcast_object(network.group.gather_object(reason))
    first = next((rank for rank, theirs in enumerate(reasons) if theirs), None)
    return reason if first is None or reason else f"process {first}: {reasons[first]}"


class PeriodicUpdate:
    """Two updates of one state: one that exchanges messages, and one for the local iterations in between."""

    def __init__(self, exchanging: Update, local: Update, periods: Periods) -> None:
        self.state, self.gradient, self.description = exchanging.state, exchanging.gradient, exchanging.description
        self._exchanging, self._local, self._periods = exchanging, local, periods
        self.algorithm = exchanging.algorithm

    def _for(self, k: int) -> Update:
        return self._exchanging if self._periods.exchanges(k) else self._local

    def gradients_at(self, k: int) -> int:
        """How many gradients the step of iteration k wants."""
        return self._for(k).gradients_at(k)

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k."""
        return self._for(k).begin(k)

    def again(self, k: int) -> torch.Tensor:
        """Go on to the next gradient."""
        return self._for(k).again(k)

    def finish(self, k: int) -> None:
        """End iteration k."""
        self._for(k).finish(k)

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """Set the hyperparameters of both."""
        algorithm = algorithm.with_periods(self._periods)
        for update in (self._exchanging, self._local):
            update.algorithm = algorithm
        self._for(k).set_hyperparameters(algorithm, k)

    def wait(self) -> None:
        """Await the messages in flight."""
        self._exchanging.wait()

    def exchanges(self) -> dict[int, Exchange]:
        """The exchanges with neighbours, by the number of the message."""
        return self._exchanging.exchanges()
