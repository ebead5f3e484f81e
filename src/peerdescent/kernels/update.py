"""How a method's step is carried out on the agents' rows: eagerly, or as one fused pass over memory.

Both follow the same protocol. `begin(k)` gives the point where the gradient is wanted; the caller writes the
gradient into `gradient`; `finish(k)` updates the state in place.
"""

from __future__ import annotations

from typing import Protocol

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.errors import InputError
from peerdescent.kernels.compiler import CompilerError
from peerdescent.kernels.eager import PlainUpdate
from peerdescent.kernels.fused import CompiledUpdate
from peerdescent.mixing.network import MemoryNetwork
from peerdescent.tracing.recording import RecordingError

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

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """After `begin(k)`: take the numbers of the rest of the iteration from another variant of the method."""
        ...

    def wait(self) -> None:
        """Await the messages that are under way."""
        ...


def make_update(
    algorithm: Algorithm,
    state: State,
    network: MemoryNetwork,
    kernel: str = "auto",
    threads: int = 1,
    communication_period: int = 1,
) -> Update:
    """The fastest carrier that works here, or the one asked for; its `description` says which it is.

    With `communication_period` = m, messages travel in iterations m−1, 2m−1, … only, none in between.
    Arrays that are exchanged between processes move to where the rows of others come in: use the update's `state`.
    """
    gradient = torch.zeros_like(state["x"])
    exchanging = _carrier(algorithm, state, gradient, network, kernel, threads)
    if communication_period == 1:
        return exchanging
    return PeriodicUpdate(
        exchanging,
        _carrier(algorithm, state, gradient, network.without_messages(), kernel, threads),
        communication_period,
    )


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


class PeriodicUpdate:
    """Two carriers of one state: one that exchanges messages, and one for the iterations in between."""

    def __init__(self, exchanging: Update, local: Update, communication_period: int) -> None:
        self.state, self.gradient, self.description = exchanging.state, exchanging.gradient, exchanging.description
        self._exchanging, self._silent, self._mix_every = exchanging, local, communication_period
        self.algorithm = exchanging.algorithm

    def _for(self, k: int) -> Update:
        return self._exchanging if (k + 1) % self._mix_every == 0 else self._silent

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k with the carrier whose turn it is."""
        return self._for(k).begin(k)

    def finish(self, k: int) -> None:
        """End iteration k."""
        self._for(k).finish(k)

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """New numbers for both."""
        for carrier in (self._exchanging, self._silent):
            carrier.algorithm = algorithm
        self._for(k).set_hyperparameters(algorithm, k)

    def wait(self) -> None:
        """Await the messages that are under way."""
        self._exchanging.wait()
