"""Column-stochastic weights P for directed graphs: P_ij is the part of agent j's message that agent i gets.

Agent j keeps P_jj > 0 and splits the rest among those it sends to, so every column sums to one, and sums over the
agents stay as they are: 1ᵀPx = 1ᵀx. Rows need not sum to one, which push-sum corrects.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array

from peerdescent.errors import InputError
from peerdescent.graphs.directed import Arcs, DirectedGraph, directed_graph
from peerdescent.graphs.own_weights import PUSHED, is_own, label, parse_own

EQUAL, LAZY, WEIGHTED = "metropolis", "lazy", "weighted"
KEPT = 1e-9
"""What an agent must at least keep for itself."""


def push_matrix(graph: DirectedGraph, round: int = 0, kind: str = EQUAL) -> csr_array:
    """The matrix P of a round, in which agent j keeps a part and sends the others along its edges.

    Args:
        graph: who sends to whom.
        round: counted from 0.
        kind: "metropolis", the default of settings, splits equally, P_ij = 1/(1 + out-degree of j); "lazy" is
            (I + P)/2; "weighted" has the edges' weights; or P itself, as `as_kind` returns it.

    >>> from peerdescent.graphs import directed_graph
    >>> print(push_matrix(directed_graph(3, [(0, 1), (0, 2), (1, 0), (2, 0)])).toarray().round(3))
    [[0.333 0.5   0.5  ]
     [0.333 0.5   0.   ]
     [0.333 0.    0.5  ]]
    """
    arcs = graph.arcs(round)
    pairs, weights = _own(graph, kind) if is_own(kind) else (arcs.pairs, _weights(graph.n, arcs, kind))
    senders, receivers = pairs.T
    sent = np.bincount(senders, weights, minlength=graph.n)
    if sent.max(initial=0.0) > 1 - KEPT:
        j = int(sent.argmax())
        raise InputError(
            f"the parts that agent {j} sends sum to {sent[j]:.6g}: expected less than 1, since it keeps a part itself; "
            "choose smaller weights, or leave mixing out."
        )
    agents = np.arange(graph.n)
    rows, columns = np.concatenate([receivers, agents]), np.concatenate([senders, agents])
    P = coo_array((np.concatenate([weights, 1.0 - sent]), (rows, columns)), shape=(graph.n, graph.n)).tocsr()
    P.sort_indices()
    return P


def _weights(n: int, arcs: Arcs, kind: str) -> NDArray[np.float64]:
    """What travels along each edge of a round."""
    if kind in (EQUAL, LAZY):
        out = np.bincount(arcs.pairs[:, 0], minlength=n)[arcs.pairs[:, 0]]
        return np.asarray((1.0 if kind == EQUAL else 0.5) / (1.0 + out), dtype=np.float64)
    if kind != WEIGHTED:
        raise InputError(
            f"mixing = {label(kind)!r} is for undirected graphs: on a directed one use 'metropolis', which splits a "
            "message equally, 'lazy', 'weighted' or a column-stochastic matrix of your own."
        )
    if arcs.weights is None and arcs.edges:
        raise InputError("mixing = 'weighted' needs edge weights, and the directed graph has none; leave mixing out.")
    return np.array(arcs.weights or (), dtype=np.float64)


def _own(graph: DirectedGraph, kind: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The edges of P and their weights, checked against the graph."""
    if graph.period != 1:
        raise InputError(
            f"mixing = {label(kind)!r} is for one graph, and here the graph changes over time: leave mixing out."
        )
    pairs, weights = _parse(kind)
    n = 1 + int(pairs.max(initial=0))
    if n != graph.n:
        raise InputError(f"P is {n}×{n} and the graph has {graph.n} agents: they must be the same.")
    absent = set(map(tuple, pairs.tolist())) - set(graph.arcs(0).edges)
    if absent:
        j, i = min(absent)
        raise InputError(
            f"P has an entry in row {i}, column {j}, and {graph} has no edge from {j} to {i}: add the edge, or make "
            "the graph from the matrix, with graph = file:PATH or the matrix itself."
        )
    try:
        directed_graph(n, pairs.tolist())
    except InputError as error:
        raise InputError(f"P: {error}") from None
    return pairs, weights


def _parse(kind: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Senders and receivers, and weights; a symmetric W has every edge in both directions."""
    directed = kind.startswith(PUSHED)
    edges = parse_own(kind, directed)
    if (edges.weights <= 0).any():
        raise InputError("a directed graph needs positive weights, and W has negative ones.")
    if directed:
        return edges.pairs, edges.weights
    return np.concatenate([edges.pairs, edges.pairs[:, ::-1]]), np.concatenate([edges.weights, edges.weights])
