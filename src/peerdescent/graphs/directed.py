"""Directed graphs: who sends to whom, the same in every round or in rounds that repeat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.sparse.csgraph import breadth_first_order, shortest_path

from peerdescent._util.validation import check_integer, described
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import DIAMETER_UP_TO, Edge, Graph, checked_weights, networkx_edges
from peerdescent.graphs.periodic import once
from peerdescent.graphs.sequence import GraphSequence, activity_of

Pairs = NDArray[np.int64]


@dataclass(frozen=True)
class Arcs:
    """The directed edges of one round.

    Args:
        edges: senders and receivers, sorted.
        weights: one positive number per edge, or None.
    """

    edges: tuple[Edge, ...]
    weights: tuple[float, ...] | None = None

    @classmethod
    def of(cls, n: int, edges: Any, weights: Iterable[Any] | None = None) -> Arcs:
        """The edges of a graph of n agents, checked and sorted.

        >>> Arcs.of(3, [(2, 0), (0, 1)], [0.5, 0.25])
        Arcs(edges=((0, 1), (2, 0)), weights=(0.25, 0.5))
        """
        if not isinstance(edges, Iterable) or isinstance(edges, str | bytes | dict):
            raise InputError(f"the edges are {described(edges)}: expected pairs of agents (sender, receiver).")
        pairs = np.array([_edge(pair, n) for pair in edges], dtype=np.int64).reshape(-1, 2)
        numbers = None if weights is None else checked_weights(weights, len(pairs))
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        pairs = pairs[order]
        if len(twice := np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))):
            i, j = pairs[twice[0]].tolist()
            raise InputError(f"the directed edge from {i} to {j} is given twice; give it once.")
        listed = tuple((int(i), int(j)) for i, j in pairs.tolist())
        return cls(listed, None if numbers is None else tuple(numbers[e] for e in order))

    @cached_property
    def pairs(self) -> Pairs:
        """The same as an array of shape (number of edges, 2)."""
        return np.array(self.edges, dtype=np.int64).reshape(-1, 2)

    def subset(self, agents: NDArray[np.int64]) -> Arcs:
        """The edges between some agents, which are renumbered in order."""
        kept = np.isin(self.pairs, agents).all(axis=1)
        weights = None if self.weights is None else tuple(np.array(self.weights)[kept].tolist())
        pairs = np.searchsorted(agents, self.pairs[kept]).tolist()
        return Arcs(tuple((i, j) for i, j in pairs), weights)


@dataclass(frozen=True)
class DirectedGraph(GraphSequence):
    """A strongly connected directed graph of agents 0, …, n−1, or a list of them that repeats, one per round.

    Every agent keeps a part of what it sends, so it needs no edge to itself. The rounds of one period together are
    strongly connected. `graph(round)` and `union` are undirected: who is linked, whatever the direction.

    Args:
        rounds: the directed edges of each round; one round is a graph that stays.
        connected: whether to refuse a graph that is not strongly connected.

    >>> from peerdescent.graphs import directed_graph
    >>> triangle = directed_graph(3, [(0, 1), (1, 2), (2, 0)])
    >>> triangle.text, triangle.period, triangle.out_degrees.tolist(), triangle.diameter()
    ('directed-edges:0-1,1-2,2-0', 1, [1, 1, 1], 2)
    """

    rounds: tuple[Arcs, ...]
    connected: bool = field(default=True, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        check_integer("the number of agents", self.n, 1, checks.MOST_EDGES + 1)
        if not self.rounds:
            raise InputError("a graph sequence needs at least one graph.")
        object.__setattr__(self, "rounds", once(self.rounds))
        if self.connected:
            self._check_strongly_connected()

    def _check_strongly_connected(self) -> None:
        together = "" if self.period == 1 else "over one period "
        for matrix, sentence in (
            (self._adjacency, "no directed path leads from agent 0 to agent {}"),
            (csr_array(self._adjacency.T), "no directed path leads from agent {} to agent 0"),
        ):
            reached = breadth_first_order(matrix, 0, directed=True, return_predecessors=False)
            if len(reached) < self.n:
                stranded = int(np.setdiff1d(np.arange(self.n), reached)[0])
                raise InputError(
                    f"the directed graph is not strongly connected: {together}{sentence.format(stranded)} (counted "
                    "from 0); add edges on the way."
                )

    @property
    def period(self) -> int:
        """The number of rounds after which the graph repeats; 1 if it stays."""
        return len(self.rounds)

    def arcs(self, round: int) -> Arcs:
        """The directed edges of a round, counted from 0.

        >>> from peerdescent.graphs import parse
        >>> parse("directed-onepeer-exp:3").arcs(1).edges
        ((0, 2), (1, 0), (2, 1))
        """
        return self.rounds[check_integer("the round", round, 0) % self.period]

    @cached_property
    def all_arcs(self) -> Pairs:
        """Senders and receivers of all rounds together, each pair once."""
        return np.unique(np.concatenate([arcs.pairs for arcs in self.rounds]), axis=0)

    @cached_property
    def _adjacency(self) -> csr_array:
        senders, receivers = self.all_arcs.T
        return csr_array((np.ones(len(senders)), (senders, receivers)), shape=(self.n, self.n))

    @cached_property
    def out_degrees(self) -> NDArray[np.int64]:
        """To how many others each agent sends, in all rounds together."""
        return np.bincount(self.all_arcs[:, 0], minlength=self.n).astype(np.int64)

    def diameter(self) -> int:
        """The largest distance from one agent to another, in hops along the edges of all rounds."""
        longest = 0
        for start in range(0, self.n, 256):
            block = np.arange(start, min(start + 256, self.n))
            hops = shortest_path(self._adjacency, method="D", unweighted=True, indices=block)
            longest = max(longest, int(np.max(hops)))
        return longest

    def quick_diameter(self) -> int | None:
        """The diameter, or None for a graph so large that it would take longer than a run."""
        return self.diameter() if self.n <= DIAMETER_UP_TO else None

    @cached_property
    def union(self) -> Graph:
        """Every pair of agents of which one ever sends to the other."""
        return _undirected(self.n, self.all_arcs, self.connected)

    def _make(self, round: int) -> Graph:
        return _undirected(self.n, self.arcs(round).pairs, connected=False)

    @cached_property
    def activity(self) -> NDArray[np.float64]:
        """In which fraction of the rounds each edge of the union is, in whichever direction."""
        return activity_of(self.union, [self.graph(round) for round in range(self.period)])

    @cached_property
    def _before(self) -> list[int]:
        return list(accumulate((len(arcs.edges) for arcs in self.rounds), initial=0))

    @property
    def mean_edges(self) -> float:
        """The number of directed edges of a round, on average."""
        return self._before[-1] / self.period

    @property
    def mean_degrees(self) -> NDArray[np.float64]:
        """To how many others each agent sends in a round, on average."""
        senders = np.concatenate([arcs.pairs[:, 0] for arcs in self.rounds])
        return np.bincount(senders, minlength=self.n) / self.period

    def edges_before(self, round: int) -> int:
        """The number of directed edges of all earlier rounds."""
        periods, rest = divmod(check_integer("the round", round, 0), self.period)
        return periods * self._before[-1] + self._before[rest]

    def subset(self, agents: Iterable[int]) -> DirectedGraph:
        """The graph of some of the agents, renumbered in order; InputError if it is not strongly connected."""
        chosen = checks.agents(agents, self.n)
        if not len(chosen):
            raise InputError("a subset of no agents: name at least one.")
        rounds = tuple(arcs.subset(chosen) for arcs in self.rounds)
        return DirectedGraph(len(chosen), rounds, connected=self.connected)

    @cached_property
    def text(self) -> str:
        """A text that `parse` turns into an equal graph: the spec, or the edges if no spec describes them."""
        from peerdescent.graphs.directed_texts import text_of
        from peerdescent.graphs.spec import parse

        try:
            if self.spec and not self.spec.startswith(("file:", "directed-file:")) and parse(self.spec) == self:
                return self.spec
        except InputError:
            pass
        return text_of(self)

    def to_networkx(self) -> Any:
        """The edges of all rounds as a `networkx.DiGraph`, without weights."""
        g = nx.DiGraph()
        g.add_nodes_from(range(self.n))
        g.add_edges_from(self.all_arcs.tolist())
        return g

    def __str__(self) -> str:
        agents = "1 agent" if self.n == 1 else f"{self.n} agents"
        edges = f"{self.mean_edges:.4g} directed edge{'s' * (self.mean_edges != 1)}"
        over_time = "" if self.period == 1 else f" per round, period {self.period}"
        return f"{self.spec or 'directed graph'} ({agents}, {edges}{over_time})"


def directed_graph(
    n: int, edges: Any, weights: Iterable[float] | None = None, spec: str = "", connected: bool = True
) -> DirectedGraph:
    """A directed graph that stays the same.

    Args:
        n: number of agents.
        edges: pairs (sender, receiver), each once.
        weights: what part of its message each sender gives to each receiver, in the order of `edges`, or None. They
            are used with `mixing = "weighted"`; an agent keeps the rest.
        spec: the short text for `parse`, or "".
        connected: whether to refuse a graph that is not strongly connected; a round of a sequence may be.

    >>> print(directed_graph(3, [(0, 1), (1, 0), (1, 2), (2, 0)]))
    directed graph (3 agents, 4 directed edges)
    >>> directed_graph(3, [(0, 1), (1, 0), (1, 2)])
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: the directed graph is not strongly connected: no directed path leads from agent 2 \
to agent 0 (counted from 0); add edges on the way.
    """
    n = check_integer("the number of agents", n, 1, checks.MOST_EDGES + 1)
    return DirectedGraph(n, (Arcs.of(n, edges, weights),), spec=spec, connected=connected)


def from_digraph(g: Any, connected: bool = True) -> DirectedGraph:
    """Convert a `networkx.DiGraph`: an edge (a, b) lets a send to b; nodes and weights as in `from_networkx`.

    >>> import networkx as nx
    >>> print(from_digraph(nx.cycle_graph(4, create_using=nx.DiGraph)))
    directed graph (4 agents, 4 directed edges)
    """
    n, pairs, weights = networkx_edges(g)
    return directed_graph(n, pairs, weights, connected=connected)


def is_directed(graph: object) -> bool:
    """Whether a value is a directed graph, of this library or of networkx."""
    return isinstance(graph, DirectedGraph) or (isinstance(graph, nx.Graph) and graph.is_directed())


def directed_sequence(graphs: Iterable[object]) -> DirectedGraph:
    """The directed graph that has one of these in each round, and starts again at their end.

    >>> one, two = ("directed-rounds:3:0-1,1-2/2-0", directed_graph(3, [(2, 0)], connected=False))
    >>> directed_sequence([directed_graph(3, [(0, 1), (1, 2)], connected=False), two]).text == one
    True
    """
    rounds = list[Arcs]()
    n = 0
    for number, given in enumerate(graphs):
        if not is_directed(given):
            raise InputError(f"round {number} is {described(given)}, and another round is directed: give all the same.")
        graph = given if isinstance(given, DirectedGraph) else from_digraph(given, connected=False)
        n = n or graph.n
        if graph.n != n:
            raise InputError(
                f"the graph of round {number} has {graph.n} agents and that of round 0 has {n}: give all rounds the "
                "same agents."
            )
        rounds += graph.rounds
    return DirectedGraph(n, tuple(rounds))


def _edge(pair: Any, n: int) -> Edge:
    try:
        i, j = pair
    except (TypeError, ValueError):
        raise InputError(f"a directed edge must be a pair (sender, receiver), not {described(pair)}.") from None
    i, j = (check_integer(f"an agent in the edge ({i}, {j})", agent, 0, n) for agent in (i, j))
    if i == j:
        raise InputError(f"the edge ({i}, {j}) connects an agent to itself; remove it.")
    return i, j


def _undirected(n: int, arcs: Pairs, connected: bool) -> Graph:
    """The pairs of agents that arcs link."""
    ends = np.sort(arcs, axis=1)
    keys = np.unique(ends[:, 0] * n + ends[:, 1])
    return Graph.from_pairs(n, np.stack([keys // n, keys % n], axis=1), connected=connected)
