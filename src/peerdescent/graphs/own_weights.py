"""L and W of your own: a matrix or a file becomes the text `edges:I-J=W,…`, which a run folder records as it is.

Symmetric matrices with L1 = 0 or W1 = 1 are determined by their entries w_ij = −l_ij off the diagonal, as in

    L = Σ_(i,j) w_ij (e_i − e_j)(e_i − e_j)ᵀ,        W = I − Σ_(i,j) w_ij (e_i − e_j)(e_i − e_j)ᵀ,

so a text with one number per edge is the whole matrix, and the diagonal follows from it. Weights may be negative.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs.edge_texts import split_edges

if TYPE_CHECKING:
    from peerdescent.graphs.graph import Graph

Name = Literal["laplacian", "mixing"]
EDGES, PUSHED, FILE = "edges:", "directed-edges:", "file:"
LETTERS = {"laplacian": "L", "mixing": "W"}
DENSE = 2000
"""Agents up to which the eigenvalues of a matrix with negative weights can be checked."""
SMALL = 1e-9
"""An eigenvalue of L, relative to the largest, or a distance of one of W from ±1, that counts as none."""


class _Edges(NamedTuple):
    pairs: NDArray[np.int64]
    weights: NDArray[np.float64]
    n: int


def as_kind(name: Name, value: Any) -> str:
    """The kind of L or W as a text: a matrix or `file:PATH` becomes `edges:…`, other texts stay as they are.

    >>> as_kind("mixing", np.array([[0.75, 0.25], [0.25, 0.75]]))
    'edges:0-1=0.25'
    >>> as_kind("laplacian", "unit")
    'unit'
    """
    from peerdescent.graphs import own_matrices

    letter = LETTERS[name]
    if isinstance(value, str):
        if not value.startswith(FILE):
            return value
        path = value.removeprefix(FILE)
        if not path:
            raise InputError(f"{name} = {value!r}: nothing follows the colon; write it as file:PATH.")
        matrix, letter = own_matrices.read_matrix(path, letter), f"{letter} of {path!r}"
    elif (own_matrices.is_matrix(value) and getattr(value, "ndim", 2) == 2) or isinstance(value, list):
        matrix = own_matrices.as_matrix(value, letter)
    else:
        raise InputError(f"{name} = {described(value)}: expected a kind such as 'metropolis', file:PATH or a matrix.")
    if name == "mixing" and _splits_messages(matrix):
        by_sender = csr_array(matrix.T).tocoo()
        off = by_sender.coords[0] != by_sender.coords[1]
        return _text(np.stack(by_sender.coords, axis=1)[off], by_sender.data[off], PUSHED)
    own_matrices.check_symmetric(matrix, letter)
    own_matrices.check_row_sums(matrix, 1.0 if name == "mixing" else 0.0, letter)
    pairs, entries = own_matrices.edges_of(matrix)
    weights = entries if name == "mixing" else -entries
    _check_connected(pairs, matrix.shape[0], letter)
    return _text(pairs, weights)


def _splits_messages(matrix: csr_array) -> bool:
    """Whether a matrix is column-stochastic and not symmetric: the weights P of a directed graph."""
    from peerdescent.graphs.own_matrices import columns_are, is_symmetric

    return bool((matrix.data >= 0).all()) and columns_are(matrix, 1.0) and not is_symmetric(matrix)


def is_own(kind: object) -> bool:
    """Whether a kind is a text made of a matrix."""
    return isinstance(kind, str) and kind.startswith((EDGES, PUSHED))


def label(kind: str) -> str:
    """A kind in a table or figure: a matrix of your own is shown by a digest.

    >>> label("lazy"), label("edges:0-1=0.25")
    ('lazy', 'own 08ac4366')
    """
    return f"own {zlib.crc32(kind.encode()):08x}" if is_own(kind) else kind


def restricted(kind: str, agents: Iterable[int]) -> str:
    """The kind for some of the agents, renumbered in order: the weights of edges between them stay.

    >>> restricted("edges:0-1=0.25,1-2=0.5", [1, 2])
    'edges:0-1=0.5'
    """
    if not is_own(kind):
        return kind
    directed = kind.startswith(PUSHED)
    chosen, edges = np.unique(list(agents)), parse_own(kind, directed)
    kept = np.isin(edges.pairs, chosen).all(axis=1)
    pairs = np.searchsorted(chosen, edges.pairs[kept])
    return _text(pairs, edges.weights[kept], PUSHED if directed else EDGES)


def weights_on(graph: Graph, name: Name, kind: str) -> NDArray[np.float64]:
    """The weight of each edge of a graph; zero on edges that the matrix leaves out.

    Raises:
        InputError: the matrix is of another size, has an entry where the graph has no edge, or is not connected.
    """
    if kind.startswith(PUSHED):
        raise InputError(
            f"{LETTERS[name]} is not symmetric, and {graph} is undirected: give a symmetric matrix, or make a directed "
            "graph from this one, with graph = file:PATH or the matrix itself."
        )
    edges, letter = parse_own(kind), LETTERS[name]
    if edges.n != graph.n:
        raise InputError(f"{letter} is {edges.n}×{edges.n} and the graph has {graph.n} agents: they must be the same.")
    _check_connected(edges.pairs, edges.n, letter)
    known = graph.pairs[:, 0] * graph.n + graph.pairs[:, 1]
    wanted = edges.pairs[:, 0] * graph.n + edges.pairs[:, 1]
    place = np.searchsorted(known, wanted)
    absent = np.flatnonzero(np.append(known, -1)[place] != wanted)
    if len(absent):
        i, j = edges.pairs[absent[0]].tolist()
        entry = edges.weights[absent[0]] * (1 if name == "mixing" else -1)
        raise InputError(
            f"{letter} has {entry:.6g} in row {i}, column {j}, which is no edge of {graph}: add the edge, or make the "
            f"graph from the matrix, with graph = file:PATH or the matrix itself."
        )
    weights = np.zeros(len(known))
    weights[place] = edges.weights
    return weights


def check_eigenvalues(laplacian: csr_array, name: Name) -> None:
    """Refuse an L that is not positive semidefinite with one zero eigenvalue, or a W with one outside (−1, 1].

    Args:
        laplacian: L, or I − W, of a connected graph.
        name: which of them it is.
    """
    from peerdescent.graphs.spectra import ends_of, has_negative_weights

    n = laplacian.shape[0]
    if n == 1:
        return
    negative = has_negative_weights(laplacian)
    if negative and n > DENSE:
        raise InputError(f"{LETTERS[name]} has negative weights and {n:,} rows: above {DENSE:,} they must be positive.")
    low, high = ends_of(laplacian)
    if negative:  # the smallest eigenvalue besides that of the vector of ones, which is moved out of the way
        low = float(np.linalg.eigvalsh(laplacian.toarray() + abs(high) / n)[0])
    if low <= SMALL * abs(high):
        found = f"{1 - low:.6g}" if name == "mixing" else f"{low:.6g}"
        wanted = "below 1" if name == "mixing" else "above 0"
        raise InputError(f"{LETTERS[name]} has the eigenvalue {found} besides that of consensus: expected {wanted}.")
    if name == "mixing" and high >= 2 - SMALL:
        raise InputError(f"the smallest eigenvalue of W is {1 - high:.9g}: expected above −1; use (I + W)/2 instead.")


@functools.lru_cache(maxsize=16)
def parse_own(kind: str, directed: bool = False) -> _Edges:
    """The edges of a text, sorted; directed ones from their first agent to the second."""
    listed = kind.removeprefix(PUSHED if directed else EDGES)
    try:
        found = list(split_edges(listed)) if listed else []
    except InputError as error:
        raise InputError(f"weights: {error}") from None
    pairs = np.array([(i, j) for i, j, _ in found], dtype=np.int64).reshape(-1, 2)
    pairs = pairs if directed else np.sort(pairs, axis=1)
    weights = np.array([_weight(text) for _, _, text in found], dtype=np.float64)
    if len(loops := np.flatnonzero(pairs[:, 0] == pairs[:, 1])):
        raise InputError(f"weights: the edge ({pairs[loops[0], 0]}, {pairs[loops[0], 0]}) connects an agent to itself.")
    order = np.lexsort((pairs[:, 1], pairs[:, 0]))
    pairs, weights = pairs[order], weights[order]
    if len(twice := np.flatnonzero((pairs[1:] == pairs[:-1]).all(axis=1))):
        i, j = pairs[twice[0]].tolist()
        raise InputError(f"weights: the edge ({i}, {j}) is given twice; give each edge once.")
    return _Edges(pairs, weights, int(pairs.max()) + 1 if len(pairs) else 1)


def _text(pairs: NDArray[np.int64], weights: NDArray[np.float64], prefix: str = EDGES) -> str:
    listed = zip(pairs.tolist(), weights.tolist(), strict=True)
    return prefix + ",".join(f"{i}-{j}={weight!r}" for (i, j), weight in listed)


def _weight(text: str | None) -> float:
    try:
        weight = float(text or "")
    except ValueError:
        weight = np.nan
    if not np.isfinite(weight) or weight == 0:
        raise InputError(
            f"weights: expected I-J=W with a number W other than 0, not W = {(text or '').strip()[:60]!r}."
        )
    return weight


def _check_connected(pairs: NDArray[np.int64], n: int, letter: str) -> None:
    pattern = coo_array((np.ones(len(pairs)), tuple(pairs.T)), shape=(n, n))
    parts, part = connected_components(pattern, directed=False)
    if parts > 1:
        stranded = int(np.flatnonzero(part != part[0])[0])
        raise InputError(
            f"{letter} is not connected: it has {parts} parts, and no path of entries from agent 0 to agent {stranded}."
        )
