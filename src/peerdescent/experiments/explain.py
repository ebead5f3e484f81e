"""What an experiment will meet, before it runs: the graph, the traffic, stability, and what theory promises."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Any

from peerdescent import problems, schedules, theory
from peerdescent._util.numbers import finite_or_none
from peerdescent.algorithms import DSGPA, Algorithm
from peerdescent.errors import InputError
from peerdescent.experiments import Experiment
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.recursion import Equation
from peerdescent.theory.theorem1 import parameters_for
from peerdescent.tracing.recording import vectors_sent

PICTURED = 20
"""Up to so many agents a graph fits a terminal."""


def explain(experiment: Experiment, name: str) -> dict[str, Any]:
    """The facts for one method of an experiment, as plain data.

    >>> facts = explain(Experiment(graph="authors10", laplacian="unit"), "dsgpa-f")
    >>> facts["stability"]["stable"], facts["graph"]["agents"]
    (True, 10)
    >>> facts["stability"]["condition"]
    'stable if and only if ρ(L) < 6.061; here ρ(L) = 5.175'
    """
    graph, method = experiment.make_graph(), experiment.make_algorithm(name)
    weights = MixingWeights.build(graph, experiment.laplacian, experiment.mixing, method)
    return {
        "algorithm": name,
        "graph": _graph(graph, weights),
        "traffic": traffic(experiment, method, graph),
        "stability": {**_stability(experiment, graph, method), "ranges": _ranges(experiment, graph, method)},
        "theorem1": theorem1(method, weights, experiment.iterations),
        "notes": list(weights.notes),
    }


def traffic(experiment: Experiment, method: Algorithm, graph: Graph) -> dict[str, Any]:
    """What an agent with the fewest and one with the most neighbours sends, averaged over the iterations."""
    dimension = problems.dimension(
        experiment.problem, graph.n, experiment.partition, **experiment.set.get("problem", {})
    )
    vectors, size = vectors_sent(method), experiment.settings().place()[1].itemsize
    ends = [int(degree) * vectors * dimension * size for degree in (graph.degrees.min(), graph.degrees.max())]
    return {
        "vectors_per_edge": vectors,
        "dimension": dimension,
        "communication_period": experiment.communication_period,
        "bytes_per_iteration": [sent / experiment.communication_period for sent in ends],
    }


def stability(experiment: Experiment, name: str) -> dict[str, Any]:
    """Whether the method is stable on the graph, why, on which graphs it is, and which single change would cure it."""
    return _stability(experiment, experiment.make_graph(), experiment.make_algorithm(name))


def _stability(experiment: Experiment, graph: Graph, method: Algorithm) -> dict[str, Any]:
    kinds = _kinds(experiment)
    try:
        verdict = theory.stability(method, graph, **kinds)
    except InputError as error:  # a method whose modes do not separate
        return {"stable": None, "settles": None, "margin": None, "reason": str(error), "cures": {}}
    cures = {} if verdict.settles else theory.nearest_stable(method, graph, **kinds)
    up_to = theory.stable_up_to(method, communication_period=experiment.communication_period)
    weights = MixingWeights.build(graph, experiment.laplacian, experiment.mixing, method)
    return {
        "stable": verdict.stable,
        "settles": verdict.settles,
        "margin": verdict.margin,
        "reason": verdict.reason,
        "condition": condition(method, up_to, weights, experiment.communication_period),
        "up_to": finite_or_none(up_to),
        "eigenvalue": verdict.eigenvalue,
        "tenfold_iterations": finite_or_none(verdict.tenfold),
        "chatter": verdict.chatter,
        "cures": cures,
        "suggestion": _suggestion(method, graph, kinds, cures),
    }


def _ranges(experiment: Experiment, graph: Graph, method: Algorithm) -> dict[str, list[float | None]]:
    """Between which values each step size may be changed alone; None for no end within a thousandfold."""
    try:
        found = theory.stable_range(method, graph, **_kinds(experiment))
    except InputError:  # said under stability
        return {}
    return {key: [low, finite_or_none(high)] for key, (low, high) in found.items()}


def _kinds(experiment: Experiment) -> dict[str, Any]:
    return {
        "laplacian": experiment.laplacian,
        "mixing": experiment.mixing,
        "communication_period": experiment.communication_period,
    }


def condition(method: Algorithm, up_to: float, weights: MixingWeights, communication_period: int = 1) -> str:
    """On which graphs the method is stable with its values, and where this graph stands."""
    if method.common_start or weights.graph.n == 1:
        return "nobody can disagree"
    if up_to == 0:
        return f"unstable on every connected graph{_dual_too_strong(method)}"
    equation, ends = Equation(method), weights.spectrum
    if up_to == math.inf or (equation.matrix == "I−W" and up_to > 2 - 1e-6):  # I−W has no eigenvalue of 2 or more
        return "stable on every connected graph"
    if equation.matrix == "I−W":
        return f"stable if and only if λmin(W) > {1 - up_to:.4g}; here λmin(W) = {ends.lambda_min:.4g}"
    if isinstance(method, DSGPA) and equation.power_on_direction:
        below = theory.stable_up_to(_changed(method, gamma=1.0), communication_period=communication_period)
        where = f"below {below:.4g}" if below else f"on no connected graph{_dual_too_strong(method)}"
        return f"bounded if and only if ρ(L) < {up_to:.4g}, settles {where}; here ρ(L) = {ends.rho:.4g}"
    return f"stable if and only if ρ(L) < {up_to:.4g}; here ρ(L) = {ends.rho:.4g}"


def _dual_too_strong(method: Algorithm) -> str:
    """The reason in the paper's letters, where it is that of the printed order."""
    h = method.hyperparameters(0)
    if isinstance(method, DSGPA) and method.dual == "jacobi" and h["eta"] * h["beta"] ** 2 >= h["alpha"]:
        return f": ηβ² = {h['eta'] * h['beta'] ** 2:.4g} ≥ α = {h['alpha']:.4g}"
    return ""


