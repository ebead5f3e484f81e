"""MATCHA (Wang et al. 2019): matchings of a graph, active at random, where the graph needs them most."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.edge_colouring import edge_colours
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.random_sequences import RandomParts, base_and_seed

Numbers = NDArray[np.float64]
MOST_AGENTS = 1000
"""The probabilities need all eigenvalues some dozen times."""
GAP, CUTS = 1e-3, 200
"""The search ends this close to the largest connectivity, relatively, or after so many steps."""
DECIMALS = 4
"""Probabilities are rounded, down, so that they depend less on a processor's last bits."""


@dataclass(frozen=True)
class Matcha(RandomParts):
    """Matchings of a base graph, each active in a round with its probability; see `matcha`."""

    budget: float = field(kw_only=True)

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """The matching of each edge."""
        return edge_colours(self.base)

    @cached_property
    def probabilities(self) -> Numbers:
        """With which probability a matching is active."""
        return activation(self.base, self.part, self.budget)[0]

    @property
    def text(self) -> str:
        """A text for `parse` that needs no file."""
        return f"matcha:{self.base.text}:{self.budget}:seed={self.seed}"


def matcha(base: object, budget: float, seed: int = 0) -> Matcha:
    """Matchings of a graph, active independently in each round with the best probabilities for a budget.

    The graph is decomposed into M matchings with Laplacians L_j, M at most its largest degree plus one. Their
    probabilities solve, to within 0.1 %,

        maximise λ₂(Σ_j p_j L_j)   subject to   Σ_j p_j <= budget·M,   0 <= p_j <= 1,

    so a round has at most budget·M matchings on average, and the matchings that hold the graph together are active
    most. W of a round is that of its own graph with the weights of the run, Metropolis for instance; the paper's
    common weight for all rounds is not used, since it can make entries of W negative.

    Args:
        base: the graph, as `as_graph` takes it.
        budget: the fraction of matchings that are active on average, above 0 and at most 1.
        seed: what the draws depend on, besides the round.

    >>> sequence = matcha("star:4", 0.5)
    >>> sequence.probabilities.tolist(), sequence.mean_edges
    ([0.5, 0.5, 0.5], 1.5)
    """
    graph, seed = base_and_seed("matcha", base, seed)
    if graph.n > MOST_AGENTS:
        raise InputError(f"graph matcha: {graph.n} agents; its probabilities are found for up to {MOST_AGENTS}.")
    fraction = checks.real("matcha", "BUDGET", budget, most=1)
    spec = f"matcha:{graph.spec or graph.text}:{fraction}:seed={seed}"
    found = Matcha(graph.n, base=graph, budget=fraction, seed=seed, spec=spec)
    try:
        found.union  # noqa: B018  refuses a budget whose probabilities round to zero
    except InputError:
        raise InputError(f"graph matcha: BUDGET {fraction:g} is too small to keep the graph connected.") from None
    return found


def activation(graph: Graph, part: NDArray[np.int64], budget: float) -> tuple[Numbers, float]:
    """The probabilities of the matchings, and an upper bound on the λ₂ that any probabilities reach.

    λ₂(Σ p_j L_j) = min over v ⟂ 1, |v| = 1 of Σ p_j vᵀL_j v, so every v bounds it by a linear function of p. Each step
    maximises the smallest of the bounds so far, a linear program whose value bounds the optimum from above, and adds
    those of the eigenvectors there (Kelley's cutting-plane method). It also tries the point half way to the best one so
    far, which saves many cuts.

    >>> activation(Graph(3, ((0, 1), (1, 2))), np.array([0, 1]), 0.5)[0].tolist()
    [0.5, 0.5]
    """
    M = int(part.max(initial=-1)) + 1
    if M == 0:
        return np.empty(0), 0.0
    most = budget * M
    best = np.full(M, budget)
    value, bounds = _connectivity(graph, part, best)
    cuts, upper = [bounds], np.inf
    for _ in range(CUTS):
        rows = np.concatenate(cuts)
        limits = np.r_[np.zeros(len(rows)), most]
        matrix = np.r_[np.c_[-rows, np.ones(len(rows))], np.r_[np.ones(M), 0.0][None]]
        found = linprog(np.r_[np.zeros(M), -1.0], matrix, limits, bounds=[(0, 1)] * M + [(None, None)])
        if found.x is None:  # numerical trouble of the solver; the best point so far stands
            break
        upper = min(upper, float(found.x[M]))
        if upper - value <= GAP * upper:
            break
        for point in (np.clip(found.x[:M], 0, 1), (best + np.clip(found.x[:M], 0, 1)) / 2):
            here, bounds = _connectivity(graph, part, point)
            cuts.append(bounds)
            if here > value:
                best, value = point, here
    return np.floor(best * 10**DECIMALS + 1e-6) / 10**DECIMALS, upper


def _connectivity(graph: Graph, part: NDArray[np.int64], p: Numbers) -> tuple[float, Numbers]:
    """λ₂ of the expected Laplacian, and vᵀL_j v of the eigenvectors near it, one row for each v."""
    i, j = graph.pairs.T
    L = np.zeros((graph.n, graph.n))
    np.subtract.at(L, (i, j), p[part])
    L += L.T
    L -= np.diag(L.sum(axis=1))
    # moves the vector of ones to the end, so that the others are orthogonal to it even if parts fall apart
    values, vectors = np.linalg.eigh(L + (1 + np.trace(L)) / graph.n)
    near = [k for k in range(graph.n - 1) if values[k] <= 1.5 * values[0] + 1e-12][:10]
    squares = (vectors[i][:, near] - vectors[j][:, near]) ** 2
    bounds = np.stack([np.bincount(part, square, minlength=len(p)).astype(np.float64) for square in squares.T])
    return float(values[0]), bounds
