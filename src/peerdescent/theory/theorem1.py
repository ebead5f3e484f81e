"""Theorem 1 of the paper: its parameters, and whether given ones satisfy its conditions."""

from __future__ import annotations

import math

from peerdescent._util.validation import check_integer, check_number
from peerdescent.algorithms import DSGPA, Algorithm, as_algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import as_graph, as_static, spectrum

SHARE = 0.99
"""The fraction of its bound that κ₂ takes."""


def theorem1_parameters(
    graph: object, iterations: int, laplacian: str = "metropolis", kappa1: float | None = None
) -> dict[str, float]:
    """Parameters that satisfy the conditions of Theorem 1: safe, and slow.

    κ₁ > 1/ρ₂ + 1,  0 < κ₂ < min{((κ₁−1)ρ₂ − 1)/(ρ + (2κ₁²+1)ρ² + 1), 1/5},  β = κ₂√(T/n), α = κ₁β, η = κ₂/β;
    needs T > n³. κ₁ maximises the bound on κ₂ unless given; κ₂ is 99 % of the bound.

    >>> values = theorem1_parameters("ring:3", iterations=1000)
    >>> round(values["eta"], 4), values["kappa1"] > 2
    (0.0548, True)
    """
    network = as_static(as_graph(graph), "Theorem 1")
    ends = spectrum(network.laplacian(laplacian), network.mixing())
    return parameters_for(ends.rho, ends.rho2, network.n, iterations, kappa1)


def parameters_for(rho: float, rho2: float, n: int, iterations: int, kappa1: float | None = None) -> dict[str, float]:
    """Theorem 1's parameters for a Laplacian whose largest and smallest positive eigenvalues are known."""
    check_integer("iterations", iterations, 0)
    if kappa1 is not None:
        check_number("kappa1", kappa1, high=1e100)
    if n < 2:
        raise InputError(f"Theorem 1 needs at least two agents, not {n}.")
    if iterations <= n**3:
        raise InputError(f"Theorem 1 needs more than n³ = {n**3} iterations, not {iterations}.")
    low = 1 / rho2 + 1
    if kappa1 is None:
        # (k₁−low)/(a+bk₁²) is largest at k₁ = low + √(low² + a/b)
        kappa1 = low + math.sqrt(low**2 + (rho + rho**2 + 1) / (2 * rho**2))
    if not kappa1 > low:
        raise InputError(f"kappa1 = {kappa1:g}: Theorem 1 needs more than 1/ρ₂ + 1 = {low:g} on this graph.")
    kappa2 = SHARE * kappa2_bound(kappa1, rho, rho2)
    beta = kappa2 * math.sqrt(iterations / n)
    return {"kappa1": kappa1, "kappa2": kappa2, "alpha": kappa1 * beta, "beta": beta, "eta": kappa2 / beta}


def kappa2_bound(kappa1: float, rho: float, rho2: float) -> float:
    """The bound on κ₂: min{((κ₁−1)ρ₂ − 1)/(ρ + (2κ₁²+1)ρ² + 1), 1/5}."""
    return min(((kappa1 - 1) * rho2 - 1) / (rho + (2 * kappa1**2 + 1) * rho**2 + 1), 0.2)


def theorem1_proof_iterations(kappa1: float, kappa2: float, rho2: float, n: int, smoothness: float = 0.0) -> float:
    """The T from which the proof of Theorem 1 applies, not only its printed conditions.

    The proof takes β "large enough": its matrices M₁ and b₁ need β ≥ 1 + 3L_f²/2 and β ≥ κ₃ = 1/ρ₂ + κ₁ + 1, and
    β = κ₂√(T/n). That M₂ needs β ≥ 2L_f follows.

    Args:
        kappa1: κ₁ = α/β.
        kappa2: κ₂ = ηβ.
        rho2: the smallest positive eigenvalue of L.
        n: the number of agents.
        smoothness: L_f; the result is a lower bound if it is left at 0.

    >>> f"{theorem1_proof_iterations(14.7, 9.92e-5, 0.158, 10):.1e}"
    '4.9e+11'
    """
    for name, value in (("kappa1", kappa1), ("kappa2", kappa2), ("rho2", rho2), ("smoothness", smoothness)):
        check_number(name, value, 0, 1e100)
    if min(kappa2, rho2) == 0:
        raise InputError(f"kappa2 = {kappa2:g} and rho2 = {rho2:g}: expected both to be above 0.")
    beta = max(1 / rho2 + kappa1 + 1, 1 + 1.5 * smoothness**2)
    return check_integer("n", n, 1) * (beta / kappa2) ** 2


def theorem1_failing(algorithm: Algorithm, rho: float, rho2: float, n: int, iterations: int) -> list[str]:
    """The conditions of Theorem 1 that a method does not satisfy, as text; empty if the theorem applies.

    >>> from peerdescent.algorithms import make
    >>> theorem1_failing(make("dsgpa-f-pb"), rho=4.0, rho2=2.0, n=4, iterations=50)[0]
    'T = 50 is not above n³ = 64'
    """
    as_algorithm(algorithm)
    check_number("rho", rho, 0, 1e100)
    check_number("rho2", rho2, 0, 1e100)
    n, iterations = check_integer("n", n, 1), check_integer("iterations", iterations, 0)
    if rho2 == 0 and n > 1:
        raise InputError("rho2 is 0, expected the smallest positive eigenvalue of L.")
    if not isinstance(algorithm, DSGPA) or algorithm.power_on != "gradient":
        return ["Theorem 1 covers only DSGPA-F-PB"]
    h = algorithm.nominal()
    if n < 2 or h["beta"] == 0:
        return ["Theorem 1 needs at least two agents and a positive β"]
    k1, k2, T = h["alpha"] / h["beta"], h["eta"] * h["beta"], max(1, iterations)
    bound, step = kappa2_bound(k1, rho, rho2), math.sqrt(n / T)
    room = f"is not below {bound:.4g}" if bound > 0 else "is too large: with this κ₁ no κ₂ is small enough"
    conditions = {
        f"T = {iterations:,} is not above n³ = {n**3:,}": iterations > n**3,
        f"κ₁ = α/β = {k1:.4g} is not above 1/ρ₂ + 1 = {1 / rho2 + 1:.4g}": k1 > 1 / rho2 + 1,
        f"κ₂ = ηβ = {k2:.4g} {room}": 0 < k2 < bound,
        f"η = {h['eta']:.4g} is not √(n/T) = {step:.4g}": math.isclose(h["eta"], step, rel_tol=0.01),
        f"γ = {algorithm.gamma:g} is not in [1/2, 1]": 0.5 <= algorithm.gamma <= 1,
        f"parameters vary (ε = {algorithm.epsilon:g})": algorithm.epsilon == 0,
        "the dual order is not the printed one (jacobi)": algorithm.dual == "jacobi",
        f"there is momentum (θ = {algorithm.momentum:g})": algorithm.momentum == 1,
    }
    return [failing for failing, holds in conditions.items() if not holds]
