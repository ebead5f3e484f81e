"""What the convergence theorem of the exact variant says of an experiment, where the facts are known."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, cast

import torch

from peerdescent import theory
from peerdescent.algorithms import DSGPA
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Quadratic
from peerdescent.theory.exact import exact_form_failing, exact_matched, exact_step
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
    start: float | None = None
    """The same distance at the start, where it is known."""
    parameters: dict[str, float] | None = None
    """With the same η, what satisfies the conditions, where the curvatures are known and the method's do not."""

    def __str__(self) -> str:
        if self.parameters:
            values = ", ".join(f"{name} = {value:.4g}" for name, value in self.parameters.items())
            return f"its conditions fail: {'; '.join(self.failing)}; {values} satisfies them"
        if self.failing:
            return f"its conditions fail: {'; '.join(self.failing)}"
        if self.holds is None:
            return "it needs strongly convex costs, αℓ ≤ β² and a small ηαρ; the curvatures μ and ℓ are not known here"
        if not self.guaranteed:
            return "its conditions hold: the method converges to the optimum"
        curved = "with the curvature of these costs entries of βv + g are expected at about"
        size = f"; {curved} {self.expected:.2g} (a heuristic)" if self.expected else ""
        if self.guaranteed >= (self.start or math.inf):
            return f"its conditions hold, but for so large a step its bound is beyond the start and tells nothing{size}"
        distance = f"the distance from the optimum, root mean square over the agents, is at most {self.guaranteed:.2g}"
        return f"its conditions hold: in the end {distance}{size}"


def exact_variant(plan: Plan) -> ExactVariant | None:
    """What Theorem A says of a plan; None for methods that it is not about."""
    method = plan.algorithm
    if not isinstance(method, DSGPA) or method.power_on != "direction":
        return None
    failing = [*exact_form_failing(method), *_of_the_run(plan)]
    known = _curvatures(plan)
    if known is None:
        return ExactVariant(False if failing else None, failing)
    mu, ell = known
    if not mu > 0:
        failing.append("some agent's costs are not strongly convex")
    if failing or not isinstance(plan.weights, MixingWeights):
        return ExactVariant(False, failing)
    ends = plan.weights.spectrum
    failing = theory.exact_failing(method, mu, ell, ends.rho)
    if failing:
        cure = exact_matched(method.nominal()["eta"], mu, ell, ends.rho, method.dual) if method.gamma < 1 else None
        return ExactVariant(False, failing, parameters=cure)
    found = theory.exact_bound(method, mu, ell, ends.rho, ends.rho2, plan.graph.n, plan.problem.dimension)
    kinds = plan.settings.laplacian, plan.settings.mixing
    seen = theory.stability(method, plan.graph, *kinds, curvature=ell, weights=plan.weights)
    problem = cast(Quadratic, plan.problem)
    away = plan.start(problem).to(problem.A) - problem.optimum()
    return ExactVariant(True, [], found.distance, seen.chatter, float(away.square().sum(dim=1).mean().sqrt()))


def exact_start(plan: Plan, iterations: int) -> dict[str, float] | None:
    """η, α and β that satisfy Theorem A and suit so many iterations; None where it is not about the plan.

    It is about costs with known curvatures: quadratic ones, with exact gradients.
    """
    method = plan.algorithm
    if not isinstance(method, DSGPA) or exact_form_failing(method) or _of_the_run(plan):
        return None
    known = _curvatures(plan)
    if known is None or not known[0] > 0 or not isinstance(plan.weights, MixingWeights):
        return None
    problem, rho = cast(Quadratic, plan.problem), plan.weights.spectrum.rho
    gradients = torch.einsum("npq,nq->np", problem.A, plan.start(problem).to(problem.A) - problem.c)
    size = float(gradients.abs().max())
    return exact_matched(exact_step(*known, rho, method.gamma, size, iterations, method.dual), *known, rho, method.dual)


def _curvatures(plan: Plan) -> tuple[float, float] | None:
    """The smallest and the largest curvature of any agent's costs, if they are known."""
    if plan.description.get("problem") != Quadratic.name or not isinstance(plan.problem, Quadratic):
        return None
    curvatures = torch.linalg.eigvalsh(plan.problem.A)
    return float(curvatures.min()), float(curvatures.max())


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
