"""`explain`: what an experiment will meet, before it runs: the graph, the traffic, stability, and Theorem 1."""

from __future__ import annotations

import functools
import os
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from peerdescent import theory
from peerdescent.algorithms import DSGPA, Algorithm
from peerdescent.clock.files import read
from peerdescent.clock.model import NetworkModel
from peerdescent.clock.pace import Forecast
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph, Graph
from peerdescent.problems import Problem
from peerdescent.report.layout import frames
from peerdescent.theory.prediction import Prediction, predict_ranges
from peerdescent.theory.theorem1 import parameters_for
from peerdescent.training.clocked import forecast_of
from peerdescent.training.memory import Estimate
from peerdescent.training.plan import Plan
from peerdescent.training.settings import Settings
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
    notes: list[str]
    memory: Estimate
    """What the run takes on one machine."""
    forecast: Forecast | None = None
    """Seconds per iteration in a network, if one was named."""

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
    'stable if and only if ρ(L) < 6.061; here ρ(L) = 5.175'
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
        [*plan.weights.notes, *_not_judged(plan), *_broken(plan)],
        plan.memory(),
        None if network is None else forecast_of(plan, network),
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
    graph, ends = plan.graph.union, plan.weights.spectrum
    degrees = int(graph.degrees.min()), int(graph.degrees.max())
    size = graph.n, len(graph.edges), degrees, _diameter(graph)
    if isinstance(plan.graph, Graph):
        return GraphFacts(*size, ends.rho, ends.rho2, ends.lambda_min, ends.gap, ends.lambda2)
    found = theory.contraction(plan.weights)
    eigenvalues = ends.rho, ends.rho2, ends.lambda_min, found.gap, ends.lambda2
    return GraphFacts(*size, *eigenvalues, found, plan.graph.mean_edges)


@functools.lru_cache(maxsize=4)
def _diameter(graph: Graph) -> int | None:
    """Methods of one experiment share the graph, and its diameter takes a while."""
    return graph.quick_diameter()


def traffic(plan: Plan) -> Traffic:
    """What an agent sends per iteration, on average."""
    period, degrees = plan.settings.communication_period, plan.graph.mean_degrees
    each = (float(d) * plan.vectors_sent * plan.vector_bytes for d in (degrees.min(), degrees.max()))
    few, many = (sent / period if isinstance(period, int) else sent * _share(plan.settings) for sent in each)
    return Traffic(plan.vectors_sent, plan.dimension, period, (few, many))


def _share(settings: Settings) -> float:
    """The share of the iterations that exchange messages."""
    return settings.periods.rounds_before(settings.iterations) / max(1, settings.iterations)


def theorem1(plan: Plan) -> Theorem1:
    """Whether the conditions of Theorem 1 hold, which do not, and the parameters that it asks for here."""
    method, n, ends = plan.algorithm, plan.graph.n, plan.weights.spectrum
    failing = theory.theorem1_failing(method, ends.rho, ends.rho2, n, plan.settings.iterations)
    if not isinstance(plan.graph, Graph):
        return Theorem1(False, ["Theorem 1 covers only graphs that stay the same"])
    if not isinstance(method, DSGPA) or method.power_on != "gradient":
        return Theorem1(not failing, failing)
    try:
        return Theorem1(not failing, failing, parameters_for(ends.rho, ends.rho2, n, plan.settings.iterations))
    except InputError as error:
        return Theorem1(not failing, failing, infeasible=str(error))


def picture(graph: AnyGraph) -> str:
    """The adjacency matrix as dots, agents numbered from 0; empty if there are too many.

    A sequence has, instead of a dot, the first of the rounds 0 to 5 with this edge.

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
    marks = {
        edge: "●" if isinstance(graph, Graph) else str(number)
        for number, each in reversed(list(enumerate(frames(graph))))
        for i, j in each.edges
        for edge in ((i, j), (j, i))
    }
    rows = [f"{i:2} " + " ".join(marks.get((i, j), "·") for j in range(graph.n)) for i in range(graph.n)]
    return "\n".join([f"   {heads}", *rows])
