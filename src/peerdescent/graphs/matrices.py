"""Laplacians and mixing matrices as sparse matrices, each from one edge weighting.

A weighting w assigns a number to each edge. Its Laplacian and mixing matrix are

    L = Σ_(i,j) w_ij (e_i − e_j)(e_i − e_j)ᵀ,        W = I − L,

so L1 = 0, and W is symmetric with rows that sum to one. Each row stores the agent itself and its neighbours in
increasing order; the diagonal is always stored, even if it is zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from peerdescent._util.validation import described, did_you_mean
from peerdescent.errors import InputError
from peerdescent.graphs import own_weights
from peerdescent.graphs.fastest import fastest
from peerdescent.graphs.spectra import ends_of

if TYPE_CHECKING:
    from peerdescent.graphs.graph import Graph

Weights = NDArray[np.float64]


@dataclass(frozen=True)
class Weighting:
    """A named edge weighting: the function and one line about it."""

    weigh: Callable[[Graph], Weights]
    summary: str
    note: Callable[[Graph], str] | None = None
    """What a run says about its weights."""


def laplacian(graph: Graph, kind: str = "metropolis") -> csr_array:
    """The Laplacian L of a graph, L_ij = −w_ij on edges and L_ii = Σ_j w_ij.

    Args:
        graph: the communication graph.
        kind: `KIND[:SCALE]`, a name in `LAPLACIANS` and a positive factor of L; or L itself, as an array, a sparse
            matrix or `file:PATH`.

    >>> from peerdescent.graphs import path
    >>> print(laplacian(path(3), "unit:0.5").toarray())
    [[ 0.5 -0.5  0. ]
     [-0.5  1.  -0.5]
     [ 0.  -0.5  0.5]]
    """
    _check_graph(graph)
    if own_weights.is_own(kind := own_weights.as_kind("laplacian", kind)):
        return _own(graph, "laplacian", kind)
    name, colon, text = kind.partition(":")
    weigh = _lookup(LAPLACIANS, "Laplacian", name).weigh
    scale = _scale(kind, text) if colon else 1.0
    with np.errstate(over="ignore"):  # reported below
        weights = scale * weigh(graph)
        diagonal = _row_sums(graph, weights)
    if not (np.isfinite(diagonal).all() and (weights > 0).all()):
        raise InputError(f"Laplacian {kind!r} overflows or underflows float64; choose weights and SCALE closer to 1.")
    return _matrix(graph, -weights, diagonal)


def mixing(graph: Graph, kind: str = "metropolis") -> csr_array:
    """The mixing matrix W of a graph: symmetric, with rows and columns that sum to one.

    Args:
        graph: the communication graph; its edge weights are ignored by all kinds but "weighted".
        kind: a name in `MIXINGS`; or W itself, as an array, a sparse matrix or `file:PATH`.

    >>> from peerdescent.graphs import path
    >>> print(mixing(path(3), "lazy").toarray().round(3))
    [[0.833 0.167 0.   ]
     [0.167 0.667 0.167]
     [0.    0.167 0.833]]
    """
    _check_graph(graph)
    if own_weights.is_own(kind := own_weights.as_kind("mixing", kind)):
        return _own(graph, "mixing", kind)
    weights = _lookup(MIXINGS, "mixing matrix", kind).weigh(graph)
    W = _matrix(graph, weights, 1.0 - _row_sums(graph, weights))
    if kind == WEIGHTED:
        own_weights.check_eigenvalues(_matrix(graph, -weights, _row_sums(graph, weights)), "mixing")
    return W


def disagreement(graph: Graph, kind: str = "metropolis") -> csr_array:
    """I−W with the mixing matrix W of a graph; the arguments are those of `mixing`.

    >>> from peerdescent.graphs import path
    >>> print(disagreement(path(2)).toarray())
    [[ 0.5 -0.5]
     [-0.5  0.5]]
    """
    W = mixing(graph, kind)
    rows = np.repeat(np.arange(graph.n), np.diff(W.indptr))
    values = np.where(W.indices == rows, 1.0, 0.0) - W.data
    return csr_array((values, W.indices, W.indptr), shape=W.shape)


def mixing_note(graph: Graph, kind: str) -> str:
    """What a run says about its W; "" for most kinds.

    >>> from peerdescent.graphs import path
    >>> mixing_note(path(3), "lazy")
    ''
    """
    note = MIXINGS[kind].note if kind in MIXINGS else None
    return "" if note is None else note(graph)


def _own(graph: Graph, name: own_weights.Name, kind: str) -> csr_array:
    """L or W with the weights of the user's own matrix."""
    weights = own_weights.weights_on(graph, name, kind)
    L = _matrix(graph, -weights, _row_sums(graph, weights))
    own_weights.check_eigenvalues(L, name)
    return L if name == "laplacian" else _matrix(graph, weights, 1.0 - _row_sums(graph, weights))


def _check_graph(graph: object) -> None:
    if not hasattr(graph, "degrees"):
        raise InputError(f"graph is {described(graph)}: expected a Graph, such as graphs.parse('ring:10').")


