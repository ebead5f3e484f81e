"""What every drawing of a graph needs: the agents' positions, and a caption with the spectrum of L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from peerdescent.graphs import AnyGraph, DirectedGraph, Graph, GraphSequence, Spectrum, spectrum
from peerdescent.graphs.own_weights import label

LABELLED = 60
"""Up to this many agents, a drawing shows their numbers."""
FRAMES = 6
"""So many rounds of a sequence are drawn."""
MATCHED = "matched"
"""The Laplacian (I−W)/(αη), which depends on the method; I−W is shown in its place."""


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and the spectrum of the Laplacian used on it; None for a sequence, which has one in each round."""

    graph: AnyGraph
    spectrum: Spectrum | None
    kind: str = "metropolis"
    """The kind of the Laplacian, or "I−W"."""

    @classmethod
    def build(cls, graph: AnyGraph, laplacian: str = "metropolis", mixing: str = "metropolis") -> WeightedGraph:
        """The spectrum of L for these kinds of L and W; that of I−W for a matched Laplacian.

        >>> from peerdescent.graphs import ring
        >>> print(WeightedGraph.build(ring(4), "matched").caption())
        4 agents, 4 edges, degree 2, diameter 2
        I−W: ρ = 1.333, ρ₂ = 0.6667
        """
        if isinstance(graph, GraphSequence):
            return cls(graph, None, laplacian)
        W = graph.mixing(mixing)
        if laplacian == MATCHED:
            return cls(graph, spectrum(csr_array(eye_array(graph.n) - W), W), "I−W")
        return cls(graph, spectrum(graph.laplacian(laplacian), W), laplacian)

    def caption(self) -> str:
        """Size, degrees and diameter in one line, the spectrum of L, or the rounds of a sequence, in a second."""
        graph, ends = self.graph, self.spectrum
        if isinstance(graph, GraphSequence) or ends is None:
            return _sequence_caption(graph)
        low, high = int(graph.degrees.min()), int(graph.degrees.max())
        size = str(graph).rpartition("(")[2].rstrip(")")  # "10 agents, 11 edges", in the singular for one
        degree = f"degree {low}" if low == high else f"degree {low}–{high}"
        matrix, of = (self.kind, "") if self.kind == "I−W" else (f"{label(self.kind)} Laplacian", "(L)")
        numbers = f"{matrix}: ρ{of} = {ends.rho:.4g}, ρ₂{of} = {ends.rho2:.4g}"
        hops = graph.quick_diameter()
        diameter = "" if hops is None else f", diameter {hops}"
        return f"{size}, {degree}{diameter}\n{numbers}"


def frames(graph: AnyGraph) -> list[Graph]:
    """The rounds that a drawing shows: the first ones of a sequence, a graph itself.

    >>> from peerdescent.graphs import parse
    >>> len(frames(parse("ring:4"))), len(frames(parse("onepeer-exp:16"))), len(frames(parse("matching:4")))
    (1, 4, 6)
    """
    return [graph.graph(round) for round in range(min(FRAMES, graph.period or FRAMES))]


def arrow_heads(places: NDArray[np.float64], pairs: NDArray[Any], size: float) -> NDArray[np.float64]:
    """A triangle on each line from one agent to another, two thirds of the way: lines × 3 corners × 2."""
    begin, end = places[pairs[:, 0]], places[pairs[:, 1]]
    along = end - begin
    along = size * along / np.maximum(np.linalg.norm(along, axis=1, keepdims=True), 1e-12)
    across = np.stack([-along[:, 1], along[:, 0]], axis=1) / 2
    tip = begin + (end - begin) * 2 / 3
    return np.stack([tip, tip - along + across, tip - along - across], axis=1)


def _sequence_caption(graph: AnyGraph) -> str:
    """The agents and the rounds that are drawn in one line, what a round has in a second."""
    agents = "1 agent" if graph.n == 1 else f"{graph.n} agents"
    shown = len(frames(graph))
    if graph.period is None:
        rounds = f"the first {shown} of its rounds, which never repeat"
    else:
        rounds = "always the same round" if graph.period == 1 else f"repeats after {graph.period} rounds"
        rounds += f", of which the first {shown} are drawn" if shown < graph.period else ""
    low, high = (f"{degree:.3g}" for degree in (graph.mean_degrees.min(), graph.mean_degrees.max()))
    degree = low if low == high else f"{low}–{high}"
    directed, out = ("directed ", "out-") if isinstance(graph, DirectedGraph) else ("", "")
    edges = f"{graph.mean_edges:.4g} {directed}edge" + "s" * (graph.mean_edges != 1)
    total = len(graph.all_arcs) if isinstance(graph, DirectedGraph) else len(graph.union.edges)
    if directed and graph.period == 1:
        return f"{agents}, {edges}\n{out}degree {degree}"
    return f"{agents}, {rounds}\n{edges} and {out}degree {degree} on average, {total} edges in all rounds"


def positions(graph: AnyGraph) -> NDArray[np.float64]:
    """Where the agents are drawn: n×2, the same at every call and in every round."""
    kind, *numbers = graph.spec.split(":")
    if isinstance(graph, GraphSequence):
        if kind in ("matcha", "active-edges"):
            return positions(graph.union)
        found = nx.circular_layout(range(graph.n))
        return np.array([found[agent] for agent in range(graph.n)], dtype=np.float64)
    if kind == "grid":
        rows, columns = map(int, numbers)
        down, across = np.divmod(np.arange(rows * columns), columns)
        return np.stack([across, -down], axis=1).astype(np.float64)
    found = _layout(graph, kind)
    return np.array([found[agent] for agent in range(graph.n)], dtype=np.float64)


def _layout(graph: Graph, kind: str) -> Any:
    g, n = graph.to_networkx(), graph.n
    if kind == "path" or n == 2:  # an arc, since a line would use none of the height
        angles = np.linspace(np.pi, 0, n)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    centre = int(graph.degrees.argmax())
    if len(graph.edges) == n - 1 and graph.degrees[centre] == n - 1:
        return nx.shell_layout(g, [[centre], [agent for agent in g if agent != centre]])
    if graph.degrees.max() == graph.degrees.min() == 2:  # a ring, however its agents are numbered
        return nx.circular_layout(list(nx.dfs_preorder_nodes(g, 0)))
    if len(graph.edges) == n * (n - 1) // 2 or kind in ("exponential", "ws"):
        return nx.circular_layout(g)
    if n <= 150:
        return nx.kamada_kawai_layout(g, weight=None)
    # spring forces cost n² per step: the larger the graph, the fewer the steps
    return nx.spring_layout(g, weight=None, seed=0, iterations=max(5, min(100, 100_000 // n)))
