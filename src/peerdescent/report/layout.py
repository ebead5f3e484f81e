"""What every drawing of a graph needs: the agents' positions, and a caption with the spectrum of L."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array, eye_array

from peerdescent.graphs import Graph, Spectrum, spectrum
from peerdescent.graphs.own_weights import label

LABELLED = 60
"""Up to this many agents, a drawing shows their numbers."""
MATCHED = "matched"
"""The Laplacian (I−W)/(αη), which depends on the method; I−W is shown in its place."""


@dataclass(frozen=True)
class WeightedGraph:
    """A graph and the spectrum of the Laplacian used on it."""

    graph: Graph
    spectrum: Spectrum
    kind: str = "metropolis"
    """The kind of the Laplacian, or "I−W"."""

    @classmethod
    def build(cls, graph: Graph, laplacian: str = "metropolis", mixing: str = "metropolis") -> WeightedGraph:
        """The spectrum of L for these kinds of L and W; that of I−W for a matched Laplacian.

        >>> from peerdescent.graphs import ring
        >>> print(WeightedGraph.build(ring(4), "matched").caption())
        4 agents, 4 edges, degree 2, diameter 2
        I−W: ρ = 1.333, ρ₂ = 0.6667
        """
        W = graph.mixing(mixing)
        if laplacian == MATCHED:
            return cls(graph, spectrum(csr_array(eye_array(graph.n) - W), W), "I−W")
        return cls(graph, spectrum(graph.laplacian(laplacian), W), laplacian)

    def caption(self) -> str:
        """Size, degrees and diameter in one line, the spectrum of L in a second."""
        graph, ends = self.graph, self.spectrum
        low, high = int(graph.degrees.min()), int(graph.degrees.max())
        size = str(graph).rpartition("(")[2].rstrip(")")  # "10 agents, 11 edges", in the singular for one
        degree = f"degree {low}" if low == high else f"degree {low}–{high}"
        matrix, of = (self.kind, "") if self.kind == "I−W" else (f"{label(self.kind)} Laplacian", "(L)")
        numbers = f"{matrix}: ρ{of} = {ends.rho:.4g}, ρ₂{of} = {ends.rho2:.4g}"
        hops = graph.quick_diameter()
        diameter = "" if hops is None else f", diameter {hops}"
        return f"{size}, {degree}{diameter}\n{numbers}"


def positions(graph: Graph) -> NDArray[np.float64]:
    """Where the agents are drawn: n×2, the same at every call."""
    kind, *numbers = graph.spec.split(":")
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
