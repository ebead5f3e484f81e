"""What the convergence theorem of the exact variant says of an experiment, where the facts are known."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

from peerdescent import theory
from peerdescent.algorithms import DSGPA
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Quadratic
from peerdescent.theory.exact import exact_form_failing
from peerdescent.training.plan import Plan


@dataclass(frozen=True)
class ExactVariant:
    """Whether Theorem A of docs/convergence.md applies, and how close to the optimum the method then comes."""

    holds: bool | None
    """None if the curvature of the costs is not known."""
    failing: list[str] = field(default_factory=list)
    """The conditions that do not hold."""
    guaranteed: float | None = None
    """The theorem's bound on the root mean square over the agents of ‖x_i − x*‖, in the end."""
    expected: float | None = None
    """The size at which entries of βv + g are expected to oscillate, by the slope heuristic."""

    def __str__(self) -> str:
        if self.failing:
            return f"its conditions fail: {'; '.join(self.failing)}"
        if self.holds is None:
            return "it needs strongly convex costs, αℓ ≤ β² and a small ηαρ; the curvatures μ and ℓ are not known here"
        if not self.guaranteed:
            return "its conditions hold: the method converges to the optimum"
        size = f"; entries of βv + g are expected at about {self.expected:.2g}" if self.expected else ""
        return f"its conditions hold: in the end the agents are within {self.guaranteed:.2g} of the optimum{size}"


def exact_variant(plan: Plan) -> ExactVariant | None:
    """What Theorem A says of a plan; None for methods that it is not about."""
    method = plan.algorithm
    if not isinstance(method, DSGPA) or method.power_on != "direction":
        return None
    failing = [*exact_form_failing(method), *_of_the_run(plan)]
    if plan.description.get("problem") != Quadratic.name or not isinstance(plan.problem, Quadratic):
        return ExactVariant(False if failing else None, failing)
    curvatures = torch.linalg.eigvalsh(plan.problem.A)
    mu, ell = float(curvatures.min()), float(curvatures.max())
    if not mu > 0:
        failing.append("some agent's costs are not strongly convex")
    if failing or not isinstance(plan.weights, MixingWeights):
        return ExactVariant(False, failing)
    ends = plan.weights.spectrum
    failing = theory.exact_failing(method, mu, ell, ends.rho)
    if failing:
        return ExactVariant(False, failing)
    found = theory.exact_bound(method, mu, ell, ends.rho, ends.rho2, plan.graph.n, plan.problem.dimension)
    kinds = plan.settings.laplacian, plan.settings.mixing
    seen = theory.stability(method, plan.graph, *kinds, curvature=ell, weights=plan.weights)
    return ExactVariant(True, [], found.distance, seen.chatter)


def _of_the_run(plan: Plan) -> list[str]:
    """What in the run is not what the theorem is about."""
    s = plan.settings
    noisy = s.samples is not None and not (
        plan.description.get("problem") == Quadratic.name and not getattr(plan.problem, "noise", 0.0)
    )
    added: dict[str, Any] = {
        "the graph changes over time": not isinstance(plan.graph, Graph),
        "there is one agent only": plan.graph.n == 1,
        "gradients are stochastic": noisy,
        "messages are not exchanged in every iteration": not s.periods.always,
        "messages are late": s.delay,
        "messages are lost or agents inactive": s.drop is not None or s.inactive is not None,
        "messages are rounded, noisy or compressed": s.message_dtype != "same" or s.message_noise or s.compresses,
        "the step is changed by weight decay, clipping or global averages": s.weight_decay
        or s.clip_norm
        or s.average_every,
    }
    return [text for text, applies in added.items() if applies]
