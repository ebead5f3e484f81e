"""All agents at their mean: what a method makes of it, and what it sends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.mixing.network import MemoryNetwork
from peerdescent.mixing.periods import Periods
from peerdescent.tracing.recording import vectors_averaged


class GlobalAverage:
    """The global average of a method on the agents hosted here.

    The rows of all agents travel to all processes, and each computes the mean of all of them in the same order: the
    same bits for any number of processes, which an all_reduce would not give.

    Args:
        algorithm: the method.
        network: of all agents, or of this process's block.
    """

    def __init__(self, algorithm: Algorithm, network: MemoryNetwork) -> None:
        self._algorithm, self._network = algorithm, replace(network)  # with exchanges of its own

    def of(self, state: State) -> State:
        """The rows that change, by name; `state` stays as it is."""
        self._network.begin(0)  # no message of the last average is used again
        own = {name: state[name] for name in ("x", *self._algorithm.memory())}
        return self._algorithm.global_average(SimpleNamespace(**own), self._network)


class AllRows:
    """The rows of all agents, of which nothing but the mean is asked for."""

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        """The mean of all rows, in every row."""
        return a.mean(dim=0, keepdim=True).expand_as(a)


@dataclass(frozen=True)
class Volume:
    """What the agents of a run send, in bytes.

    Args:
        periods: when they exchange messages.
        messages: the number of messages from one exchange to another, for each vector that is sent.
        per_message: the bytes of a message.
        average_every: iterations from one global average to the next; None for none.
        per_average: the bytes of a global average.

    >>> Volume(Periods.parse(2), lambda first, last: 10 * (last - first), 10, 5, 7).between(0, 10)
    514
    """

    periods: Periods
    messages: Callable[[int, int], int]
    per_message: int
    average_every: int | None = None
    per_average: int = 0

    def between(self, first: int, last: int) -> int:
        """What iterations first, …, last − 1 send."""
        averages = 0 if self.average_every is None else last // self.average_every - first // self.average_every
        messages = self.messages(self.periods.rounds_before(first), self.periods.rounds_before(last))
        return messages * self.per_message + averages * self.per_average


def bytes_per_average(algorithm: Algorithm, agents: int, vector_bytes: int) -> int:
    """What a ring all_reduce sends: each of n agents 2(n−1)/n of each vector, all of them 2(n−1) vectors.

    >>> from peerdescent.algorithms import make
    >>> bytes_per_average(make("d-sgd-1"), agents=4, vector_bytes=100)
    600
    """
    return 2 * (agents - 1) * vectors_averaged(algorithm) * vector_bytes
