"""The graph: n agents and the undirected edges along which they exchange messages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, cast

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from peerdescent._util.validation import check_integer, described
from peerdescent.errors import InputError
from peerdescent.graphs import checks, matrices

Edge = tuple[int, int]
DIAMETER_UP_TO = 5000
"""Agents up to which the diameter is found by the way: its time is quadratic in them."""


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph of agents 0, …, n−1.

    Edges may have any order and direction; they are stored sorted, as (i, j) with i < j. Two graphs are equal if
    they have the same agents, edges and weights, whatever their `spec`. A graph is also the sequence that has it in
    every round, so it has the members of `GraphSequence`: `period`, `graph`, `union` and so on.

    Args:
        n: number of agents; a single agent without edges is valid.
        edges: pairs of agents, each pair once.
        weights: one positive number per edge, in the order of `edges`, or None.
        spec: the short text for `parse` that names the topology, or "".
        connected: whether to refuse several parts; a round of a sequence may have them.

    >>> square = Graph(4, ((0, 1), (1, 2), (3, 2), (3, 0)))
    >>> square.edges
    ((0, 1), (0, 3), (1, 2), (2, 3))
    >>> square.neighbours(0), square.diameter()
    ((1, 3), 2)
    """

    n: int
    edges: tuple[Edge, ...]
    weights: tuple[float, ...] | None = None
    spec: str = field(default="", compare=False)
    connected: bool = field(default=True, compare=False)

    period: ClassVar[int] = 1
    weighted_rounds: ClassVar[bool] = False

    def __post_init__(self) -> None:
        n = check_integer("the number of agents", self.n, 1, checks.MOST_EDGES + 1)
        pairs = _as_pairs(self.edges, n)
        weights = None if self.weights is None else checked_weights(self.weights, len(pairs))
        order = np.lexsort((pairs[:, 1], pairs[:, 0]))
        pairs = pairs[order]
        pairs.flags.writeable = False
        duplicates = np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))
        if len(duplicates):
            i, j = pairs[duplicates[0]].tolist()
            raise InputError(f"the edge ({i}, {j}) is given twice; give each edge once, in one direction.")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "edges", tuple(zip(*pairs.T.tolist(), strict=True)))
        object.__setattr__(self, "weights", None if weights is None else tuple(weights[e] for e in order))
        self.__dict__["pairs"] = pairs  # the cached property, filled
        if self.connected:
            self._check_connected()

    @classmethod
    def from_pairs(
        cls,
        n: int,
        pairs: NDArray[np.integer],
        weights: Iterable[float] | None = None,
        spec: str = "",
        connected: bool = True,
    ) -> Graph:
        """The same from an integer array of shape (edges, 2), which is checked much faster than a tuple.

        >>> Graph.from_pairs(3, np.array([[0, 1], [2, 1]])).edges
        ((0, 1), (1, 2))
        """
        return cls(n, cast("tuple[Edge, ...]", pairs), None if weights is None else tuple(weights), spec, connected)

    def _check_connected(self) -> None:
        i, j = self.pairs.T
        upper = coo_array((np.ones(len(i), dtype=np.int8), (i, j)), shape=(self.n, self.n))
        parts, label = connected_components(upper, directed=False)
        if parts > 1:
            stranded = int(np.flatnonzero(label != label[0])[0])
            raise InputError(
                f"the graph is not connected: it has {parts} parts, and no path from agent 0 to agent {stranded} "
                "(counted from 0); add edges between the parts."
            )

    def __str__(self) -> str:
        edges = "1 edge" if len(self.edges) == 1 else f"{len(self.edges)} edges"
        agents = "1 agent" if self.n == 1 else f"{self.n} agents"
        return f"{self.spec or 'graph'} ({agents}, {edges})"

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The edges as a read-only array of shape (number of edges, 2)."""
        pairs = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        pairs.flags.writeable = False
        return pairs

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """The number of neighbours of each agent, read-only.

        >>> Graph(3, ((0, 1), (1, 2))).degrees.tolist()
        [1, 2, 1]
        """
        degrees = np.bincount(self.pairs.ravel(), minlength=self.n).astype(np.int64)
        degrees.flags.writeable = False
        return degrees

    @cached_property
    def _adjacency(self) -> csr_array:
        i, j = self.pairs.T
        rows, columns = np.concatenate([i, j]), np.concatenate([j, i])
        adjacency = coo_array((np.ones(len(rows)), (rows, columns)), shape=(self.n, self.n)).tocsr()
        adjacency.sort_indices()
        return adjacency

    def neighbours(self, i: int) -> tuple[int, ...]:
        """The neighbours of agent i, in increasing order.

        >>> Graph(3, ((0, 1), (1, 2))).neighbours(1)
        (0, 2)
        """
        i = check_integer("the agent", i, 0, self.n)
        start, stop = self._adjacency.indptr[i : i + 2]
        return tuple(self._adjacency.indices[start:stop].tolist())

    def subset(self, agents: Iterable[int]) -> Graph:
        """The graph of some of the agents, renumbered in order; InputError if it must be connected and is not.

        >>> Graph(4, ((0, 1), (1, 2), (2, 3), (0, 3))).subset([0, 2, 3]).edges
        ((0, 2), (1, 2))
        """
        chosen = checks.agents(agents, self.n)
        kept = np.isin(self.pairs, chosen).all(axis=1)
        weights = None if self.weights is None else np.array(self.weights)[kept].tolist()
        return Graph.from_pairs(len(chosen), np.searchsorted(chosen, self.pairs[kept]), weights, "", self.connected)

    def graph(self, round: int) -> Graph:
        """The graph of a round: itself.

        >>> square = Graph(4, ((0, 1), (1, 2), (2, 3), (0, 3)))
        >>> square.graph(7) is square.union is square, square.period, square.edges_before(7)
        (True, 1, 28)
        """
        return self

    def edges_before(self, round: int) -> int:
        """The number of edges of all earlier rounds."""
        return round * len(self.edges)

    @property
    def union(self) -> Graph:
        """Every edge that a round may have."""
        return self

    @property
    def mean_edges(self) -> float:
        """The number of edges of a round."""
        return len(self.edges)

    @property
    def mean_degrees(self) -> NDArray[np.float64]:
        """The number of neighbours of each agent in a round."""
        return self.degrees.astype(np.float64)

    def diameter(self) -> int:
        """The largest distance between two agents, in hops.

        >>> Graph(3, ((0, 1), (1, 2))).diameter()
        2
        """
        if not self.connected:
            raise InputError(f"{self} may have several parts and then no diameter; ask the union of the rounds.")
        if self.n > 1 and self.degrees.max() <= 2:  # a path or a ring
            return self.n - 1 if len(self.edges) < self.n else self.n // 2
        longest = 0
        for start in range(0, self.n, 256):  # in blocks of rows, to need much less memory than n²
            block = np.arange(start, min(start + 256, self.n))
            hops = shortest_path(self._adjacency, method="D", unweighted=True, indices=block)
            longest = max(longest, int(np.max(hops)))
        return longest

    def quick_diameter(self) -> int | None:
        """The diameter, or None for a graph so large that it would take longer than a run.

        >>> Graph(3, ((0, 1), (1, 2))).quick_diameter()
        2
        """
        return self.diameter() if self.n <= DIAMETER_UP_TO or self.degrees.max() <= 2 else None

    @cached_property
    def text(self) -> str:
        """A text that `parse` turns into an equal graph: the spec, or the edges if no spec describes this graph.

        The spec of an edge-list file is not used, since it depends on a path. Several parts are no graph for `parse`;
        they are described as the only round of a sequence.

        >>> Graph(3, ((0, 1), (1, 2)), (1.0, 0.5)).text
        'edges:0-1=1.0,1-2=0.5'
        >>> Graph(1, ()).text
        'path:1'
        """
        from peerdescent.graphs.edge_lists import edges_text, text_of
        from peerdescent.graphs.spec import parse

        if not self.connected:
            return f"rounds:{self.n}:{edges_text(self)}"
        try:
            if self.spec and not self.spec.startswith("file:") and parse(self.spec) == self:
                return self.spec
        except InputError:
            pass
        return text_of(self)

    def to_networkx(self) -> Any:
        """The graph as a `networkx.Graph`, with weights as the edge attribute "weight".

        >>> sorted(Graph(3, ((0, 1), (1, 2))).to_networkx().edges)
        [(0, 1), (1, 2)]
        """
        g = nx.Graph()
        g.add_nodes_from(range(self.n))
        if self.weights is None:
            g.add_edges_from(self.edges)
        else:
            g.add_weighted_edges_from((i, j, w) for (i, j), w in zip(self.edges, self.weights, strict=True))
        return g

    def laplacian(self, kind: str = "metropolis") -> csr_array:
        """The Laplacian L; see `matrices.laplacian`.

        >>> print(Graph(2, ((0, 1),)).laplacian("unit").toarray())
        [[ 1. -1.]
         [-1.  1.]]
        """
        return matrices.laplacian(self, kind)

    def mixing(self, kind: str = "metropolis") -> csr_array:
        """The mixing matrix W; see `matrices.mixing`.

        >>> print(Graph(2, ((0, 1),)).mixing().toarray())
        [[0.5 0.5]
         [0.5 0.5]]
        """
        return matrices.mixing(self, kind)


def from_networkx(g: Any) -> Graph:
    """Convert a `networkx.Graph`.

    Nodes become agents 0, 1, … in sorted order, or in the order of `g.nodes` if they cannot be sorted. The edge
    attribute "weight" is kept; all edges must have it, or none.

    >>> import networkx as nx
    >>> print(from_networkx(nx.cycle_graph(5)))
    graph (5 agents, 5 edges)
    """
    if not isinstance(g, nx.Graph) or g.is_directed():
        name = type(g).__name__
        raise InputError(
            f"expected an undirected networkx graph, not {name}; for a DiGraph use from_digraph, or to_undirected()."
        )
    n, pairs, weights = networkx_edges(g)
    return Graph.from_pairs(n, pairs, weights)


def networkx_edges(g: Any) -> tuple[int, NDArray[np.int64], list[float] | None]:
    """The number of agents, the edges and their weights of a networkx graph, directed or not."""
    try:
        nodes = sorted(g.nodes)
    except TypeError:
        nodes = list(g.nodes)
    agent = {node: number for number, node in enumerate(nodes)}
    pairs = np.array([(agent[a], agent[b]) for a, b in g.edges()], dtype=np.int64).reshape(-1, 2)
    weights = [weight for _, _, weight in g.edges(data="weight")]
    given = sum(weight is not None for weight in weights)
    if 0 < given < len(weights):
        missing = len(weights) - given
        raise InputError(
            f"{missing} of {len(weights)} networkx edges have no weight; give all edges a weight, or none."
        )
    return len(nodes), pairs, weights if given else None


def _as_pairs(edges: Any, n: int) -> NDArray[np.int64]:
    """The edges as an array with i < j in each row; InputError for the first wrong one."""
    if not isinstance(edges, Iterable) or isinstance(edges, str | bytes | dict):
        raise InputError(f"the edges are {described(edges)}: expected pairs of agents (i, j).")
    if not (isinstance(edges, np.ndarray) and np.issubdtype(edges.dtype, np.integer) and edges.shape[1:] == (2,)):
        return np.array([_edge(pair, n) for pair in edges], dtype=np.int64).reshape(-1, 2)
    pairs = np.sort(edges.astype(np.int64), axis=1)
    wrong = np.flatnonzero((pairs[:, 0] < 0) | (pairs[:, 1] >= n) | (pairs[:, 0] == pairs[:, 1]))
    if len(wrong):
        _edge(edges[wrong[0]].tolist(), n)
    return pairs


def _edge(pair: Any, n: int) -> Edge:
    try:
        i, j = pair
    except (TypeError, ValueError):
        raise InputError(f"an edge must be a pair of agents (i, j), not {described(pair)}.") from None
    i, j = (check_integer(f"an agent in the edge ({i}, {j})", agent, 0, n) for agent in (i, j))
    if i == j:
        raise InputError(f"the edge ({i}, {j}) connects an agent to itself; remove it.")
    return (i, j) if i < j else (j, i)


def checked_weights(weights: Iterable[Any], edges: int) -> list[float]:
    """The weights of so many edges; InputError unless they are positive numbers."""
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"edge weights must be numbers, not {described(weights)}; give one number per edge.") from None
    if len(numbers) != edges:
        raise InputError(f"there are {len(numbers)} weights for {edges} edges; give one weight per edge.")
    for number in numbers:
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"an edge weight must be positive and finite, not {number}; remove edges without weight.")
    return numbers
