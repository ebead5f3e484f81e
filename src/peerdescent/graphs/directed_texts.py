"""Directed graphs in texts and files: `directed-edges:0-1,1-2,2-0`, `directed-rounds:…` and `directed-file:PATH`."""

from __future__ import annotations

import os
import re
from typing import Any

import numpy as np
from scipy.sparse import csr_array

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.directed import Arcs, DirectedGraph, directed_graph
from peerdescent.graphs.edge_lists import read_edges
from peerdescent.graphs.files import edge_lines, read_text
from peerdescent.graphs.own_matrices import as_matrix, columns_are, fields_of, matrix_of, row_sums_are

_INTEGER = re.compile(r"[0-9]{1,18}")


def from_directed_edges(text: str) -> DirectedGraph:
    """The directed graph of edges `I-J`, from I to J, or `I-J=W`, separated by commas; agents are counted from 0.

    >>> from_directed_edges("0-1,1-2,2-0").arcs(0).edges
    ((0, 1), (1, 2), (2, 0))
    """
    if not isinstance(text, str):
        raise InputError(f"graph directed-edges: expected a text such as '0-1,1-0', not {described(text)}.")
    try:
        pairs, weights = read_edges(text)
        checks.size("directed-edges", 1 + int(pairs.max()), len(pairs))
        return directed_graph(1 + int(pairs.max()), pairs.tolist(), weights)
    except InputError as error:
        raise InputError(f"graph directed-edges: {error}") from None


def from_directed_rounds(text: str) -> DirectedGraph:
    """The directed edges of each round, `N:EDGES/EDGES/…`, repeated; an empty list is a round without edges.

    >>> from_directed_rounds("3:0-1,1-2/2-0").period
    2
    """
    agents, colon, lists = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not _INTEGER.fullmatch(agents) or int(agents) == 0:
        raise InputError(
            f"graph directed-rounds: expected N:EDGES/EDGES/…, such as 3:0-1,1-2/2-0, not {described(text)[:60]}; N is "
            "the number of agents."
        )
    n = int(agents)
    checks.size("directed-rounds", n, text.count("-"))
    try:
        return DirectedGraph(n, tuple(_round(n, each.strip()) for each in lists.split("/")))
    except InputError as error:
        raise InputError(f"graph directed-rounds: {error}") from None


def _round(n: int, text: str) -> Arcs:
    pairs, weights = read_edges(text) if text else (np.empty((0, 2), dtype=np.int64), None)
    return Arcs.of(n, pairs.tolist(), weights)


def from_directed_file(path: str | os.PathLike[str]) -> DirectedGraph:
    """Read a directed graph from a file with a line `i j` or `i j weight` for each edge from i to j, or with a matrix.

    Comments, blank lines and the numbers of the agents are as in `from_file`. A matrix, a row per line, is read as by
    `from_matrix`, but never as an undirected graph.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
    ...     _ = file.write("1 2\\n2 3\\n3 1  # back\\n")
    >>> from_directed_file(file.name).arcs(0).edges
    ((0, 1), (1, 2), (2, 0))
    >>> os.remove(file.name)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"edge file: expected a path, not {described(path)}.")
    name = str(os.fspath(path))
    text = read_text(name, "edge file", "lines 'i j' or 'i j weight', or a matrix")
    spec = f"directed-file:{name}"
    if _is_matrix(text):
        return from_directed_matrix(matrix_of(text, name, "the matrix"), f"the matrix of {name!r}", spec)
    n, pairs, weights = edge_lines(text, name, directed=True)
    try:
        return directed_graph(n, pairs.tolist(), weights, spec)
    except InputError as error:
        raise InputError(f"edge file {name!r}: {error}") from None


def _is_matrix(text: str) -> bool:
    """Whether the lines are rows of a square matrix; up to 3×3 one of them must be impossible as an edge."""
    rows = [fields for line in text.split("\n") if (fields := fields_of(line))]
    if len(rows) < 2 or any(len(row) != len(rows) for row in rows):
        return False
    edges = (all(map(_INTEGER.fullmatch, row[:2])) and row[0] != row[1] for row in rows)
    return len(rows) > 3 or not all(edges)


def from_directed_matrix(value: Any, name: str = "the adjacency matrix", spec: str = "") -> DirectedGraph:
    """The directed graph of a matrix: of an adjacency matrix A, or of column-stochastic weights P.

    With a zero diagonal it is an adjacency matrix: entry (i, j) is the edge from i to j, as in networkx, with its
    weight; one of zeros and ones has no weights. With a diagonal its columns must sum to one; then entry (i, j) is the
    part of j's message that i gets.

    >>> from_directed_matrix([[0, 1, 0], [0, 0, 1], [1, 0, 0]]).text
    'directed-edges:0-1,1-2,2-0'
    >>> from_directed_matrix([[0.5, 0, 0.75], [0.5, 0.5, 0], [0, 0.5, 0.25]]).text
    'directed-edges:0-1=0.5,1-2=0.5,2-0=0.75'
    """
    matrix = as_matrix(value, name)
    entries = matrix.tocoo()
    row, column = entries.coords
    if len(wrong := np.flatnonzero(entries.data < 0)):
        i, j = int(row[wrong[0]]), int(column[wrong[0]])
        raise InputError(
            f"{name} has {entries.data[wrong[0]]:.6g} in row {i}, column {j}: expected no negative weight."
        )
    shares = bool(matrix.diagonal().any())
    if shares and not columns_are(matrix, 1.0):
        raise InputError(_not_column_stochastic(matrix, name))
    off = row != column
    ends = (column[off], row[off]) if shares else (row[off], column[off])
    weights = None if not shares and bool((entries.data == 1).all()) else entries.data[off].tolist()
    try:
        return directed_graph(matrix.shape[0], np.stack(ends, axis=1).tolist(), weights, spec)
    except InputError as error:
        raise InputError(f"{name}: {error}") from None


def _not_column_stochastic(matrix: csr_array, name: str) -> str:
    sums = np.asarray(matrix.sum(axis=0)).ravel()
    j = int(np.flatnonzero(np.abs(sums - 1) > 1e-6)[0])
    hint = "transpose it" if row_sums_are(matrix, 1.0) else "set the diagonal to zero for an adjacency matrix"
    return (
        f"{name} is not symmetric, and column {j} sums to {sums[j]:.6g}: on a directed graph, a sender's parts, in its "
        f"column, must sum to 1; {hint}."
    )


def text_of(graph: DirectedGraph) -> str:
    """The edges of a directed graph as a text for `parse`."""
    if graph.n == 1:
        return "directed-ring:1"
    lists = [_edges_text(arcs) for arcs in graph.rounds]
    if graph.period == 1 and graph.connected:
        return f"directed-edges:{lists[0]}"
    return f"directed-rounds:{graph.n}:{'/'.join(lists)}"


def _edges_text(arcs: Arcs) -> str:
    if arcs.weights is None:
        return ",".join(f"{i}-{j}" for i, j in arcs.edges)
    return ",".join(f"{i}-{j}={w!r}" for (i, j), w in zip(arcs.edges, arcs.weights, strict=True))
