"""Graphs over time: a sequence has one graph per round, and a round is one exchange of messages."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph

CACHED = 128
"""How many rounds of a sequence without a period are kept."""


@dataclass(frozen=True)
class GraphSequence(ABC):
    """One graph of the same n agents for each round 0, 1, …; a pure function of the round.

    A round may leave agents without an edge; the union of all rounds is connected. Sequences are equal if they have
    the same graphs, whatever their `spec`. A subclass defines `_make` and `union`.

    Args:
        n: number of agents.
        spec: the short text for `parse` that makes the sequence again, or "".
    """

    n: int
    spec: str = field(default="", compare=False, kw_only=True)

    @property
    def period(self) -> int | None:
        """The number of rounds after which the sequence repeats; None if it does not."""
        return None

    @property
    def weighted_rounds(self) -> bool:
        """Whether the edge weights of a round are the entries of its mixing matrix.

        Then W_ij = w_ij on its edges and W = I − L with the Laplacian L of these weights.
        """
        return False

    @abstractmethod
    def _make(self, round: int) -> Graph:
        """The graph of a round."""

    @property
    @abstractmethod
    def union(self) -> Graph:
        """Every edge that a round may have, without weights."""

    @property
    @abstractmethod
    def text(self) -> str:
        """A text that `parse` turns into an equal sequence, and that needs no file."""

    @property
    @abstractmethod
    def activity(self) -> NDArray[np.float64]:
        """In which fraction of the rounds each edge of the union is; expected, where rounds are random.

        >>> from peerdescent.graphs import parse
        >>> parse("onepeer-exp:4").activity.tolist()
        [0.5, 0.5, 0.5, 0.5]
        """

    @property
    def mean_edges(self) -> float:
        """The number of edges of a round, on average; expected, where rounds are random."""
        return float(self.activity.sum())

    @property
    def mean_degrees(self) -> NDArray[np.float64]:
        """The number of neighbours of each agent in a round, on average.

        >>> from peerdescent.graphs import parse
        >>> parse("rounds:3:0-1/1-2").mean_degrees.tolist()
        [0.5, 1.0, 0.5]
        """
        sums = np.bincount(self.union.pairs.ravel(), np.repeat(self.activity, 2), minlength=self.n)
        return np.asarray(sums, dtype=np.float64)

    def graph(self, round: int) -> Graph:
        """The graph of a round, counted from 0.

        >>> from peerdescent.graphs import parse
        >>> [parse("onepeer-exp:4").graph(r).edges for r in (0, 1, 2)]
        [((0, 1), (2, 3)), ((0, 2), (1, 3)), ((0, 1), (2, 3))]
        """
        cache = self._rounds
        if (known := cache.get(round)) is not None:
            return known
        made = self._make(check_integer("the round", round, 0, 2**63))
        if len(cache) >= CACHED:
            cache.pop(next(iter(cache)))
        return cache.setdefault(round, made)

    def edges_before(self, round: int) -> int:
        """The number of edges of all earlier rounds.

        >>> from peerdescent.graphs import parse
        >>> parse("onepeer-exp:4").edges_before(3)
        6
        """
        round = check_integer("the round", round, 0)
        totals = self._totals
        while len(totals) <= round:
            totals.append(totals[-1] + self._size(len(totals) - 1))
        return totals[round]

    def subset(self, agents: Iterable[int]) -> GraphSequence:
        """The sequence of some of the agents, renumbered in order; InputError if its union is not connected.

        >>> from peerdescent.graphs import parse
        >>> parse("onepeer-exp:4").subset([0, 1, 3]).graph(1).edges
        ((1, 2),)
        """
        return Subset.of(self, agents)

    def _size(self, round: int) -> int:
        """The number of edges of a round; defined again where that is cheaper than the graph."""
        return len(self.graph(round).edges)

    @cached_property
    def _rounds(self) -> dict[int, Graph]:
        return {}

    @cached_property
    def _totals(self) -> list[int]:
        return [0]

    def __str__(self) -> str:
        agents = "1 agent" if self.n == 1 else f"{self.n} agents"
        rounds = "random rounds" if self.period is None else f"period {self.period}"
        return f"{self.spec or 'graph sequence'} ({agents}, {rounds}, {self.mean_edges:.4g} edges per round)"

    def __getstate__(self) -> dict[str, Any]:
        """The fields; what is kept of rounds is made again."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}


