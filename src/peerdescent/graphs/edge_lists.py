"""Graphs from a list of edges in one text: `edges:0-1,1-2,2-0`, or with weights `edges:0-1=0.5,1-2=2`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.edge_texts import split_edges
from peerdescent.graphs.graph import Graph


def from_edge_list(text: str) -> Graph:
    """The graph of edges `I-J` or `I-J=W`, separated by commas; agents are counted from 0.

    Args:
        text: the edges, each once, in any order and direction; all edges have a weight W > 0, or none.

    >>> from_edge_list("0-1,2-1").edges
    ((0, 1), (1, 2))
    >>> from_edge_list("0-1=0.5,1-2=2").weights
    (0.5, 2.0)
    """
    if not isinstance(text, str):
        raise InputError(f"graph edges: expected a text such as '0-1,1-2', not {described(text)}.")
    try:
        pairs, weights = read_edges(text)
        checks.size("edges", 1, len(pairs))
        return Graph.from_pairs(1 + int(pairs.max()), pairs, weights)
    except InputError as error:
        raise InputError(f"graph edges: {str(error).removeprefix('graph edges: ')}") from None


def read_edges(text: str) -> tuple[NDArray[np.int64], list[float] | None]:
    """The pairs of agents in an edge list, and their weights if they have some.

    >>> read_edges("0-1=0.5")
    (array([[0, 1]]), [0.5])
    """
    pairs: list[tuple[int, int]] = []
    weights: list[float] = []
    for i, j, weight in split_edges(text):
        pairs.append((i, j))
        if weight is not None:
            weights.append(_weight(weight))
    if weights and len(weights) != len(pairs):
        missing = len(pairs) - len(weights)
        raise InputError(f"{missing} of {len(pairs)} edges have no weight; give all edges a weight, or none.")
    return np.array(pairs, dtype=np.int64), weights or None


def text_of(graph: Graph) -> str:
    """The edges of a graph as a text for `parse`; `path:1` for a single agent, which has none."""
    return f"edges:{edges_text(graph)}" if graph.edges else "path:1"


def edges_text(graph: Graph) -> str:
    """The edges as `read_edges` takes them."""
    if graph.weights is None:
        return ",".join(f"{i}-{j}" for i, j in graph.edges)
    return ",".join(f"{i}-{j}={w!r}" for (i, j), w in zip(graph.edges, graph.weights, strict=True))


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        weight = math.nan
    if not (math.isfinite(weight) and weight > 0):
        raise InputError(f"a weight must be a positive number, not {text.strip()[:60]!r}.")
    return weight
