"""One row for each directed pair of agents: where it is kept, where it travels, and the matrices that act on it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import NDArray

from peerdescent.distributed.placement import ExchangePlan, Placement, neighbour_plan
from peerdescent.graphs import Graph

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class Slots:
    """Where an agent keeps what belongs to each of those who may ever be its neighbours.

    Slots follow the graph of all agents at the start, so that a loss of agents does not move what the others keep.

    Args:
        union: every edge that a round may have, of all agents at the start.
        agents: which of them are there now, in order; they are numbered anew.

    >>> slots = Slots(Graph(4, ((0, 1), (1, 2), (1, 3))), (0, 1, 3))
    >>> slots.width, slots.of(sender=1, receiver=2)
    (3, 2)
    """

    union: Graph
    agents: Sequence[int]

    @cached_property
    def width(self) -> int:
        """The number of slots of every agent: that of the one with the most neighbours."""
        return int(self.union.degrees.max())

    @cached_property
    def _numbers(self) -> list[dict[int, int]]:
        """By agent now: its neighbours at the start, and their slots."""
        return [{int(other): slot for slot, other in enumerate(self.union.neighbours(agent))} for agent in self.agents]

    def of(self, sender: int, receiver: int) -> int:
        """The slot of a sender for a receiver."""
        return self._numbers[sender][self.agents[receiver]]


@dataclass(frozen=True)
class ActivePairs:
    """The pairs of a round that concern the agents hosted here, by where their rows are.

    Args:
        senders: the agents that send from here, one entry for each pair.
        sent: the place of the copy of each pair that is sent from here.
        outgoing: where the message of each of these pairs is written.
        origins: the agents elsewhere that send to here, one entry for each pair.
        received: the place of the copy of each of these pairs.
        incoming: where the message of each of these pairs arrives.
        differences: the row of the difference of each pair whose receiver is here.
        theirs: the place of the copy of what its sender sends.
        ours: the place of the copy of what its receiver sends back.
    """

    senders: Integers
    sent: Integers
    outgoing: Integers
    origins: Integers
    received: Integers
    incoming: Integers
    differences: Integers
    theirs: Integers
    ours: Integers


class PairRows:
    """The rows of all directed pairs that concern the agents of one process.

    Messages: one row for each pair (sender, receiver), numbered in this order over all processes. Copies: one place
    for each slot of each agent hosted here, then one for each pair from elsewhere to here. Differences: a row of zeros
    for each agent hosted here, then one row for each pair (receiver, sender) with the receiver hosted here; with these
    rows, a matrix m with zero row sums gives Σ_j m_ij d_ij.

    Args:
        pairs: receivers and senders of all rounds together; both directions of every edge.
        placement: which process hosts which agents.
        process: whose rows these are.
        slots: where agents keep what belongs to their neighbours.
    """

    def __init__(self, pairs: NDArray[Any], placement: Placement, process: int, slots: Slots) -> None:
        self.own, self.slots, self._process = placement.block(process), slots, process
        self._n = placement.agents
        keys = np.unique(pairs[:, 1].astype(np.int64) * self._n + pairs[:, 0])
        self._keys, senders = keys, keys // self._n
        self._first = np.searchsorted(senders, np.arange(self._n))
        blocks = [placement.block(rank) for rank in range(placement.processes)]
        sizes = [int(np.isin(senders, np.arange(block.start, block.stop)).sum()) for block in blocks]
        self._placement = Placement(len(keys), placement.processes, tuple(sizes))
        self.plan = self.exchange_plan(pairs)
        """All messages that ever travel, and where they go."""
        receivers = keys % self._n
        here = (receivers >= self.own.start) & (receivers < self.own.stop)
        self._incoming = np.sort(receivers[here] * self._n + senders[here])
        """The pairs whose receivers are here, by (receiver, sender)."""
        remote = here & ((senders < self.own.start) | (senders >= self.own.stop))
        self._remote = keys[remote]
        """The pairs from elsewhere to here, by (sender, receiver)."""

    @property
    def differences(self) -> int:
        """The number of rows that the matrices act on."""
        return len(self.own) + len(self._incoming)

    @property
    def kept(self) -> int:
        """The places of copies of what the agents hosted here send."""
        return len(self.own) * self.slots.width

    @property
    def copies(self) -> int:
        """The number of places for copies."""
        return self.kept + len(self._remote)

    @cached_property
    def matrix_plan(self) -> ExchangePlan:
        """The rows that the matrices act on, as `Matrix` reads them."""
        own = len(self.own)
        return ExchangePlan(range(own), {-1: tuple(range(own, self.differences))}, {})

    def exchange_plan(self, pairs: NDArray[Any]) -> ExchangePlan:
        """The messages of these pairs, receivers and senders."""
        numbers = self._numbers(pairs)
        routed = zip(self._first[pairs[:, 0].astype(np.int64)].tolist(), numbers.tolist(), strict=True)
        return neighbour_plan(self._placement, self._process, routed)

    def _numbers(self, pairs: NDArray[Any]) -> Integers:
        """The numbers of the messages of these pairs."""
        numbers: Integers = np.searchsorted(self._keys, pairs[:, 1].astype(np.int64) * self._n + pairs[:, 0])
        return numbers

    def matrix(self, csr: scipy.sparse.csr_array) -> scipy.sparse.csr_array:
        """A matrix with zero row sums, for the rows of differences: its entries are those of the agents hosted here."""
        coo = csr.tocoo()
        row, column = (part.astype(np.int64) for part in coo.coords)
        mine = (row >= self.own.start) & (row < self.own.stop) & (coo.data != 0)
        row, column, value = row[mine], column[mine], coo.data[mine]
        place = len(self.own) + np.searchsorted(self._incoming, row * self._n + column)
        column = np.where(row == column, row - self.own.start, place)
        size = self.differences
        made = scipy.sparse.csr_array(scipy.sparse.coo_array((value, (row - self.own.start, column)), (size, size)))
        made.sort_indices()
        return made

    def active(self, pairs: NDArray[Any]) -> ActivePairs:
        """The pairs of a round, in the order of their messages."""
        numbers = np.sort(self._numbers(pairs))
        senders, receivers = self._keys[numbers] // self._n, self._keys[numbers] % self._n
        sends = (senders >= self.own.start) & (senders < self.own.stop)
        hears = (receivers >= self.own.start) & (receivers < self.own.stop)
        remote = hears & ~sends
        theirs, ours = self._places(senders[hears], receivers[hears]), self._places(receivers[hears], senders[hears])
        rows = np.searchsorted(self._incoming, receivers[hears] * self._n + senders[hears])
        return ActivePairs(
            senders[sends],
            self._places(senders[sends], receivers[sends]),
            numbers[sends] - self.plan.own.start,
            senders[remote],
            self._places(senders[remote], receivers[remote]),
            np.searchsorted(self.plan.rows, numbers[remote]),
            len(self.own) + rows,
            theirs,
            ours,
        )

    @cached_property
    def own_places(self) -> Integers:
        """The places of the copies of all that is sent from here, in the order of the messages."""
        own = self._keys[self.plan.own.start : self.plan.own.stop]
        return self._places(own // self._n, own % self._n)

    @cached_property
    def remote_places(self) -> tuple[Integers, Integers]:
        """Of all pairs from elsewhere to here: where their messages arrive, and the places of their copies."""
        arrive = np.searchsorted(self.plan.rows, np.searchsorted(self._keys, self._remote))
        return arrive, self._places(self._remote // self._n, self._remote % self._n)

    def _places(self, senders: Integers, receivers: Integers) -> Integers:
        """The place of the copy of each of these pairs."""
        return np.array([self._place(*pair) for pair in zip(senders.tolist(), receivers.tolist(), strict=True)], int)

    def _place(self, sender: int, receiver: int) -> int:
        if sender in self.own:
            return (sender - self.own.start) * self.slots.width + self.slots.of(sender, receiver)
        return self.kept + int(np.searchsorted(self._remote, sender * self._n + receiver))