AnyGraph = Graph | GraphSequence
"""A graph that stays the same, or one that changes from round to round."""


@dataclass(frozen=True)
class Subset(GraphSequence):
    """Some agents of a sequence, as `GraphSequence.subset` returns them.

    >>> from peerdescent.graphs import parse
    >>> parse("matching:6").subset([0, 1, 4]).text
    'subset:0,1,4:matching:6:seed=0'
    """

    whole: GraphSequence = field(kw_only=True)
    agents: tuple[int, ...] = field(kw_only=True)

    @classmethod
    def of(cls, whole: GraphSequence, agents: Iterable[int]) -> Subset:
        """These agents of a sequence."""
        chosen = checks.agents(agents, whole.n)
        if isinstance(whole, Subset):
            return cls.of(whole.whole, (whole.agents[agent] for agent in chosen))
        spec = f"subset:{','.join(map(str, chosen))}:{whole.spec}" if whole.spec else ""
        return cls(len(chosen), spec=spec, whole=whole, agents=tuple(chosen.tolist()))

    def __post_init__(self) -> None:
        if not self.agents:
            raise InputError("a subset of no agents: name at least one.")
        self.union  # noqa: B018  refuses a subset that no round connects

    @property
    def weighted_rounds(self) -> bool:
        """Whether the edge weights of a round are the entries of its mixing matrix."""
        return self.whole.weighted_rounds

    @cached_property
    def union(self) -> Graph:
        """Every edge that a round may have, without weights."""
        return self.whole.union.subset(self.agents)

    @property
    def text(self) -> str:
        """A text that `parse` turns into an equal sequence."""
        return f"subset:{','.join(map(str, self.agents))}:{self.whole.text}"

    @cached_property
    def activity(self) -> NDArray[np.float64]:
        """In which fraction of the rounds each edge of the union is."""
        return self.whole.activity[np.isin(self.whole.union.pairs, self.agents).all(axis=1)]

    def _make(self, round: int) -> Graph:
        return several_parts(self.whole.graph(round)).subset(self.agents)


def as_static(graph: AnyGraph, what: str) -> Graph:
    """The graph, or InputError for a sequence where only one graph makes sense.

    Args:
        graph: a graph or a sequence.
        what: what needs a static graph, as the subject of the message.

    >>> from peerdescent.graphs import parse
    >>> as_static(parse("matching:4"), "Theorem 1")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: Theorem 1 needs one graph for all rounds, and matching:4:seed=0 changes from round \
to round; give a static graph such as ring:4.
    """
    if isinstance(graph, Graph):
        return graph
    from peerdescent.graphs.directed import DirectedGraph

    if isinstance(graph, DirectedGraph):
        raise InputError(
            f"{what} needs an undirected graph, and {graph.spec or 'this graph'} is directed; give one such as "
            f"ring:{graph.n}."
        )
    raise InputError(
        f"{what} needs one graph for all rounds, and {graph.spec or 'this sequence'} changes from round to round; "
        f"give a static graph such as ring:{graph.n}."
    )


def several_parts(graph: Graph) -> Graph:
    """The same graph as a round of a sequence, which may have several parts."""
    return graph if not graph.connected else Graph.from_pairs(graph.n, graph.pairs, graph.weights, connected=False)


def activity_of(union: Graph, rounds: Sequence[Graph]) -> NDArray[np.float64]:
    """In which fraction of these rounds each edge of the union is."""
    n = union.n
    keys = union.pairs[:, 0] * n + union.pairs[:, 1]  # sorted, as edges are
    counts = np.zeros(len(keys))
    for graph in rounds:
        counts[np.searchsorted(keys, graph.pairs[:, 0] * n + graph.pairs[:, 1])] += 1
    return counts / len(rounds)
