"""The graph itself: n agents and the undirected edges along which they talk."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components, shortest_path

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import matrices

Edge = tuple[int, int]


@dataclass(frozen=True)
class Graph:
    """A connected undirected graph of agents 0, …, n−1.

    Edges may be given in any order and direction; they are stored as (i, j) with i < j, sorted. Two graphs
    are equal if they have the same agents, edges and weights, whatever text made them.

    Args:
        n: number of agents; one agent without edges is a legal graph.
        edges: pairs of agents, each pair once.
        weights: one positive number per edge, in the order of `edges`, or None.
        spec: the text which makes this graph again with `parse`; empty if there is none.

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

    def __post_init__(self) -> None:
        n = check_integer("the number of agents", self.n, 1)
        edges = [_edge(pair, n) for pair in self.edges]
        weights = None if self.weights is None else _weights(self.weights, len(edges))
        order = sorted(range(len(edges)), key=edges.__getitem__)
        for first, second in pairwise(order):
            if edges[first] == edges[second]:
                i, j = edges[first]
                raise InputError(f"the edge ({i}, {j}) is given twice; give each edge once, in one direction.")
        object.__setattr__(self, "n", n)
        object.__setattr__(self, "edges", tuple(edges[e] for e in order))
        object.__setattr__(self, "weights", None if weights is None else tuple(weights[e] for e in order))
        self._check_connected()

    def _check_connected(self) -> None:
        parts, label = connected_components(self._adjacency, directed=False)
        if parts > 1:
            stranded = int(np.flatnonzero(label != label[0])[0])
            raise InputError(
                f"the graph falls into {parts} parts: no path leads from agent 0 to agent {stranded} "
                "(agents counted from 0); add edges which join the parts."
            )

    def __str__(self) -> str:
        edges = "1 edge" if len(self.edges) == 1 else f"{len(self.edges)} edges"
        agents = "1 agent" if self.n == 1 else f"{self.n} agents"
        return f"{self.spec or 'graph'} ({agents}, {edges})"

    @cached_property
    def pairs(self) -> NDArray[np.int64]:
        """The edges as an array of shape (number of edges, 2), not writable."""
        pairs = np.array(self.edges, dtype=np.int64).reshape(-1, 2)
        pairs.flags.writeable = False
        return pairs

    @cached_property
    def degrees(self) -> NDArray[np.int64]:
        """How many neighbours each agent has, not writable.

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
        """The agents which agent i talks to, in increasing order.

        >>> Graph(3, ((0, 1), (1, 2))).neighbours(1)
        (0, 2)
        """
        i = check_integer("the agent", i, 0, self.n)
        start, stop = self._adjacency.indptr[i : i + 2]
        return tuple(self._adjacency.indices[start:stop].tolist())

    def subset(self, agents: Iterable[int]) -> Graph:
        """The edges between some of the agents, who are numbered anew in their order; refused if they fall apart.

        >>> Graph(4, ((0, 1), (1, 2), (2, 3), (0, 3))).subset([0, 2, 3]).edges
        ((0, 2), (1, 2))
        """
        number = {agent: new for new, agent in enumerate(sorted(agents))}
        kept = [place for place, (i, j) in enumerate(self.edges) if i in number and j in number]
        edges = tuple((number[self.edges[place][0]], number[self.edges[place][1]]) for place in kept)
        weights = None if self.weights is None else tuple(self.weights[place] for place in kept)
        return Graph(len(number), edges, weights)

    def diameter(self) -> int:
        """The largest number of hops between two agents.

        >>> Graph(3, ((0, 1), (1, 2))).diameter()
        2
        """
        longest = 0
        for start in range(0, self.n, 256):  # blocks of rows, so that memory stays far below n²
            block = np.arange(start, min(start + 256, self.n))
            hops = shortest_path(self._adjacency, method="D", unweighted=True, indices=block)
            longest = max(longest, int(np.max(hops)))
        return longest

    def to_networkx(self) -> Any:
        """The same graph as a `networkx.Graph`, with weights as the edge attribute "weight".

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
    """The graph of a `networkx.Graph`.

    Nodes become agents 0, 1, … in sorted order, or in the order of `g.nodes` where they cannot be sorted.
    The edge attribute "weight" is kept; either every edge has it or none.

    >>> import networkx as nx
    >>> print(from_networkx(nx.cycle_graph(5)))
    graph (5 agents, 5 edges)
    """
    if not isinstance(g, nx.Graph) or g.is_directed():
        name = type(g).__name__
        raise InputError(f"expected an undirected networkx graph, not {name}; for a DiGraph call to_undirected().")
    try:
        nodes = sorted(g.nodes)
    except TypeError:
        nodes = list(g.nodes)
    agent = {node: number for number, node in enumerate(nodes)}
    edges = tuple((agent[a], agent[b]) for a, b in g.edges())
    weights = [weight for _, _, weight in g.edges(data="weight")]
    given = sum(weight is not None for weight in weights)
    if 0 < given < len(weights):
        missing = len(weights) - given
        raise InputError(f"{missing} of {len(weights)} networkx edges have no weight; weigh all edges or none.")
    return Graph(len(nodes), edges, tuple(weights) if given else None)


def _edge(pair: Any, n: int) -> Edge:
    try:
        i, j = pair
    except (TypeError, ValueError):
        raise InputError(f"an edge must be a pair of agents, not {pair!r}; write it as (i, j).") from None
    i, j = (check_integer(f"an agent in the edge ({i}, {j})", agent, 0, n) for agent in (i, j))
    if i == j:
        raise InputError(f"the edge ({i}, {j}) joins an agent to itself; leave it out, it is always understood.")
    return (i, j) if i < j else (j, i)


def _weights(weights: Iterable[Any], edges: int) -> list[float]:
    try:
        numbers = [float(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"edge weights must be numbers, not {weights!r}; give one per edge.") from None
    if len(numbers) != edges:
        raise InputError(f"there are {len(numbers)} weights for {edges} edges; give one weight per edge.")
    for number in numbers:
        if not (math.isfinite(number) and number > 0):
            raise InputError(f"an edge weight must be positive and finite, not {number}; leave out absent edges.")
    return numbers