def theorem1(method: Algorithm, weights: MixingWeights, iterations: int) -> dict[str, Any]:
    """Whether the conditions of Theorem 1 hold, which do not, and the parameters that it asks for here."""
    n, ends = weights.graph.n, weights.spectrum
    failing = theory.theorem1_failing(method, ends.rho, ends.rho2, n, iterations)
    found: dict[str, Any] = {"holds": not failing, "failing": failing, "parameters": None, "infeasible": None}
    if isinstance(method, DSGPA) and method.power_on == "gradient":
        try:
            found["parameters"] = parameters_for(ends.rho, ends.rho2, n, iterations)
        except InputError as error:
            found["infeasible"] = str(error)
    return found


def sentence(name: str, found: dict[str, Any]) -> str:
    """One line about stability, with a cure if there is one."""
    if found["stable"] is None:
        return f"{name}: {found['reason']}"
    circling = f"entries of βv + g keep circling at about {found['chatter']:.2g}" if found["chatter"] else ""
    if found["settles"]:
        slow = round(found["tenfold_iterations"])
        often = "at once" if slow < 1 else f"in about {slow:,} iteration{'s' * (slow > 1)}"
        return f"{name}: stable; disagreement shrinks tenfold {often}{'; ' * bool(circling)}{circling}"
    hint = f"; {found['suggestion']} would cure it" if found["suggestion"] else ""
    if found["stable"]:
        return f"{name} is bounded but does not settle: {circling or 'with γ = 1 it is unstable'}{hint}"
    if found["up_to"] == 0:
        return f"{name} is {found['condition']}{hint}"
    return f"{name} is unstable on this graph: {found['reason']}{hint}"


def picture(graph: Graph) -> str:
    """The adjacency matrix as dots, agents numbered from 0; empty if there are too many agents.

    >>> from peerdescent.graphs import path
    >>> print(picture(path(3)))
       0 1 2
     0 · ● ·
     1 ● · ●
     2 · ● ·
    """
    if graph.n > PICTURED:
        return ""
    heads = " ".join(str(number % 10) for number in range(graph.n))
    rows = [
        f"{i:2} " + " ".join("●" if j in graph.neighbours(i) else "·" for j in range(graph.n)) for i in range(graph.n)
    ]
    return "\n".join([f"   {heads}", *rows])


def _suggestion(method: Algorithm, graph: Graph, kinds: dict[str, Any], cures: dict[str, float]) -> str:
    """One change that cures, with as few digits as will do."""
    for name, value in cures.items():
        lower = value < schedules.at(getattr(method, name), 0)
        for digits in (2, 4):
            step = 10.0 ** (math.floor(math.log10(value)) + 1 - digits)
            rounded = (math.floor(0.999 * value / step) if lower else math.ceil(1.001 * value / step)) * step
            changed = _changed(method, **{name: float(f"{rounded:.{digits}g}")})
            if theory.stability(changed, graph, **kinds).settles:
                return f"{name} = {rounded:.{digits}g}"
    return ""


def _changed(method: Algorithm, **values: Any) -> Algorithm:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a value that is only tried needs no warning
        return replace(method, **values)


def _graph(graph: Graph, weights: MixingWeights) -> dict[str, Any]:
    ends = weights.spectrum
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
