"""How a method's step is carried out on the agents' rows: eagerly, or as one fused pass over memory.

Both follow the same protocol. `begin(k)` gives the point where the gradient is wanted; the caller writes the
gradient into `gradient`; `finish(k)` updates the state in place.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Protocol

import torch

from peerdescent.algorithms import Algorithm, Step
from peerdescent.engine.compiler import CompilerError
from peerdescent.engine.exchange import Exchange
from peerdescent.engine.kernel import Kernel
from peerdescent.engine.network import BlockNetwork, MemoryNetwork
from peerdescent.engine.schedule import GRADIENT, POINT, Message, plan_step
from peerdescent.errors import InputError
from peerdescent.expressions import Array, Expression, RecordingNetwork, Scalar

State = dict[str, torch.Tensor]
KERNELS = ("auto", "compiled", "plain")


class Update(Protocol):
    """One method on one state."""

    state: State
    gradient: torch.Tensor
    description: str
    algorithm: Algorithm

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k: the n×p points where the gradient is wanted."""
        ...

    def finish(self, k: int) -> None:
        """End iteration k with the gradient in `gradient`: the state moves on, in place."""
        ...

    def renew(self, algorithm: Algorithm, k: int) -> None:
        """After `begin(k)`: take the numbers of the rest of the iteration from another variant of the method."""
        ...

    def settle(self) -> None:
        """Await the messages that are under way."""
        ...


def initial_state(algorithm: Algorithm, x: torch.Tensor) -> State:
    """x and what the method remembers, at the start."""
    x = x.mean(dim=0, keepdim=True).expand_as(x) if algorithm.common_start else x
    x = x.clone(memory_format=torch.contiguous_format)  # kernels go by rows, whatever the caller's layout
    extra = {name: torch.zeros_like(x) if start == "zero" else x.clone() for name, start in algorithm.memory().items()}
    return {"x": x, **extra}


def make_update(
    algorithm: Algorithm,
    state: State,
    network: MemoryNetwork,
    kernel: str = "auto",
    threads: int = 1,
    mix_every: int = 1,
) -> Update:
    """The fastest carrier that works here, or the one asked for; its `description` says which it is.

    With `mix_every` = m, messages travel in iterations m−1, 2m−1, … only; in between every agent is by itself.
    Arrays that are exchanged between processes move to where the rows of others come in: use the update's `state`.
    """
    gradient = torch.zeros_like(state["x"])
    talking = _carrier(algorithm, state, gradient, network, kernel, threads)
    if mix_every == 1:
        return talking
    return TalkSometimes(talking, _carrier(algorithm, state, gradient, network.silenced(), kernel, threads), mix_every)


def _carrier(
    algorithm: Algorithm, state: State, gradient: torch.Tensor, network: MemoryNetwork, kernel: str, threads: int
) -> Update:
    if kernel not in KERNELS:
        raise InputError(f"kernel = {kernel!r}: expected one of {', '.join(KERNELS)}.")
    x = state["x"]
    reason = "" if x.device.type == "cpu" else f"tensors are on {x.device.type}"
    if x.dtype not in (torch.float32, torch.float64):
        reason = f"no compiled kernel for {x.dtype}"
    if kernel != "plain" and not reason:
        try:
            return CompiledUpdate(algorithm, state, network, threads, gradient)
        except (CompilerError, RecordingError) as error:
            reason = str(error)
    if kernel == "compiled":
        raise InputError(f"a compiled kernel cannot be had here: {reason}; use kernel=plain.")
    return PlainUpdate(algorithm, state, network, reason, gradient)


