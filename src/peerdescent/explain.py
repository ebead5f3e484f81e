"""What an experiment will meet, before it runs: the graph, the traffic, stability, and what theory promises."""

from __future__ import annotations

import math
from typing import Any

from peerdescent import theory
from peerdescent.algorithms import DSGPA, Algorithm
from peerdescent.engine.network import Wiring
from peerdescent.engine.update import vectors_sent
from peerdescent.errors import InputError
from peerdescent.experiments import Experiment
from peerdescent.graphs import Graph

FEW_AGENTS = 200
"""Up to so many agents, cures for an unstable method are sought by trying."""


def explain(experiment: Experiment, name: str) -> dict[str, Any]:
    """The facts for one method of an experiment, as plain data.

    >>> facts = explain(Experiment(graph="authors10", laplacian="unit"), "dsgpa-f")
    >>> facts["stability"]["stable"], facts["graph"]["agents"]
    (True, 10)
    """
    graph, method = experiment.make_graph(), experiment.make_algorithm(name)
    wiring = Wiring.build(graph, experiment.laplacian, experiment.mixing, method)
    return {
        "algorithm": name,
        "graph": _graph(graph, wiring),
        "vectors_per_edge": vectors_sent(method),
        "stability": stability(experiment, name),
        "theorem1": theorem1(method, wiring, experiment.iterations),
        "notes": list(wiring.notes),
    }


def stability(experiment: Experiment, name: str) -> dict[str, Any]:
    """Whether the method is stable on the graph, why, and which single change would cure it."""
    graph, method = experiment.make_graph(), experiment.make_algorithm(name)
    kinds = (experiment.laplacian, experiment.mixing)
    try:
        verdict = theory.stability(method, graph, *kinds)
    except InputError as error:  # a method whose modes do not separate
        return {"stable": None, "margin": None, "reason": str(error), "cures": {}}
    seek = not verdict.stable and graph.n <= FEW_AGENTS
    cures = theory.nearest_stable(method, graph, *kinds) if seek else {}
    tenfold = verdict.tenfold if math.isfinite(verdict.tenfold) else None
    found = {"stable": verdict.stable, "margin": verdict.margin, "reason": verdict.reason}
    return {**found, "eigenvalue": verdict.eigenvalue, "tenfold_iterations": tenfold, "cures": cures}


def theorem1(method: Algorithm, wiring: Wiring, iterations: int) -> dict[str, Any]:
    """Whether the conditions of Theorem 1 hold, and which do not."""
    if not isinstance(method, DSGPA) or method.power_on != "gradient":
        return {"holds": False, "failing": ["Theorem 1 speaks of DSGPA-F-PB alone"]}
    h, n = method.hyperparameters(0), wiring.graph.n
    rho, rho2 = wiring.spectrum.rho, wiring.spectrum.rho2
    if n < 2 or h["beta"] == 0:
        return {"holds": False, "failing": ["Theorem 1 speaks of at least two agents and a positive β"]}
    k1, k2 = h["alpha"] / h["beta"], h["eta"] * h["beta"]
    bound = min(((k1 - 1) * rho2 - 1) / (rho + (2 * k1**2 + 1) * rho**2 + 1), 0.2)
    conditions = {
        f"T > n³ = {n**3}": iterations > n**3,
        f"κ₁ = α/β = {k1:.4g} > 1/ρ₂ + 1 = {1 / rho2 + 1:.4g}": k1 > 1 / rho2 + 1,
        f"κ₂ = ηβ = {k2:.4g} < {bound:.4g}": 0 < k2 < bound,
        f"η = {h['eta']:.4g} = √(n/T) = {math.sqrt(n / max(1, iterations)):.4g}": math.isclose(
            h["eta"], math.sqrt(n / max(1, iterations)), rel_tol=0.01
        ),
        "γ in [1/2, 1]": 0.5 <= method.gamma <= 1,
        "fixed parameters (ε = 0)": method.epsilon == 0,
        "the printed dual order (jacobi)": method.dual == "jacobi",
    }
    failing = [condition for condition, holds in conditions.items() if not holds]
    return {"holds": not failing, "failing": failing}


def sentence(name: str, found: dict[str, Any]) -> str:
    """One line about stability, with a cure if there is one."""
    if found["stable"] is None:
        return f"{name}: {found['reason']}"
    if found["stable"]:
        slow = found["tenfold_iterations"]
        return f"{name}: stable; disagreement shrinks tenfold in about {max(1, round(slow or 0)):,} iterations"
    cure = next(iter(found["cures"].items()), None)
    hint = f"; {cure[0]} = {_below(cure[1])} would cure it" if cure else ""
    return f"{name} is unstable on this graph: {found['reason']}{hint}"


def _below(value: float) -> str:
    """Two digits, on the safe side of a boundary that lies below."""
    step = 10 ** (math.floor(math.log10(value)) - 1)
    return f"{math.floor(value / step * 0.999) * step:.2g}"


def _graph(graph: Graph, wiring: Wiring) -> dict[str, Any]:
    ends = wiring.spectrum
    return {
        "agents": graph.n,
        "edges": len(graph.edges),
        "degrees": [int(graph.degrees.min()), int(graph.degrees.max())],
        "diameter": graph.diameter(),
        "rho": ends.rho,
        "rho2": ends.rho2,
        "lambda_min": ends.lambda_min,
        "gap": ends.gap,
    }
