"""Graphs from files: edge lists, with one edge `i j` or `i j weight` per line, and matrices."""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.files import read_file
from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs.graph import Edge, Graph
from peerdescent.graphs.own_matrices import fields_of, from_matrix, matrix_of
from peerdescent.graphs.sequence import AnyGraph

_NUMBER = re.compile(r"[0-9]{1,18}")
MOST_BYTES = 256 << 20
"""Enough for the largest number of edges."""


def from_file(path: str | os.PathLike[str]) -> AnyGraph:
    """Read a graph from an edge-list file or a matrix.

    Each line is `i j` or `i j weight`, separated by spaces, tabs or commas; `#` starts a comment and blank lines are
    skipped. Agents are numbered without gaps from 0 or from 1, whichever is the smallest number in the file. All
    lines have a weight, or none. A file with a square matrix, a row per line, is the graph of `from_matrix`, which
    is directed if the matrix is not symmetric.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
    ...     _ = file.write("# a path\\n1 2\\n2, 3\\n")
    >>> from_file(file.name).edges
    ((0, 1), (1, 2))
    >>> os.remove(file.name)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"edge file: expected a path, not {described(path)}.")
    name = str(os.fspath(path))
    text = read_text(name, "edge file", "lines 'i j' or 'i j weight', or a matrix")
    if _is_matrix(text):
        matrix = matrix_of(text, name, "the matrix")
        return from_matrix(matrix, f"the matrix of {name!r}", spec=f"file:{name}")
    return _from_lines(text, name)


def _is_matrix(text: str) -> bool:
    """Whether the lines are rows of a matrix, and not an edge list, whose lines begin with two agents."""
    rows = [fields for line in text.split("\n") if (fields := fields_of(line))]
    if len(rows) < 2 or len(rows[0]) > 3:
        return len(rows) >= 2
    if any(len(row) != len(rows) for row in rows):
        return False
    if not any(all(_NUMBER.fullmatch(field) for field in row[:2]) for row in rows):
        return True  # L or W
    # symmetric with a zero diagonal: as an edge list it would have an edge twice
    entries = [(rows[i][j], rows[j][i]) for i in range(len(rows)) for j in range(i)]
    return all(a == b for a, b in entries) and all(row[i] == "0" for i, row in enumerate(rows))


def _from_lines(text: str, name: str) -> Graph:
    n, pairs, weights = edge_lines(text, name)
    try:
        return Graph.from_pairs(n, pairs, weights, spec=f"file:{name}")
    except InputError as error:
        raise InputError(f"edge file {name!r}: {error}") from None


def edge_lines(text: str, name: str, directed: bool = False) -> tuple[int, NDArray[np.int64], list[float] | None]:
    """The number of agents, the edges, from 0, and the weights in the lines of a file."""
    edges: dict[Edge, int] = {}  # with their line numbers
    weights: list[float] = []
    for number, line in enumerate(text.split("\n"), start=1):
        fields = line.partition("#")[0].replace(",", " ").split()
        if not fields:
            continue
        where = f"edge file {name!r}, line {number}"
        edge = _edge(fields, where, directed)
        if edge in edges:
            raise InputError(f"{where}: this edge is already on line {edges[edge]}; keep one of the two.")
        weights += _weight(fields, where)
        edges[edge] = number
        if len(weights) not in (0, len(edges)):
            raise InputError(f"{where}: some edges have a weight and some have none; give all edges a weight, or none.")
    first, n = _numbering(edges, name)
    return n, np.array(list(edges), dtype=np.int64) - first, weights or None


def read_text(name: str, what: str, content: str) -> str:
    """The text of a file that describes a graph; InputError names `what` it is and the `content` expected."""
    try:
        text = read_file(Path(os.path.expanduser(name)), what, MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InputError(f"the {what} {name!r} is not text; give a file with {content}.")
    return text


def _edge(fields: list[str], where: str, directed: bool) -> Edge:
    if len(fields) not in (2, 3) or not all(_NUMBER.fullmatch(field) for field in fields[:2]):
        found = " ".join(fields)[:60]
        raise InputError(f"{where}: expected 'i j' or 'i j weight' with integers i and j, found {found!r}.")
    i, j = int(fields[0]), int(fields[1])
    if i == j:
        raise InputError(f"{where}: the edge connects agent {i} to itself; remove the line.")
    return (i, j) if i < j or directed else (j, i)


def _weight(fields: list[str], where: str) -> list[float]:
    """The weight on a line, as a list of one or none."""
    if len(fields) == 2:
        return []
    try:
        weight = float(fields[2])
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"{where}: the weight must be a positive number, not {fields[2][:60]!r}.")
    return [weight]


def _numbering(edges: dict[Edge, int], name: str) -> tuple[int, int]:
    """The number of the first agent and the number of agents."""
    if not edges:
        raise InputError(f"the edge file {name!r} contains no edges; write one per line as 'i j' or 'i j weight'.")
    agents = sorted({agent for edge in edges for agent in edge})
    first = agents[0]
    if first > 1:
        raise InputError(f"edge file {name!r}: the smallest agent is {first}; number the agents from 0 or from 1.")
    for expected, agent in enumerate(agents, start=first):
        if agent != expected:
            raise InputError(f"edge file {name!r}: agent {expected} has no edge; number the agents without gaps.")
    return first, len(agents)