class PlainUpdate:
    """The obvious path: the step itself, evaluated eagerly."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        reason: str = "",
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state, self.network = algorithm, state, network
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        self.description = f"plain ({reason})" if reason else "plain"
        self._step: Step

    def begin(self, k: int) -> torch.Tensor:
        """Run the step up to its `yield`."""
        self.network.begin()
        self._numbers = SimpleNamespace(**self.algorithm.hyperparameters(k))
        step = self.algorithm.alone if self.network.silent else self.algorithm.step
        self._step = step(SimpleNamespace(**self.state), self.network, self._numbers)
        point: torch.Tensor = next(self._step)
        return point

    def finish(self, k: int) -> None:
        """Hand over the gradient and take the new state."""
        new = _finish(self._step, self.algorithm.seen(self.gradient, self.network))
        for name, value in {name: value.clone() for name, value in new.items()}.items():
            self.state[name].copy_(value)

    def renew(self, algorithm: Algorithm, k: int) -> None:
        """The step under way sees the new numbers."""
        self.algorithm = algorithm
        self._numbers.__dict__.update(algorithm.hyperparameters(k))

    def settle(self) -> None:
        """Nothing is ever under way."""


class CompiledUpdate:
    """The fast path: the step recorded once, written as C, compiled, and run in place.

    With all agents at hand it is one pass over memory. Where agents live in several processes it is taken apart
    around its messages: those that do not need the gradient leave in `begin` and travel while it is computed.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        threads: int = 1,
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state = algorithm, state
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        point, outputs = record(algorithm, tuple(state), network.silent, network.rounded)
        self._schedule = plan_step(point, outputs, tuple(state), isinstance(network, BlockNetwork))
        self._exchanges: dict[str, Exchange] = {}
        arrays = {**state, GRADIENT: self.gradient}
        if not isinstance(point, Array):
            arrays[POINT] = torch.empty_like(state["x"])
        for message in self._schedule.messages:
            assert isinstance(network, BlockNetwork)
            exchange = self._exchanges[message.array] = network.exchange(state["x"], message.everyone)
            if message.array in arrays:
                exchange.own.copy_(arrays[message.array])
            arrays[message.array] = exchange.own  # with the rows of others before and after it
        state.update({name: arrays[name] for name in state})
        self._point = arrays[point.name if isinstance(point, Array) else POINT]
        self._kernels = {
            message.array: Kernel({message.array: message.source}, arrays, network, threads)
            for message in self._schedule.messages
            if message.source is not None
        }
        if not isinstance(point, Array):
            self._kernels[POINT] = Kernel({POINT: self._schedule.point}, arrays, network, threads)
        self._update = Kernel(self._schedule.outputs, arrays, network, threads)
        self._under_way: set[str] = set()
        self.description = f"compiled ({threads} thread{'s' * (threads > 1)})"

    def begin(self, k: int) -> torch.Tensor:
        """Compute the point, unless it is x itself; what can be sent already leaves."""
        self._numbers = self.algorithm.hyperparameters(k)
        self._dispatch(self._schedule.for_point)
        if POINT in self._kernels:
            self._await(tuple(self._under_way))
            self._kernels[POINT](self._numbers)
        self._dispatch(self._schedule.early)
        return self._point

    def finish(self, k: int) -> None:
        """Send what needed the gradient, await all messages, and update."""
        self._dispatch(self._schedule.late)
        self._await(tuple(self._under_way))
        self._update(self._numbers)

    def renew(self, algorithm: Algorithm, k: int) -> None:
        """The update is computed with the new numbers."""
        self.algorithm, self._numbers = algorithm, algorithm.hyperparameters(k)

    def settle(self) -> None:
        """Await the messages that are under way."""
        self._await(tuple(self._under_way))

    def _dispatch(self, messages: tuple[Message, ...]) -> None:
        """Compute what is sent, in its own place, and send it; each as soon as what it needs has come."""
        for message in messages:
            self._await(message.needs)
            if message.source is not None:
                self._kernels[message.array](self._numbers)
            self._under_way.add(message.array)
            self._exchanges[message.array].start()

    def _await(self, arrays: tuple[str, ...]) -> None:
        for array in arrays:
            if array in self._under_way:
                self._under_way.discard(array)
                self._exchanges[array].wait()


class TalkSometimes:
    """Two carriers of one state: one that exchanges messages, and one for the iterations in between."""

    def __init__(self, talking: Update, silent: Update, mix_every: int) -> None:
        self.state, self.gradient, self.description = talking.state, talking.gradient, talking.description
        self._talking, self._silent, self._mix_every = talking, silent, mix_every
        self.algorithm = talking.algorithm

    def _for(self, k: int) -> Update:
        return self._talking if (k + 1) % self._mix_every == 0 else self._silent

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k with the carrier whose turn it is."""
        return self._for(k).begin(k)

    def finish(self, k: int) -> None:
        """End iteration k."""
        self._for(k).finish(k)

    def renew(self, algorithm: Algorithm, k: int) -> None:
        """New numbers for both."""
        for carrier in (self._talking, self._silent):
            carrier.algorithm = algorithm
        self._for(k).renew(algorithm, k)

    def settle(self) -> None:
        """Await the messages that are under way."""
        self._talking.settle()


class RecordingError(RuntimeError):
    """The step asks for more than arithmetic and cannot be recorded."""


def record(
    algorithm: Algorithm, names: tuple[str, ...], silent: bool = False, rounded: bool = False
) -> tuple[Expression, dict[str, Expression]]:
    """The step as equations: the gradient's point, and the new value of every state."""
    network = RecordingNetwork(silent, rounded)
    state = SimpleNamespace(**{name: Array(name) for name in names})
    numbers = SimpleNamespace(**{name: Scalar(name) for name in algorithm.hyperparameters(0)})
    try:
        step = (algorithm.alone if silent else algorithm.step)(state, network, numbers)
        point = next(step)
        outputs = _finish(step, algorithm.seen(Array(GRADIENT), network))
    except (TypeError, AttributeError) as error:
        raise RecordingError(f"the step of {type(algorithm).__name__} is not plain arithmetic: {error}") from error
    return point, outputs


def vectors_sent(algorithm: Algorithm) -> int:
    """How many p-vectors an agent sends to each neighbour per iteration, counted on one tiny step.

    >>> from peerdescent.algorithms import make
    >>> vectors_sent(make("dsgpa-f-pb")), vectors_sent(make("dm-sgd")), vectors_sent(make("c-sgd"))
    (1, 2, 0)
    """
    network = _CountingNetwork()
    one = torch.ones(1, 1)
    state = initial_state(algorithm, one)
    step = algorithm.step(SimpleNamespace(**state), network, SimpleNamespace(**algorithm.hyperparameters(0)))
    next(step)
    _finish(step, algorithm.seen(one, network))
    return len({id(a) for a in network.sent})


class _CountingNetwork:
    """Passes everything through and keeps what was sent, alive, so that ids stay distinct."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        self.sent.append(a)
        return torch.zeros_like(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        return self.laplacian(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        return a - self.disagreement(a)

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        return a


def _finish(step: Step, gradient: object) -> dict[str, Any]:
    try:
        step.send(gradient)
    except StopIteration as end:
        new: dict[str, Any] = end.value
        return new
    raise TypeError("a step yields exactly once: the point where the gradient is wanted")
