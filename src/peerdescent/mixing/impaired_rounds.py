"""Rounds in which messages are lost, late, or never sent because an agent is inactive."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from peerdescent.mixing.chance import Law, Mask, Places
from peerdescent.mixing.impairments import Drop
from peerdescent.mixing.rounds import PerRound, Round, Rounds

BLOCK_ENTRIES = 4096
"""About so many random decisions are made at once."""
Matrix = scipy.sparse.csr_array


class Masks:
    """What a law decides for the same places in one round after the other, drawn in blocks of rounds."""

    def __init__(self, law: Law, seed: int, purpose: str, places: Places) -> None:
        self._law, self._seed, self._purpose, self._places = law, seed, purpose, places
        self._count = max(1, BLOCK_ENTRIES // max(1, len(places)))
        self._block = PerRound(self._make, None)

    def _make(self, block: int) -> Mask:
        return self._law.happens(self._seed, self._purpose, self._places, block * self._count, self._count)

    def at(self, time: int) -> Mask:
        """Whether it happens at this time, by place."""
        block, row = divmod(time, self._count)
        mask: Mask = self._block(block)[row]
        return mask


@dataclass(frozen=True, eq=False)
class ImpairedRounds:
    """The rounds of a run on a network that loses and delays messages, with agents that are inactive at times.

    What is lost is left out of L and I−W. Their product is Σ_j m_ij (a_j − a_i), so an agent takes no part in an
    exchange of which it hears nothing; if both messages of an edge are left out, sums over the agents stay as they are.

    With a delay of d, what arrives in round r was sent in round r−d, along the graph of that round; in the first d
    rounds nothing arrives. A message counts if it was not lost in round r−d and if both agents were active then and are
    active now. So both ends of an edge always agree on whether it counts.

    Args:
        rounds: the same without impairments.
        seed: the seed of the run.
        drop: which messages are lost.
        inactive: when agents are inactive.
        delay: d.
        agents: the numbers of the agents in random streams, by default 0, 1, …; after a loss of agents, those that
            stayed keep their numbers and with them their fate.
        rounds_before: the number of exchanges before an iteration, by default one in each.
    """

    rounds: Rounds
    seed: int
    drop: Drop | None = None
    inactive: Law | None = None
    delay: int = 0
    agents: Sequence[int] | None = None
    rounds_before: Callable[[int], int] = int

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.rounds.n

    @property
    def period(self) -> int | None:
        """They repeat only if nothing is random, and not in the first d rounds."""
        return None

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return self.rounds.pairs

    @cached_property
    def _numbers(self) -> NDArray[np.int64]:
        return np.arange(self.n) if self.agents is None else np.array(self.agents, dtype=np.int64)

    @cached_property
    def _entries(self) -> PerRound[_Entries]:
        return PerRound(lambda r: _Entries.of(self.rounds.at(r)), self.rounds.period)

    @cached_property
    def _activity(self) -> Masks | None:
        places = np.stack([self._numbers, self._numbers], axis=1)
        return None if self.inactive is None else Masks(self.inactive, self.seed, "inactive", places)

    @cached_property
    def _static_drops(self) -> Masks | None:
        """The losses of a graph that never changes, drawn in blocks."""
        if self.drop is None or self.rounds.period != 1:
            return None
        return Masks(self.drop.law, self.seed, "drop", self._places(self._entries(0).pairs))

    def _places(self, pairs: NDArray[Any]) -> Places:
        """Where losses are decided: at an edge, or, one-sided, at each of its directions."""
        places: Places = self._numbers[pairs]
        return places if self.drop is not None and self.drop.one_sided else np.sort(places, axis=1)

    def inactive_at(self, k: int) -> Mask:
        """Whether each agent is inactive in iteration k."""
        return np.zeros(self.n, dtype=bool) if self._activity is None else self._activity.at(k)

    def lost_pairs(self, round: int) -> Mask:
        """Whether each message of a round is lost, in the order of that round's pairs."""
        pairs = self._entries(round).pairs
        if self.drop is None:
            return np.zeros(len(pairs), dtype=bool)
        if self._static_drops is not None:
            return self._static_drops.at(round)
        lost: Mask = self.drop.law.happens(self.seed, "drop", self._places(pairs), round, 1)[0]
        return lost

    def _kept(self, round: int) -> Mask:
        """Which pairs of the round in which messages were sent count now."""
        sent = round - self.delay
        pairs = self._entries(sent).pairs
        kept = ~self.lost_pairs(sent)
        if self._activity is not None:
            for r in {sent, round}:
                off = self._activity.at(iteration_of(r, self.rounds_before))
                kept &= ~(off[pairs[:, 0]] | off[pairs[:, 1]])
        return kept

    def messages(self, first: int, last: int) -> int:
        """How many rows are received in rounds first, …, last − 1; negative if last < first, as for an integral."""
        if last < first:
            return -self.messages(last, first)
        return sum(int(self._kept(round).sum()) for round in range(max(first, self.delay), last))

    def at(self, round: int) -> Round:
        """The matrices and pairs of a round."""
        if round < self.delay:
            nothing = Matrix((self.n, self.n))
            return Round(nothing, nothing, self.rounds.pairs[:0])
        entries = self._entries(round - self.delay)
        return entries.only(self._kept(round))


