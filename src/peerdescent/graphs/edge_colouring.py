"""A graph as few matchings: an edge colouring with at most one colour more than the largest degree."""

from __future__ import annotations

from itertools import pairwise

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from peerdescent.graphs.graph import Graph

Neighbours = list[dict[int, int]]
"""For each agent, the neighbour along the edge of each colour."""


def edge_colours(graph: Graph) -> NDArray[np.int64]:
    """A colour for each edge so that the edges of an agent differ, by the algorithm of Misra and Gries (1992).

    The edges of one colour are a matching. There are at most Δ+1 colours, numbered from 0, where Δ is the largest
    degree, and Δ if the graph is bipartite; Δ at least are necessary.

    >>> edge_colours(Graph(4, ((0, 1), (1, 2), (2, 3), (0, 3)))).tolist()
    [0, 1, 1, 0]
    """
    bipartite = nx.is_bipartite(graph.to_networkx())
    at: Neighbours = [{} for _ in range(graph.n)]
    colour: dict[tuple[int, int], int] = {}
    for u, v in graph.edges:
        if bipartite:  # a path from v along colours that alternate never reaches u
            c = _free(at[u])
            _invert(at, colour, v, _free(at[v]), c)
            _paint(at, colour, u, v, c)
            continue
        fan = _maximal_fan(at, colour, u, v)
        c, d = _free(at[u]), _free(at[fan[-1]])
        _invert(at, colour, u, c, d)
        end = next(k for k, w in enumerate(fan) if d not in at[w] and _is_fan(at, colour, u, fan[: k + 1]))
        _rotate(at, colour, u, fan[: end + 1], d)
    found = np.array([colour[edge] for edge in graph.edges], dtype=np.int64)
    return np.unique(found, return_inverse=True)[1].reshape(-1).astype(np.int64)  # without gaps


def _free(used: dict[int, int]) -> int:
    """The smallest colour that an agent does not use."""
    return next(c for c in range(len(used) + 1) if c not in used)


def _maximal_fan(at: Neighbours, colour: dict[tuple[int, int], int], u: int, v: int) -> list[int]:
    """Neighbours v, w, … of u: the colour of each edge (u, w) is free on the neighbour before."""
    fan, left = [v], set(at[u].values())
    while left:
        following = next((w for w in sorted(left) if colour[_edge(u, w)] not in at[fan[-1]]), None)
        if following is None:
            break
        fan.append(following)
        left.remove(following)
    return fan


def _is_fan(at: Neighbours, colour: dict[tuple[int, int], int], u: int, fan: list[int]) -> bool:
    return all(colour[_edge(u, w)] not in at[before] for before, w in pairwise(fan))


def _invert(at: Neighbours, colour: dict[tuple[int, int], int], u: int, c: int, d: int) -> None:
    """Swap the colours c and d along the path from u whose first edge has colour d; c is free on u, d then too."""
    path, here, wanted = [], u, d
    while c != d and wanted in at[here]:
        following = at[here][wanted]
        path.append((here, following, wanted))
        here, wanted = following, c if wanted == d else d
    for i, j, old in path:
        del at[i][old], at[j][old]
    for i, j, old in path:
        _paint(at, colour, i, j, c if old == d else d)


def _rotate(at: Neighbours, colour: dict[tuple[int, int], int], u: int, fan: list[int], d: int) -> None:
    """Give each edge of the fan the colour of the next one, and the last one the colour d."""
    colours = [colour[_edge(u, w)] for w in fan[1:]]
    for w, old in zip(fan[1:], colours, strict=True):
        del at[u][old], at[w][old]
    for w, new in zip(fan, [*colours, d], strict=True):
        _paint(at, colour, u, w, new)


def _paint(at: Neighbours, colour: dict[tuple[int, int], int], i: int, j: int, c: int) -> None:
    colour[_edge(i, j)] = c
    at[i][c], at[j][c] = j, i


def _edge(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i < j else (j, i)