def _unit(graph: Graph) -> Weights:
    return np.ones(len(graph.edges))


def _metropolis(graph: Graph) -> Weights:
    degrees = graph.degrees[graph.pairs].astype(np.float64)
    return np.asarray(1.0 / (1.0 + degrees.max(axis=1)), dtype=np.float64)


def _edge_weights(graph: Graph) -> Weights:
    if graph.weights is None and graph.edges:
        raise InputError(
            f"the kind 'weighted' needs edge weights and {graph} has none; "
            "add a third column to the edge file, or use 'metropolis'."
        )
    return np.array(graph.weights or (), dtype=np.float64)


def _lazy(graph: Graph) -> Weights:
    return 0.5 * _metropolis(graph)


def _max_degree(graph: Graph) -> Weights:
    return np.full(len(graph.edges), 1.0 / (1.0 + graph.degrees.max()))


def _best_constant(graph: Graph) -> Weights:
    """One weight α = 2/(λ₂ + λ_n) with the eigenvalues of Deg − A: the smallest ‖W − 11ᵀ/n‖₂ of all W = I − αL."""
    if not graph.edges:
        return np.zeros(0)
    low, high = ends_of(laplacian(graph, "unit"))
    return np.full(len(graph.edges), _rounded(2.0 / (low + high)))


def _rounded(number: float) -> float:
    """Without the last digits, in which eigenvalues differ from machine to machine."""
    return float(f"{number:.10g}")


def _uniform(graph: Graph) -> Weights:
    if len(graph.edges) != graph.n * (graph.n - 1) // 2:
        raise InputError(
            f"the mixing matrix 'uniform' needs a complete graph, and {graph} is not; "
            f"use complete:{graph.n}, or the mixing 'metropolis'."
        )
    return np.full(len(graph.edges), 1.0 / graph.n)


WEIGHTED = "weighted"
CONNECTED_ONLY = (WEIGHTED, "best-constant", "fastest")
"""Kinds of W for one connected graph, not for the rounds of a sequence."""
BY_EDGE = ("metropolis", "lazy")
"""Kinds of W whose weights depend on the two ends of an edge alone."""
LAPLACIANS: Mapping[str, Weighting] = MappingProxyType(
    {
        "metropolis": Weighting(_metropolis, "L = I − W with Metropolis weights, 1/(1 + max(deg_i, deg_j))"),
        "unit": Weighting(_unit, "L = Deg − A, every edge has weight 1"),
        WEIGHTED: Weighting(_edge_weights, "the edge weights of the graph"),
    }
)

MIXINGS: Mapping[str, Weighting] = MappingProxyType(
    {
        "metropolis": Weighting(_metropolis, "w_ij = 1/(1 + max(deg_i, deg_j))"),
        "lazy": Weighting(_lazy, "(I + W)/2 with Metropolis W: no negative eigenvalue"),
        "max-degree": Weighting(_max_degree, "w_ij = 1/(1 + largest degree)"),
        "uniform": Weighting(_uniform, "11ᵀ/n, exact averaging, complete graphs only"),
        WEIGHTED: Weighting(_edge_weights, "w_ij = the edge weights of the graph"),
        "best-constant": Weighting(_best_constant, "w_ij = 2/(λ₂ + λ_n) of Deg − A: the best W with equal weights"),
        "fastest": Weighting(
            lambda graph: fastest(graph).weights,
            "the smallest ‖W − 11ᵀ/n‖ of all W on the graph, up to 1,000 edges; weights may be negative",
            lambda graph: fastest(graph).note,
        ),
    }
)


def _lookup(table: Mapping[str, Weighting], what: str, name: str) -> Weighting:
    if isinstance(name, str) and name in table:
        return table[name]
    raise InputError(f"there is no {what} {described(name)}{did_you_mean(name, table)}; use one of {', '.join(table)}.")


def _scale(kind: str, text: str) -> float:
    try:
        scale = float(text)
    except ValueError:
        scale = math.nan
    if not (math.isfinite(scale) and scale > 0):
        raise InputError(f"Laplacian {kind!r}: SCALE must be a positive number, not {text!r}; e.g. unit:0.5.")
    return scale


def _row_sums(graph: Graph, weights: Weights) -> Weights:
    i, j = graph.pairs.T
    ends = np.concatenate([i, j])
    sums = np.bincount(ends, weights=np.concatenate([weights, weights]), minlength=graph.n)
    return np.asarray(sums, dtype=np.float64)


def _matrix(graph: Graph, edges: Weights, diagonal: Weights) -> csr_array:
    i, j = graph.pairs.T
    agents = np.arange(graph.n)
    rows, columns = np.concatenate([i, j, agents]), np.concatenate([j, i, agents])
    order = np.lexsort((columns, rows))
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=graph.n))])
    values = np.concatenate([edges, edges, diagonal])[order]
    return csr_array((values, columns[order], starts), shape=(graph.n, graph.n))
