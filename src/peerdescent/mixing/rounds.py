"""The rounds of a run: L and W of each exchange of messages, and who receives from whom."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import cached_property
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

Sparse = scipy.sparse.csr_array

KEPT_ROUNDS = 256
"""Rounds whose matrices are kept: all of a periodic sequence, the last ones of a random one."""


class Round:
    """One exchange of messages.

    Args:
        laplacian: L, n×n with zero row sums, or what makes it when it is asked for.
        disagreement: I−W, likewise.
        pairs: receivers and senders, one row each: who gets whose row; or what makes them.
        push_sum: the weights of the agents before and after the round, on a directed graph; None if all are 1.
        block_of: several rounds that were made at once, with disjoint copies of the agents, and which one this is: its
            matrices are that block on the diagonal of theirs.
    """

    def __init__(
        self,
        laplacian: Sparse | Callable[[], Sparse],
        disagreement: Sparse | Callable[[], Sparse],
        pairs: NDArray[Any] | Callable[[], NDArray[Any]],
        push_sum: tuple[NDArray[np.float64], NDArray[np.float64]] | None = None,
        block_of: tuple[Round, int] | None = None,
    ) -> None:
        self._laplacian, self._disagreement, self._pairs = laplacian, disagreement, pairs
        self.push_sum, self.block_of = push_sum, block_of

    @property
    def one_matrix(self) -> bool:
        """Whether L and I−W are the same."""
        return self._laplacian is self._disagreement

    @cached_property
    def laplacian(self) -> Sparse:
        """L."""
        return self._laplacian() if callable(self._laplacian) else self._laplacian

    @cached_property
    def disagreement(self) -> Sparse:
        """I−W."""
        return self._disagreement() if callable(self._disagreement) else self._disagreement

    @cached_property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders."""
        return self._pairs() if callable(self._pairs) else self._pairs

    def scaled(self, c: float) -> Round:
        """The same with c·L and c·(I−W)."""
        if c == 1:
            return self
        return Round(lambda: self.laplacian * c, lambda: self.disagreement * c, self.pairs, self.push_sum)


class Rounds(Protocol):
    """The exchanges of a run, numbered 0, 1, …"""

    @property
    def n(self) -> int:
        """Number of agents."""
        ...

    @property
    def period(self) -> int | None:
        """Rounds after which they repeat; None if they never do."""
        ...

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        ...

    def at(self, round: int) -> Round:
        """The matrices and pairs of a round."""
        ...

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1, for each vector that is sent."""
        ...


def both_directions(pairs: NDArray[Any]) -> NDArray[Any]:
    """Receivers and senders along undirected edges.

    >>> both_directions(np.array([[0, 1]])).tolist()
    [[0, 1], [1, 0]]
    """
    return np.concatenate([pairs, pairs[:, ::-1]])


T = TypeVar("T")


class PerRound(Generic[T]):
    """What is made of a round, kept for those that come again.

    >>> made = PerRound(lambda r: [r], period=2)
    >>> made(5) is made(1), made(0)
    (True, [0])

    Args:
        make: makes it.
        period: the rounds after which they repeat; None if they never do.
        representative: the first round that is the same, where rounds repeat only after a while.
    """

    def __init__(
        self, make: Callable[[int], T], period: int | None, representative: Callable[[int], int] | None = None
    ) -> None:
        self._make, self._period, self._representative = make, period, representative
        self.varies = period != 1
        """Whether not every round is the same."""
        self._kept: OrderedDict[int, T] = OrderedDict()

    def __call__(self, round: int) -> T:
        if self._representative is not None:
            number = self._representative(round)
        else:
            number = round if self._period is None else round % self._period
        if number not in self._kept:
            self._kept[number] = self._make(number)
            if len(self._kept) > max(KEPT_ROUNDS, self._period or 0):
                self._kept.popitem(last=False)
        return self._kept[number]


def per_round(make: Callable[[int], T], rounds: Rounds) -> PerRound[T]:
    """What is made of each of these rounds."""
    return PerRound(make, rounds.period, getattr(rounds, "representative", None))
