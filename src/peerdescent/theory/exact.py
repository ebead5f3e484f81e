"""The exact variant, DSGPA with the power on the direction: when it converges, and how close to the optimum.

docs/convergence.md proves what is computed here, in the same letters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from peerdescent._util.validation import check_integer, check_number, described
from peerdescent.algorithms import DSGPA, Algorithm, as_algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import as_graph, as_static, spectrum
from peerdescent.transforms import Transform

Dual = Literal["jacobi", "gauss-seidel"]
ROUNDING = 1e-12
"""Conditions that hold with equality, as the recommended parameters do, may miss it by this much."""


@dataclass(frozen=True)
class ExactBound:
    """What Theorem A guarantees of every iterate from some iteration on, for costs with μI ⪯ ∇²f_i ⪯ ℓI."""

    K: float
    """‖w⁺ − w‖² ≤ η²KE."""
    F: float
    """U⁺ ≤ U − (η/2)E + ηF; 0 for γ = 1."""
    potential: float
    """The level below which the potential U stays."""
    residual: float
    """The bound on ‖w‖, w = βv + g(x) with g the stacked gradients."""
    disagreement: float
    """The bound on ‖x − 1x̄‖."""
    distance: float
    """The bound on the root mean square over the agents of ‖x_i − x*‖."""


def exact_bound(
    algorithm: DSGPA, mu: float, ell: float, rho: float, rho2: float, agents: int, dimension: int = 1
) -> ExactBound:
    """The floor that Theorem A guarantees for a method that satisfies its conditions (see `exact_failing`).

    F = 2N((1−γ)/(1+γ))·K·(Kη)^(2γ/(1−γ)), with N = np and K = 4(β²/α + b²/μ), b = ℓ + ηβ²ρ (dual first) or ℓ. In the
    end U ≤ Ū + ηF, where Ū = max{(2/(1+γ))(16F/μ)^((1+γ)/(2γ)), 16F/(αρ₂)}.

    Args:
        algorithm: the method, with constant hyperparameters.
        mu: the smallest curvature of any agent's costs.
        ell: the largest curvature of any agent's costs.
        rho: the largest eigenvalue of L.
        rho2: the smallest positive eigenvalue of L.
        agents: n.
        dimension: p.

    >>> from peerdescent.algorithms import make
    >>> method = make("dsgpa-f-pb-exact", gamma=0.5, eta=1e-3, alpha=100.0, beta=10.0)
    >>> bound = exact_bound(method, mu=1.0, ell=1.0, rho=2.0, rho2=1.0, agents=4)
    >>> bound.K, f"{bound.distance:.1e}"
    (9.76, '4.6e-02')
    """
    failing = exact_failing(algorithm, mu, ell, rho)
    if failing:
        raise InputError(f"Theorem A does not apply: {failing[0]}.")
    check_number("rho2", rho2, 0, rho)
    n, p = check_integer("agents", agents, 2), check_integer("dimension", dimension, 1)
    h, gamma = algorithm.nominal(), algorithm.gamma
    eta, alpha, beta = h["eta"], h["alpha"], h["beta"]
    K = _k(eta, alpha, beta, mu, ell, rho, algorithm.dual)
    if gamma == 1:
        return ExactBound(K, 0.0, 0.0, 0.0, 0.0, 0.0)
    with np.errstate(over="ignore"):  # for γ near 1 and a long step nothing is guaranteed: infinity
        F = 2 * n * p * (1 - gamma) / (1 + gamma) * K * np.float64(K * eta) ** (2 * gamma / (1 - gamma))
        steep = 2 / (1 + gamma) * (16 * F / mu) ** ((1 + gamma) / (2 * gamma))
        level = max(steep, 16 * F / (alpha * rho2)) + eta * F
    residual = ((1 + gamma) * level) ** (1 / (1 + gamma))
    apart = math.sqrt(2 * level / rho2) / beta
    distance = (residual / mu + (ell / mu + 1) * apart) / math.sqrt(n)
    return ExactBound(*(float(each) for each in (K, F, level, residual, apart, distance)))


def _k(eta: float, alpha: float, beta: float, mu: float, ell: float, rho: float, dual: str) -> float:
    b = ell + eta * beta**2 * rho if dual == "gauss-seidel" else ell
    return 4 * (beta**2 / alpha + b**2 / mu)


def exact_failing(algorithm: Algorithm, mu: float, ell: float, rho: float) -> list[str]:
    """The conditions of Theorem A that a method does not satisfy, as text; empty if it applies.

    αℓ ≤ β²; dual first: ηαρ ≤ 1/2; jacobi: ηαρ ≤ 1/4 and ηβ²ρ ≤ μ/4; γ = 1 also needs ηK ≤ 1.

    >>> from peerdescent.algorithms import make
    >>> exact_failing(make("dsgpa-f-pb-exact"), mu=0.1, ell=1.0, rho=5.0)
    ['ηαρ = 0.75 is above 1/2']
    """
    _check_curvatures(mu, ell)
    check_number("rho", rho, 0, 1e100)
    failing = exact_form_failing(algorithm)
    if failing or not isinstance(algorithm, DSGPA):
        return failing
    h = algorithm.nominal()
    eta, alpha, beta = h["eta"], h["alpha"], h["beta"]
    first = algorithm.dual == "gauss-seidel"
    pull, limit = eta * alpha * rho, "1/2" if first else "1/4"
    turn, K = eta * beta**2 * rho, _k(eta, alpha, beta, mu, ell, rho, algorithm.dual)
    conditions = {
        f"αℓ = {alpha * ell:.4g} is above β² = {beta**2:.4g}": _at_most(alpha * ell, beta**2),
        f"ηαρ = {pull:.4g} is above {limit}": _at_most(pull, 0.5 if first else 0.25),
        f"ηβ²ρ = {turn:.4g} is above μ/4 = {mu / 4:.4g}": first or _at_most(turn, mu / 4),
        f"γ = 1 and ηK = {eta * K:.4g} is above 1": algorithm.gamma < 1 or _at_most(eta * K, 1.0),
    }
    return [text for text, holds in conditions.items() if not holds]


def exact_form_failing(algorithm: Algorithm) -> list[str]:
    """The conditions of Theorem A on the method alone, whatever the costs and the graph are."""
    as_algorithm(algorithm)
    if not isinstance(algorithm, DSGPA) or algorithm.power_on != "direction":
        return ["Theorem A covers only DSGPA with the power on the direction"]
    conditions = {
        "η, α and β are not constant": _constant(algorithm),
        f"γ = {algorithm.gamma:g} is not above 0": algorithm.gamma > 0,
        "the gradient is transformed before the power": type(algorithm.transform) is Transform,
        f"there is momentum (θ = {algorithm.momentum:g})": algorithm.momentum == 1,
    }
    failing = [text for text, holds in conditions.items() if not holds]
    h = algorithm.nominal()
    if not failing and min(h["eta"], h["alpha"], h["beta"]) <= 0:
        failing.append("η, α and β are not all positive")
    return failing


def _constant(algorithm: DSGPA) -> bool:
    rates = (getattr(algorithm, name) for name in algorithm.rates)
    return algorithm.epsilon == 0 and all(isinstance(rate, int | float) for rate in rates)


def _at_most(value: float, bound: float) -> bool:
    return value <= bound * (1 + ROUNDING)


def _check_curvatures(mu: float, ell: float) -> None:
    check_number("mu", mu, 0, 1e100)
    check_number("ell", ell, 0, 1e100)
    if not 0 < mu <= ell:
        raise InputError(f"mu = {mu:g} and ell = {ell:g}: expected 0 < mu ≤ ell, bounds on the curvature of all costs.")


def exact_parameters(
    graph: object,
    mu: float,
    ell: float,
    floor: float,
    gamma: float = 0.7,
    dimension: int = 1,
    laplacian: str = "metropolis",
    dual: Dual = "gauss-seidel",
    guaranteed: bool = True,
) -> dict[str, float]:
    """η, α and β of the exact variant for a wanted distance from the optimum.

    α = 1/(2ηρ) and β² = αℓ with the dual first (jacobi: α = μ/(4ηρℓ)) satisfy Theorem A for every η > 0, and the bound
    on the distance is then a constant times η^(1/(1−γ)), which gives η. The bound is pessimistic, by a factor of a
    thousand and more; with `guaranteed=False` η comes from the size at which the method oscillates by the slope
    heuristic, A√p/μ with A = (ηℓ·5/6)^(1/(1−γ)) (jacobi: (ηℓ/2)^(1/(1−γ))). γ = 1 has no floor and gets η = 1/K, the
    largest step of the theorem.

    Args:
        graph: the communication graph: a Graph, a networkx graph or a text such as "ring:10".
        mu: the smallest curvature of any agent's costs, above 0.
        ell: the largest curvature of any agent's costs.
        floor: the root mean square over the agents of ‖x_i − x*‖ that is allowed in the end.
        gamma: the power.
        dimension: p, the length of x.
        laplacian: kind of L.
        dual: "gauss-seidel" (the dual first) or "jacobi".
        guaranteed: by the theorem; otherwise by the heuristic, with a far larger step.

    >>> values = exact_parameters("ring:5", mu=0.5, ell=1.0, floor=1e-3)
    >>> {name: float(f"{value:.3g}") for name, value in values.items()}
    {'eta': 0.00104, 'alpha': 399.0, 'beta': 20.0}
    >>> from peerdescent.algorithms import make
    >>> exact_failing(make("dsgpa-f-pb-exact", gamma=0.7, **values), 0.5, 1.0, rho=1.206)
    []
    """
    _check_curvatures(mu, ell)
    floor, gamma = check_number("floor", floor, 0, 1e100), check_number("gamma", gamma, 0, 1)
    p = check_integer("dimension", dimension, 1)
    if floor == 0 or gamma == 0:
        raise InputError(f"floor = {floor:g} and gamma = {gamma:g}: expected both to be above 0.")
    if dual not in ("jacobi", "gauss-seidel"):
        raise InputError(f'dual = {described(dual)}: expected "jacobi" or "gauss-seidel".')
    network = as_static(as_graph(graph), "Theorem A")
    if network.n < 2:
        raise InputError(f"Theorem A needs at least two agents, not {network.n}.")
    ends = spectrum(network.laplacian(laplacian), network.mixing())

    def method(eta: float) -> DSGPA:
        values: dict[str, Any] = exact_matched(eta, mu, ell, ends.rho, dual)
        return DSGPA(**values, gamma=gamma, power_on="direction", dual=dual)

    longest = _longest(mu, ell, ends.rho, dual)
    if gamma == 1:
        eta = longest
    elif guaranteed:
        there = exact_bound(method(longest), mu, ell, ends.rho, ends.rho2, network.n, p).distance
        eta = longest * (floor / there) ** (1 - gamma)
    else:
        steepest = 1.2 if dual == "gauss-seidel" else 2.0
        eta = steepest / ell * (floor * mu / math.sqrt(p)) ** (1 - gamma)
    return exact_matched(eta, mu, ell, ends.rho, dual)


def exact_step(
    mu: float, ell: float, rho: float, gamma: float, size: float, iterations: int, dual: str = "gauss-seidel"
) -> float:
    """A step η for a run of so many iterations, with the α and β of `exact_parameters`.

    Where the agents agree, an entry of w follows w′ = −hσ(w) and is zero after the time |w|^(1−γ)/(h(1−γ)). η makes
    this half of the run for the smallest curvature: a larger step raises the floor, a smaller one ends on the way. It
    is at most 1/ℓ, so that the floor is below 1; γ = 1 gets η = 1/K.

    Args:
        mu: the smallest curvature of any agent's costs, above 0.
        ell: the largest curvature of any agent's costs.
        rho: the largest eigenvalue of L.
        gamma: the power.
        size: the largest entry of the agents' gradients at the start.
        iterations: the length of the run.
        dual: "gauss-seidel" or "jacobi".

    >>> exact_step(0.5, 1.0, 1.2, gamma=0.5, size=1.0, iterations=1000)
    0.008
    """
    if gamma == 1:
        return _longest(mu, ell, rho, dual)
    wanted = 2 * size ** (1 - gamma) / (mu * (1 - gamma) * iterations)
    return min(wanted, 1 / ell) if wanted > 0 else 1 / ell


def _longest(mu: float, ell: float, rho: float, dual: str) -> float:
    """1/K, which is the same for every η with the α and β that belong to it."""
    own = exact_matched(1.0, mu, ell, rho, dual)
    return 1 / _k(1.0, own["alpha"], own["beta"], mu, ell, rho, dual)


def exact_matched(eta: float, mu: float, ell: float, rho: float, dual: str) -> dict[str, float]:
    """η and the α and β that satisfy the conditions of Theorem A with equality."""
    alpha = 1 / (2 * eta * rho) if dual == "gauss-seidel" else mu / (4 * eta * rho * ell)
    return {"eta": eta, "alpha": alpha, "beta": math.sqrt(alpha * ell)}
