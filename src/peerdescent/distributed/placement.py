"""Which process hosts which agents, and which rows a process sends and receives."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from peerdescent.errors import InputError

Places = slice | list[int]


@dataclass(frozen=True)
class Placement:
    """Agents 0, …, n−1 in contiguous blocks over processes, as evenly as possible: larger blocks first.

    After a loss, the remaining blocks keep their `sizes`.

    >>> placement = Placement(agents=10, processes=3)
    >>> [placement.block(process) for process in range(3)]
    [range(0, 4), range(4, 7), range(7, 10)]
    >>> placement.owner(6), placement.local(6)
    (1, 2)
    >>> Placement(agents=6, processes=2, sizes=(2, 4)).block(1)
    range(2, 6)
    """

    agents: int
    processes: int
    sizes: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.processes < 1:
            raise InputError(f"{self.processes} processes: expected at least 1.")
        if self.processes > self.agents:
            raise InputError(
                f"{self.processes} processes for {self.agents} agents: each process hosts at least one agent, "
                f"use at most {self.agents}."
            )

    @cached_property
    def _bounds(self) -> tuple[int, ...]:
        """Where the blocks begin, and the end."""
        size, larger = divmod(self.agents, self.processes)
        even = tuple(size + (process < larger) for process in range(self.processes))
        return tuple(accumulate(self.sizes or even, initial=0))

    def block(self, process: int) -> range:
        """The agents that a process hosts."""
        return range(self._bounds[process], self._bounds[process + 1])

    def owner(self, agent: int) -> int:
        """The process that hosts an agent."""
        return bisect_right(self._bounds, agent) - 1

    def local(self, agent: int) -> int:
        """An agent's row within its process."""
        return agent - self.block(self.owner(agent)).start


@dataclass(frozen=True)
class ExchangePlan:
    """The rows that one process holds, sends and receives in one kind of exchange.

    It holds the rows of the agents hosted here and of all agents they receive from, in the agents' order; so the local
    rows are contiguous, and so are those that come from one other process.

    Args:
        own: the agents hosted here.
        received: agents hosted elsewhere whose rows are needed here, by the process that hosts them.
        sent: agents hosted here whose rows are needed elsewhere, by the process that needs them.
    """

    own: range
    received: dict[int, tuple[int, ...]]
    sent: dict[int, tuple[int, ...]]

    @cached_property
    def rows(self) -> tuple[int, ...]:
        """The agents whose rows this process holds, in order."""
        return tuple(sorted({*self.own, *(agent for agents in self.received.values() for agent in agents)}))

    @cached_property
    def first(self) -> int:
        """The row of the first agent hosted here."""
        return self.rows.index(self.own.start)

    @property
    def own_rows(self) -> slice:
        """The rows of the agents hosted here."""
        return slice(self.first, self.first + len(self.own))

    @property
    def peers(self) -> tuple[int, ...]:
        """The processes to exchange rows with."""
        return tuple(sorted({*self.received, *self.sent}))

    @cached_property
    def _place(self) -> dict[int, int]:
        return {agent: place for place, agent in enumerate(self.rows)}

    def rows_of(self, agents: tuple[int, ...]) -> Places:
        """Where these agents' rows are: a slice if they are contiguous."""
        places = [self._place[agent] for agent in agents]
        contiguous = places == list(range(places[0], places[0] + len(places))) if places else False
        return slice(places[0], places[-1] + 1) if contiguous else places

    def routes(self, plan: ExchangePlan | None = None) -> Routes:
        """Which of the rows held here travel in an exchange: those of this plan, or of another one with fewer rows."""
        plan = plan or self
        return {
            peer: (self.rows_of(plan.sent.get(peer, ())), self.rows_of(plan.received.get(peer, ())))
            for peer in plan.peers
        }


Routes = dict[int, tuple[Places, Places]]
"""By peer: where the rows are that it is sent, and where those go that it sends."""


def neighbour_plan(placement: Placement, process: int, pairs: Iterable[tuple[int, int]]) -> ExchangePlan:
    """Every agent receives from its neighbours: the exchange behind L·a and W·a.

    Args:
        placement: which process hosts which agents.
        process: whose plan to make.
        pairs: receivers and senders; both directions of an edge.

    >>> plan = neighbour_plan(Placement(4, 2), 0, [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2), (3, 0)])
    >>> plan.received, plan.sent, plan.rows
    ({1: (2,)}, {1: (0, 1)}, (0, 1, 2))
    """
    own = placement.block(process)
    received: dict[int, set[int]] = {}
    sent: dict[int, set[int]] = {}
    for receiver, sender in pairs:
        if receiver in own and sender not in own:
            received.setdefault(placement.owner(sender), set()).add(sender)
        elif sender in own and receiver not in own:
            sent.setdefault(placement.owner(receiver), set()).add(sender)
    return ExchangePlan(own, _in_order(received), _in_order(sent))


def all_agents_plan(placement: Placement, process: int) -> ExchangePlan:
    """Every agent receives from all agents: the exchange behind the mean of all rows."""
    own = placement.block(process)
    others = [peer for peer in range(placement.processes) if peer != process]
    return ExchangePlan(
        own, {peer: tuple(placement.block(peer)) for peer in others}, {peer: tuple(own) for peer in others}
    )


def _in_order(agents: dict[int, set[int]]) -> dict[int, tuple[int, ...]]:
    return {peer: tuple(sorted(agents[peer])) for peer in sorted(agents)}
