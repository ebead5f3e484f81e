"""`explain`: what an experiment will meet, before it runs: the graph, the traffic, stability, and what is proved."""

from __future__ import annotations

import functools
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from peerdescent import theory
from peerdescent.algorithms import DSGPA, Algorithm
from peerdescent.clock.communication import messages_of
from peerdescent.clock.files import read
from peerdescent.clock.model import NetworkModel
from peerdescent.clock.pace import Forecast
from peerdescent.errors import InputError
from peerdescent.experiments.exact_variant import ExactVariant, exact_variant
from peerdescent.experiments.explain_compression import CompressionFacts, compression_facts
from peerdescent.graphs import AnyGraph, DirectedGraph, Graph
from peerdescent.mixing.push_sum import PushSumRounds
from peerdescent.problems import Problem
from peerdescent.report.layout import frames
from peerdescent.theory.prediction import Prediction, predict_ranges
from peerdescent.theory.theorem1 import parameters_for
from peerdescent.tracing.recording import gradients_wanted
from peerdescent.training.clocked import forecast_of
from peerdescent.training.memory import Estimate
from peerdescent.training.plan import Plan
from peerdescent.training.train import plan_of

DRAWN = 20
"""Up to so many agents a graph fits a terminal."""


@dataclass(frozen=True)
class GraphFacts:
    """Size and spectrum of a graph with the weights of the run."""

    agents: int
    edges: int
    """Of a sequence, of all its rounds together, as are degrees and diameter."""
    degrees: tuple[int, int]
    """The smallest and the largest."""
    diameter: int | None
    """None for a graph so large that it would take minutes."""
    rho: float
    """The largest eigenvalue of L."""
    rho2: float
    """The smallest positive eigenvalue of L."""
    lambda_min: float
    """The smallest eigenvalue of W."""
    gap: float
    """1 − max(|λ₂(W)|, |λmin(W)|); on graphs over time, 1 − the contraction of one round."""
    lambda2: float
    """The second largest eigenvalue of W."""
    contraction: theory.Contraction | None = None
    """How mixing contracts on graphs over time, whose eigenvalues above are those of the mean L and W."""
    edges_per_round: float | None = None
    """The mean number of edges of a round, on graphs over time, of all of which `edges` is the number."""
    push_sum: tuple[float, float] | None = None
    """On a directed graph: the smallest and the largest push-sum weight that agents settle at. Then edges are directed,
    degrees are numbers of receivers, and eigenvalues are not defined."""


@dataclass(frozen=True)
class Traffic:
    """What an agent sends."""

    vectors_per_edge: int
    dimension: int
    communication_period: int | str
    bytes_per_iteration: tuple[float, float]
    """By an agent with the fewest neighbours and by one with the most, averaged over the iterations."""


@dataclass(frozen=True)
class Theorem1:
    """Whether Theorem 1 of the paper applies."""

    holds: bool
    failing: list[str] = field(default_factory=list)
    """The conditions that do not hold."""
    parameters: dict[str, float] | None = None
    """What the theorem asks for on this graph."""
    infeasible: str | None = None
    """Why there are no such parameters."""
    caveat: str | None = None
    """What the conditions do not tell."""


@dataclass(frozen=True)
class Explanation:
    """What is known of one method before it runs; `explain --json` prints it."""

    algorithm: str
    graph: GraphFacts
    traffic: Traffic
    stability: Prediction
    ranges: dict[str, tuple[float, float | None]]
    """Between which values each step size may be changed alone while the method stays stable."""
    theorem1: Theorem1
    exact: ExactVariant | None
    """What is proved of the exact variant; None for other methods."""
    notes: list[str]
    memory: Estimate
    """What the run takes on one machine."""
    forecast: Forecast | None = None
    """Seconds per iteration in a network, if one was named."""
    compression: CompressionFacts | None = None
    """What is proved of the consensus step, and what is a rule; None if messages are not compressed."""
    gradients_per_iteration: int = 1
    """How many gradients an agent computes in an iteration, all on the same samples."""

    def as_dict(self) -> dict[str, Any]:
        """The same as plain data, ready for JSON."""
        return {**asdict(self), "memory": {**asdict(self.memory), "total": self.memory.total}}

    def __str__(self) -> str:
        return self.stability.sentence(self.algorithm)


def explain(
    problem: Problem | str,
    graph: object,
    algorithm: Algorithm | str,
    x0: torch.Tensor | None = None,
    network: str | os.PathLike[str] | NetworkModel | None = None,
    **settings: Any,
) -> Explanation:
    """What a call of `train` with the same arguments will meet; nothing is run.

    With a network (a model, a TOML file, or a name such as "wan"), also how long an iteration takes there.

    >>> facts = explain("quadratic", "authors10", "dsgpa-f", laplacian="unit")
    >>> facts.stability.stable, facts.graph.agents
    (True, 10)
    >>> facts.stability.condition
    'stable if and only if ρ(L) < 6.061; here ρ(L) = 5.175 (flat costs)'
    """
    return explain_plan(plan_of(problem, graph, algorithm, x0, **settings), None if network is None else read(network))


def explain_plan(plan: Plan, network: NetworkModel | None = None) -> Explanation:
    """What is known of a plan, and of its time in a network."""
    s = plan.settings
    ranges = predict_ranges(plan.algorithm, plan.judged_weights, s.laplacian, s.mixing, s.periods, s.delay)
    return Explanation(
        plan.name,
        _graph(plan),
        traffic(plan),
        plan.prediction,
        ranges,
        theorem1(plan),
        exact_variant(plan),
        [*plan.weights.notes, *_not_judged(plan), *_broken(plan)],
        plan.memory(),
        None if network is None else forecast_of(plan, network),
        compression_facts(plan),
        gradients_wanted(plan.algorithm),
    )


