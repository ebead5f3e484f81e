"""Deterministic topologies: the same numbers always give the same edges."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph

Agents = NDArray[np.int64]


def ring(n: int) -> Graph:
    """Agents in a circle, each connected to the next.

    >>> ring(4).edges
    ((0, 1), (0, 3), (1, 2), (2, 3))
    >>> ring(2).edges, ring(1).edges
    (((0, 1),), ())
    """
    n = check_integer("graph ring: N", n, 1)
    checks.size("ring", n, n)
    i = np.arange(n)
    return _simple(n, i, (i + 1) % n, f"ring:{n}")


def path(n: int) -> Graph:
    """Agents in a line, each connected to the next.

    >>> path(3).edges
    ((0, 1), (1, 2))
    """
    n = check_integer("graph path: N", n, 1)
    checks.size("path", n, n)
    i = np.arange(n - 1)
    return _simple(n, i, i + 1, f"path:{n}")


def star(n: int) -> Graph:
    """Agent 0 in the centre, connected to all others.

    >>> star(4).edges
    ((0, 1), (0, 2), (0, 3))
    """
    n = check_integer("graph star: N", n, 1)
    checks.size("star", n, n)
    i = np.arange(1, n)
    return _simple(n, np.zeros_like(i), i, f"star:{n}")


def complete(n: int) -> Graph:
    """Every pair of agents is connected.

    >>> complete(3).edges
    ((0, 1), (0, 2), (1, 2))
    """
    n = check_integer("graph complete: N", n, 1)
    checks.size("complete", n, n * (n - 1) // 2)
    return _simple(n, *np.triu_indices(n, 1), f"complete:{n}")


def grid(rows: int, columns: int) -> Graph:
    """A rectangle of agents, numbered row by row, each connected to those above, below, left and right.

    >>> grid(2, 2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    """
    cells = _rectangle("grid", rows, columns)
    begin = np.concatenate([cells[:, :-1].ravel(), cells[:-1].ravel()])
    end = np.concatenate([cells[:, 1:].ravel(), cells[1:].ravel()])
    return _simple(cells.size, begin, end, f"grid:{rows}:{columns}")


def torus(rows: int, columns: int) -> Graph:
    """A grid whose opposite sides are connected too.

    >>> torus(3, 3).degrees.tolist()
    [4, 4, 4, 4, 4, 4, 4, 4, 4]
    >>> torus(2, 2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    """
    cells = _rectangle("torus", rows, columns)
    begin = np.tile(cells.ravel(), 2)
    end = np.concatenate([np.roll(cells, -1, axis=1).ravel(), np.roll(cells, -1, axis=0).ravel()])
    return _simple(cells.size, begin, end, f"torus:{rows}:{columns}")


def hypercube(dimension: int) -> Graph:
    """The corners of a D-dimensional cube: 2^D agents, connected if their numbers differ in one bit.

    >>> hypercube(2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    >>> hypercube(0).n
    1
    """
    d = check_integer("graph hypercube: D", dimension, 0)
    d = min(d, 64)  # far beyond the limit on size, and 2^D stays a small number
    checks.size("hypercube", 2**d, d * 2**d // 2)
    corners, bits = np.arange(2**d)[:, None], 1 << np.arange(d)
    begin, end = np.broadcast_arrays(corners, corners ^ bits)
    return _simple(2**d, begin.ravel(), end.ravel(), f"hypercube:{d}")


def exponential(n: int) -> Graph:
    """A ring with chords: agent i is connected to i ± 1, i ± 2, i ± 4, … (modulo n).

    >>> exponential(8).neighbours(0)
    (1, 2, 4, 6, 7)
    """
    n = check_integer("graph exponential: N", n, 1)
    hops = 1 << np.arange((n - 1).bit_length())
    checks.size("exponential", n, n * len(hops))
    i = np.arange(n)[:, None]
    begin, end = np.broadcast_arrays(i, (i + hops) % n)
    return _simple(n, begin.ravel(), end.ravel(), f"exponential:{n}")


def authors10() -> Graph:
    """The ten-agent graph in the public code of the authors of DSGPA.

    >>> print(authors10())
    authors10 (10 agents, 11 edges)
    """
    pairs = ((1, 2), (2, 3), (2, 4), (3, 4), (3, 7), (4, 5), (4, 6), (5, 6), (7, 8), (8, 9), (9, 10))
    begin, end = np.array(pairs).T - 1
    return _simple(10, begin, end, "authors10")


def _rectangle(topology: str, rows: int, columns: int) -> Agents:
    """The agents as a rows × columns array."""
    rows = check_integer(f"graph {topology}: R", rows, 1)
    columns = check_integer(f"graph {topology}: C", columns, 1)
    checks.size(topology, rows * columns, 2 * rows * columns)
    return np.arange(rows * columns).reshape(rows, columns)


def _simple(n: int, begin: Agents, end: Agents, spec: str) -> Graph:
    """The graph of these edges without self-loops and duplicates, which occur in small sizes."""
    low, high = np.minimum(begin, end), np.maximum(begin, end)
    keys = np.sort((low * n + high)[low < high])
    keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes, which is far slower on millions of edges
    return Graph.from_pairs(n, np.stack([keys // n, keys % n], axis=1), spec=spec)
