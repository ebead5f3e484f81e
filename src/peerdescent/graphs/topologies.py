"""Topologies with a fixed shape: the same numbers always give the same edges."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations

from peerdescent._util.validation import check_integer
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Edge, Graph


def ring(n: int) -> Graph:
    """Agents in a circle, each joined to the next.

    >>> ring(4).edges
    ((0, 1), (0, 3), (1, 2), (2, 3))
    >>> ring(2).edges, ring(1).edges
    (((0, 1),), ())
    """
    n = check_integer("graph ring: N", n, 1)
    checks.size("ring", n, n)
    return _simple(n, ((i, (i + 1) % n) for i in range(n)), f"ring:{n}")


def path(n: int) -> Graph:
    """Agents in a line, each joined to the next.

    >>> path(3).edges
    ((0, 1), (1, 2))
    """
    n = check_integer("graph path: N", n, 1)
    checks.size("path", n, n)
    return _simple(n, ((i, i + 1) for i in range(n - 1)), f"path:{n}")


def star(n: int) -> Graph:
    """Agent 0 in the middle, joined to all others.

    >>> star(4).edges
    ((0, 1), (0, 2), (0, 3))
    """
    n = check_integer("graph star: N", n, 1)
    checks.size("star", n, n)
    return _simple(n, ((0, i) for i in range(1, n)), f"star:{n}")


def complete(n: int) -> Graph:
    """Everyone joined to everyone.

    >>> complete(3).edges
    ((0, 1), (0, 2), (1, 2))
    """
    n = check_integer("graph complete: N", n, 1)
    checks.size("complete", n, n * (n - 1) // 2)
    return _simple(n, combinations(range(n), 2), f"complete:{n}")


def grid(rows: int, columns: int) -> Graph:
    """A rectangle of agents, numbered row by row, joined to the neighbours above, below, left and right.

    >>> grid(2, 2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    """
    rows, columns = _rectangle("grid", rows, columns)
    across = ((c, c + 1) for i in range(rows) for c in range(i * columns, (i + 1) * columns - 1))
    down = ((i, i + columns) for i in range((rows - 1) * columns))
    return _simple(rows * columns, (*across, *down), f"grid:{rows}:{columns}")


def torus(rows: int, columns: int) -> Graph:
    """A grid whose opposite sides are joined too.

    >>> torus(3, 3).degrees.tolist()
    [4, 4, 4, 4, 4, 4, 4, 4, 4]
    >>> torus(2, 2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    """
    rows, columns = _rectangle("torus", rows, columns)
    cells = [(r, c) for r in range(rows) for c in range(columns)]
    across = ((r * columns + c, r * columns + (c + 1) % columns) for r, c in cells)
    down = ((r * columns + c, (r + 1) % rows * columns + c) for r, c in cells)
    return _simple(rows * columns, (*across, *down), f"torus:{rows}:{columns}")


def hypercube(dimension: int) -> Graph:
    """The corners of a cube of some dimension: 2^D agents, joined where their numbers differ in one bit.

    >>> hypercube(2).edges
    ((0, 1), (0, 2), (1, 3), (2, 3))
    >>> hypercube(0).n
    1
    """
    d = check_integer("graph hypercube: D", dimension, 0)
    d = min(d, 64)  # far beyond the limit on size, and 2^D stays a small number
    checks.size("hypercube", 2**d, d * 2**d // 2)
    return _simple(2**d, ((i, i ^ (1 << bit)) for i in range(2**d) for bit in range(d)), f"hypercube:{d}")


def exponential(n: int) -> Graph:
    """A ring with chords: agent i is joined to i ± 1, i ± 2, i ± 4, … (modulo n).

    >>> exponential(8).neighbours(0)
    (1, 2, 4, 6, 7)
    """
    n = check_integer("graph exponential: N", n, 1)
    hops = [1 << bit for bit in range((n - 1).bit_length())]
    checks.size("exponential", n, n * len(hops))
    return _simple(n, ((i, (i + hop) % n) for i in range(n) for hop in hops), f"exponential:{n}")


def authors10() -> Graph:
    """The ten-agent graph of the public code of the authors of DSGPA.

    >>> print(authors10())
    authors10 (10 agents, 11 edges)
    """
    pairs = ((1, 2), (2, 3), (2, 4), (3, 4), (3, 7), (4, 5), (4, 6), (5, 6), (7, 8), (8, 9), (9, 10))
    return _simple(10, ((i - 1, j - 1) for i, j in pairs), "authors10")


def _rectangle(topology: str, rows: int, columns: int) -> tuple[int, int]:
    rows = check_integer(f"graph {topology}: R", rows, 1)
    columns = check_integer(f"graph {topology}: C", columns, 1)
    checks.size(topology, rows * columns, 2 * rows * columns)
    return rows, columns


def _simple(n: int, pairs: Iterable[Edge], spec: str) -> Graph:
    """The graph of these pairs without self-loops and repetitions, which small sizes bring about."""
    edges = {(i, j) if i < j else (j, i) for i, j in pairs if i != j}
    return Graph(n, tuple(edges), spec=spec)