def _not_judged(plan: Plan) -> list[str]:
    """What the run adds to the method, of which stability, its ranges and Theorem 1 know nothing."""
    added: dict[str, object] = {"weight decay": plan.settings.weight_decay, "clipping": plan.settings.clip_norm}
    added["gradient noise"] = plan.settings.gradient_noise
    added["global averages"] = plan.settings.average_every
    names = [name for name, value in added.items() if value]
    return [f"stability and Theorem 1 are judged without {' and '.join(names)}"] if names else []


def _broken(plan: Plan) -> list[str]:
    """What no longer holds of the method on this network."""
    try:
        kept = theory.invariants(plan.algorithm, plan.judged_weights)
    except InputError:  # a step that cannot be recorded, which the prediction says
        return []
    return [] if kept.survive else [str(kept)]


def _graph(plan: Plan) -> GraphFacts:
    if isinstance(plan.weights, PushSumRounds):
        return _directed_graph(plan.weights)
    graph, ends = plan.graph.union, plan.weights.spectrum
    degrees = int(graph.degrees.min()), int(graph.degrees.max())
    size = graph.n, len(graph.edges), degrees, _diameter(graph)
    if isinstance(plan.graph, Graph):
        return GraphFacts(*size, ends.rho, ends.rho2, ends.lambda_min, ends.gap, ends.lambda2)
    found = theory.contraction(plan.weights)
    eigenvalues = ends.rho, ends.rho2, ends.lambda_min, found.gap, ends.lambda2
    return GraphFacts(*size, *eigenvalues, found, plan.graph.mean_edges)


def _directed_graph(weights: PushSumRounds) -> GraphFacts:
    graph, ends, found = weights.graph, weights.spectrum, theory.contraction(weights)
    degrees = int(graph.out_degrees.min()), int(graph.out_degrees.max())
    size = graph.n, len(graph.all_arcs), degrees, graph.quick_diameter()
    eigenvalues = ends.rho, ends.rho2, ends.lambda_min, found.gap, ends.lambda2
    settled = np.stack(weights.settled().weights)
    return GraphFacts(*size, *eigenvalues, found, graph.mean_edges, (float(settled.min()), float(settled.max())))


@functools.lru_cache(maxsize=4)
def _diameter(graph: Graph) -> int | None:
    """Methods of one experiment share the graph, and its diameter takes a while."""
    return graph.quick_diameter()


def traffic(plan: Plan) -> Traffic:
    """What an agent sends per iteration, on average."""
    period, degrees = plan.settings.communication_period, plan.graph.mean_degrees
    each = (float(d) * plan.vectors_sent * plan.vector_bytes for d in (degrees.min(), degrees.max()))
    share = plan.settings.periods.share(plan.settings.iterations)
    few, many = (sent / period if isinstance(period, int) else sent * share for sent in each)
    return Traffic(plan.vectors_sent, plan.dimension, period, (few, many))


def theorem1(plan: Plan) -> Theorem1:
    """Whether the conditions of Theorem 1 hold, which do not, and the parameters that it asks for here."""
    if isinstance(plan.graph, DirectedGraph):
        return Theorem1(False, ["Theorem 1 covers only undirected graphs"])
    method, n, ends = plan.algorithm, plan.graph.n, plan.weights.spectrum
    failing = theory.theorem1_failing(method, ends.rho, ends.rho2, n, plan.settings.iterations)
    if not isinstance(plan.graph, Graph):
        return Theorem1(False, ["Theorem 1 covers only graphs that stay the same"])
    if not isinstance(method, DSGPA) or method.power_on != "gradient":
        return Theorem1(not failing, failing)
    caveat = None if failing else _caveat(method, ends.rho2, n, plan.settings.iterations)
    try:
        asked = parameters_for(ends.rho, ends.rho2, n, plan.settings.iterations)
        return Theorem1(not failing, failing, asked, caveat=caveat)
    except InputError as error:
        return Theorem1(not failing, failing, infeasible=str(error), caveat=caveat)


def _caveat(method: DSGPA, rho2: float, n: int, iterations: int) -> str | None:
    """What the printed conditions do not tell: the theorem is false for γ < 1, and its proof needs a larger β."""
    if method.gamma < 1:
        return "for γ < 1 the theorem itself is false in general, see docs/theory.md"
    h = method.nominal()
    needed = theory.theorem1_proof_iterations(h["alpha"] / h["beta"], h["eta"] * h["beta"], rho2, n)
    return f"its proof needs at least {needed:.2g} iterations" if iterations < needed else None


def picture(graph: AnyGraph) -> str:
    """The adjacency matrix as dots, agents numbered from 0; empty if there are too many.

    A sequence has, instead of a dot, the first of the rounds 0 to 5 with this edge. Rows of a directed graph send.

    >>> from peerdescent.graphs import path
    >>> print(picture(path(3)))
       0 1 2
     0 · ● ·
     1 ● · ●
     2 · ● ·
    >>> from peerdescent.graphs import parse
    >>> print(picture(parse("onepeer-exp:4")))
       0 1 2 3
     0 · 0 1 ·
     1 0 · · 1
     2 1 · · 0
     3 · 1 0 ·
    """
    if graph.n > DRAWN:
        return ""
    heads = " ".join(str(number % 10) for number in range(graph.n))
    stays = isinstance(graph, Graph) or (isinstance(graph, DirectedGraph) and graph.period == 1)
    marks = {
        (int(i), int(j)): "●" if stays else str(number)
        for number in reversed(range(len(frames(graph))))
        for i, j in messages_of(graph, number)
    }
    rows = [f"{i:2} " + " ".join(marks.get((i, j), "·") for j in range(graph.n)) for i in range(graph.n)]
    return "\n".join([f"   {heads}", *rows])
