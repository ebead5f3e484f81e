"""Matrices that a user gives, as arrays, sparse matrices or files of numbers; and graphs from them."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_array, eye_array, issparse

from peerdescent._util.files import read_file
from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.sequence import AnyGraph

ROUNDING = 1e-6
"""Up to which sums and pairs of entries may differ from what they should be: single precision is accepted."""
MOST_BYTES = 256 << 20


def is_matrix(value: object) -> bool:
    """Whether a value is an array or a sparse matrix.

    >>> is_matrix(np.eye(2)), is_matrix("ring:3")
    (True, False)
    """
    return issparse(value) or (hasattr(value, "__array__") and not isinstance(value, np.generic))


def as_matrix(value: Any, name: str) -> csr_array:
    """An array, a sparse matrix or nested lists as a square sparse matrix of finite numbers, without stored zeros.

    Args:
        value: the matrix.
        name: what messages call it.

    >>> as_matrix([[0, 2], [2, 0]], "A").nnz
    2
    """
    try:
        entries: Any = value if issparse(value) else np.asarray(value)
        if np.iscomplexobj(entries):
            raise TypeError("complex numbers")
        matrix: Any = csr_array(entries.astype(np.float64))
    except (TypeError, ValueError, RuntimeError):  # ragged lists, texts, complex numbers, tensors on a device
        raise InputError(f"{name} is {described(value)}: expected a square matrix of numbers, n×n.") from None
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.shape[0]:
        shape = "×".join(map(str, matrix.shape))
        raise InputError(f"{name} is {shape}: expected a square matrix, with one row and one column per agent.")
    matrix.sum_duplicates()
    matrix.eliminate_zeros()
    wrong = np.flatnonzero(~np.isfinite(matrix.data))
    if len(wrong):
        i, j = _place(matrix, int(wrong[0]))
        raise InputError(f"{name} has {matrix.data[wrong[0]]:g} in row {i}, column {j}: expected finite numbers.")
    square: csr_array = matrix
    return square


def read_matrix(path: str | os.PathLike[str], name: str) -> csr_array:
    """A square matrix from a text file: a row per line, numbers separated by commas, spaces, tabs or semicolons.

    `#` starts a comment, and blank lines are skipped.
    """
    file = str(os.fspath(path))
    try:
        text = read_file(Path(os.path.expanduser(file)), "matrix file", MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"the matrix file {file!r} is not text; give a CSV file with one row per line.")
    return matrix_of(text, file, name)


def matrix_of(text: str, file: str, name: str) -> csr_array:
    """The matrix in the text of a file."""
    rows: list[list[float]] = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = fields_of(line)
        if not fields:
            continue
        where = f"matrix file {file!r}, line {number}"
        if rows and len(fields) != len(rows[0]):
            raise InputError(f"{where}: expected {len(rows[0])} numbers as in the first row, found {len(fields)}.")
        rows.append([_number(field, where) for field in fields])
    if not rows:
        raise InputError(f"the matrix file {file!r} contains no numbers; write a row per line.")
    return as_matrix(rows, f"{name} of {file!r}")


def fields_of(line: str) -> list[str]:
    """The fields of a line, without its comment."""
    return line.partition("#")[0].replace(",", " ").replace(";", " ").split()


def is_symmetric(matrix: csr_array) -> bool:
    """Whether a matrix is its transpose, up to rounding."""
    return not len(_unequal(matrix)[0])


def check_symmetric(matrix: csr_array, name: str) -> None:
    """Refuse a matrix that differs from its transpose by more than rounding."""
    row, column = _unequal(matrix)
    if len(row):
        i, j = min(zip(row.tolist(), column.tolist(), strict=True))
        there, back = float(matrix[i, j]), float(matrix[j, i])
        raise InputError(
            f"{name} is not symmetric: entry ({i}, {j}) is {there:.6g} and entry ({j}, {i}) is {back:.6g}."
        )


def _unequal(matrix: csr_array) -> tuple[Any, Any]:
    """The rows and columns of the entries that differ from those across the diagonal."""
    entries = abs(csr_array(matrix - matrix.T)).tocoo()
    wrong = np.flatnonzero(entries.data > ROUNDING * _size(matrix))
    row, column = entries.coords
    return row[wrong], column[wrong]


def columns_are(matrix: csr_array, total: float) -> bool:
    """Whether all columns sum to a number, up to rounding."""
    return row_sums_are(csr_array(matrix.T), total)


def row_sums_are(matrix: csr_array, total: float) -> bool:
    """Whether all rows sum to a number, up to rounding."""
    return bool((np.abs(matrix.sum(axis=1) - total) <= ROUNDING * _size(matrix)).all())


def check_row_sums(matrix: csr_array, total: float, name: str) -> None:
    """Refuse a matrix with a row that does not sum to a number."""
    sums = np.asarray(matrix.sum(axis=1)).ravel()
    wrong = np.flatnonzero(np.abs(sums - total) > ROUNDING * _size(matrix))
    if len(wrong):
        i = int(wrong[0])
        raise InputError(f"row {i} of {name} sums to {sums[i]:.9g}: expected {total:g}, as for every row and column.")


def from_matrix(value: Any, name: str = "the adjacency matrix", spec: str = "") -> AnyGraph:
    """The graph of a symmetric matrix: of its edge weights, or of a mixing matrix W or a Laplacian L.

    A matrix that is not symmetric is that of a directed graph, see `from_directed_matrix`.

    An adjacency matrix has a zero diagonal; its entries are the edges' weights, and one of zeros and ones has none. A
    matrix whose rows sum to one is taken for W, with the weights w_ij, and one whose rows sum to zero for L, with the
    weights −l_ij; if some of these are negative, the graph has none.

    >>> from_matrix(np.array([[0, 1, 1], [1, 0, 0], [1, 0, 0]])).edges
    ((0, 1), (0, 2))
    >>> from_matrix([[0.75, 0.25], [0.25, 0.75]]).weights
    (0.25,)
    """
    matrix = as_matrix(value, name)
    if not is_symmetric(matrix) and (matrix.data >= 0).all():
        from peerdescent.graphs.directed_texts import from_directed_matrix

        return from_directed_matrix(matrix, name, spec)
    check_symmetric(matrix, name)
    n, diagonal = matrix.shape[0], matrix.diagonal()
    stochastic = bool(diagonal.any()) and any(row_sums_are(matrix, total) for total in (0.0, 1.0))
    loops = np.flatnonzero(diagonal)
    if len(loops) and not stochastic:
        i = int(loops[0])
        raise InputError(
            f"{name} has {diagonal[i]:.6g} in row {i}, column {i}: an agent has no edge to itself; set the diagonal to "
            "zero, or give a mixing matrix, whose rows sum to 1."
        )
    pairs, weights = edges_of(matrix)
    if stochastic and row_sums_are(matrix, 0.0):
        weights = -weights
    if not stochastic and (weights < 0).any():
        e = int(np.flatnonzero(weights < 0)[0])
        i, j = pairs[e].tolist()
        raise InputError(f"{name} has {weights[e]:.6g} in row {i}, column {j}: the weight of an edge must be positive.")
    plain = (weights < 0).any() or (weights == 1).all()
    try:
        return Graph.from_pairs(n, pairs, None if plain else weights.tolist(), spec)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def edges_of(matrix: csr_array) -> tuple[np.ndarray[Any, np.dtype[np.int64]], np.ndarray[Any, np.dtype[np.float64]]]:
    """The pairs i < j with an entry that is not zero, and the mean of the entries (i, j) and (j, i)."""
    halves = csr_array((matrix + matrix.T) / 2)
    upper = csr_array(halves - csr_array(eye_array(matrix.shape[0]).multiply(halves.diagonal()))).tocoo()
    row, column = upper.coords
    kept = (row < column) & (upper.data != 0)
    return np.stack([row[kept], column[kept]], axis=1).astype(np.int64), upper.data[kept]


def _size(matrix: csr_array) -> float:
    """The largest entry, at least 1: rounding is relative to it."""
    return max(1.0, float(np.abs(matrix.data).max())) if matrix.nnz else 1.0


def _place(matrix: csr_array, entry: int) -> tuple[int, int]:
    row = int(np.searchsorted(matrix.indptr, entry, side="right")) - 1
    return row, int(matrix.indices[entry])


def _number(field: str, where: str) -> float:
    try:
        number = float(field)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{where}: expected finite numbers, found {field[:60]!r}.")
    return number