@dataclass(frozen=True, eq=False)
class _Entries:
    """A round's pairs, and where they are in its matrices."""

    round: Round
    pairs: NDArray[Any]
    laplacian: _OffDiagonal
    disagreement: _OffDiagonal

    @classmethod
    def of(cls, round: Round) -> _Entries:
        pairs = round.pairs[np.lexsort((round.pairs[:, 1], round.pairs[:, 0]))]
        return cls(round, pairs, _OffDiagonal.of(round.laplacian, pairs), _OffDiagonal.of(round.disagreement, pairs))

    def only(self, kept: Mask) -> Round:
        """The round with these pairs only."""
        if kept.all():
            return self.round
        return Round(self.laplacian.only(kept), self.disagreement.only(kept), self.pairs[kept])


@dataclass(frozen=True, eq=False)
class _OffDiagonal:
    """A matrix with zero row sums by its entries off the diagonal, with the pair of agents of each."""

    pattern: Matrix
    """Where entries can be, the whole diagonal among them; its numbers say which is which."""
    row: NDArray[Any]
    value: NDArray[Any]
    pair: NDArray[Any]

    @classmethod
    def of(cls, matrix: Matrix, pairs: NDArray[Any]) -> _OffDiagonal:
        n, coo = matrix.shape[0], matrix.tocoo()
        row, column = (part.astype(np.int64) for part in coo.coords)
        off = (row != column) & (coo.data != 0)
        row, column, value = row[off], column[off], coo.data[off]
        known, wanted = pairs[:, 0].astype(np.int64) * n + pairs[:, 1], row * n + column
        pair = np.searchsorted(known, wanted)
        assert len(wanted) == 0 or (known[np.minimum(pair, len(known) - 1)] == wanted).all(), "an entry without a pair"
        every = np.arange(n)
        number = np.concatenate([np.arange(len(row)), len(row) + every])
        where = np.concatenate([row, every]), np.concatenate([column, every])
        pattern = Matrix(scipy.sparse.coo_array((number, where), shape=(n, n)))
        pattern.sort_indices()
        return cls(pattern, row, value, pair)

    def only(self, kept: Mask) -> Matrix:
        """The matrix with these pairs only; its row sums are zero again."""
        pattern, value = self.pattern, np.where(kept[self.pair], self.value, 0.0)
        diagonal = -np.bincount(self.row, weights=value, minlength=pattern.shape[0])
        data = np.concatenate([value, diagonal])[pattern.data]
        return Matrix((data, pattern.indices, pattern.indptr), shape=pattern.shape)


def iteration_of(round: int, rounds_before: Callable[[int], int]) -> int:
    """The iteration in which a round takes place: the last one before which there are only so many rounds.

    >>> iteration_of(7, int), iteration_of(1, lambda k: k // 5)
    (7, 9)
    """
    low, high = round, round + 1  # at most one exchange per iteration, so it is not earlier
    while rounds_before(high) <= round:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if rounds_before(middle) <= round else (low, middle)
    return low
