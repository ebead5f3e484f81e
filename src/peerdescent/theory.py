"""What can be known before a run: stability of the linear part, Theorem 1's parameters, bounds on the powerball.

Pure functions of spectra and numbers; nothing here runs a problem.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from peerdescent import schedules
from peerdescent.algorithms import Algorithm
from peerdescent.engine.network import Wiring
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, spectrum
from peerdescent.transforms import Transform

Numbers = NDArray[np.float64]
DENSE_UP_TO = 500
"""Agents up to which every eigenvalue is looked at; beyond, a grid between the extreme ones."""


@dataclass(frozen=True)
class Stability:
    """Whether disagreement dies out, and how fast."""

    stable: bool
    radius: float
    """The largest spectral radius over all modes of disagreement; below 1 is stable."""
    eigenvalue: float
    """The eigenvalue of L (or of I−W) whose mode has that radius."""
    reason: str

    @property
    def margin(self) -> float:
        """1 − radius; negative if unstable."""
        return 1 - self.radius

    @property
    def tenfold(self) -> float:
        """Iterations until disagreement has shrunk tenfold; infinite if it does not."""
        return math.log(10) / -math.log(self.radius) if 0 < self.radius < 1 else (0.0 if self.stable else math.inf)


class _Mode:
    """The network as one mode of disagreement sees it: L and I−W are numbers, and the mean is zero."""

    def __init__(self, laplacian: float, disagreement: float) -> None:
        self._laplacian, self._disagreement = laplacian, disagreement

    def laplacian(self, a: Numbers) -> Numbers:
        return self._laplacian * a

    def disagreement(self, a: Numbers) -> Numbers:
        return self._disagreement * a

    def mix(self, a: Numbers) -> Numbers:
        return a - self.disagreement(a)

    def mean(self, a: Numbers) -> Numbers:
        return 0 * a


def recursion(
    algorithm: Algorithm, laplacian: float, disagreement: float, curvature: float = 0.0, k: int = 0
) -> Numbers:
    """The matrix that takes one mode's state (x and the memory, in this order) to the next, for f_i = h‖x‖²/2.

    Args:
        algorithm: a method whose step is linear; powers are taken as γ = 1.
        laplacian: the mode's eigenvalue of L.
        disagreement: the mode's eigenvalue of I−W.
        curvature: h.
        k: the iteration whose hyperparameters are used.

    >>> from peerdescent.algorithms import DSGD1
    >>> recursion(DSGD1(eta=0.1), 0.0, 0.25, curvature=1.0)
    array([[0.65]])
    """
    method = _linear(algorithm)
    names = ("x", *method.memory())
    state = SimpleNamespace(**dict(zip(names, np.eye(len(names)), strict=True)))
    network = _Mode(laplacian, disagreement)
    step = method.step(state, network, SimpleNamespace(**method.hyperparameters(k)))
    point = next(step)
    try:
        step.send(method.seen(curvature * point, network))
    except StopIteration as end:
        return np.stack([end.value[name] for name in names])
    raise TypeError("a step yields exactly once")


def stability(
    algorithm: Algorithm,
    graph: Graph,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    curvature: float = 0.0,
) -> Stability:
    """Whether a method brings the agents of a graph together, from its recursion on every mode of disagreement.

    Per eigenvalue λ > 0 the state follows a matrix; the method is stable if all their spectral radii are below 1,
    and the mean (λ = 0) does not run away.
    Where the power acts on the gradient it does not enter (h = 0); where it acts on the direction, the verdict is
    that of its linear limit γ = 1.

    >>> from peerdescent import graphs
    >>> from peerdescent.algorithms import make
    >>> stability(make("dsgpa-f"), graphs.parse("authors10"), "unit").stable
    True
    >>> stability(make("dsgpa-f", dual="jacobi"), graphs.parse("authors10"), "unit").stable
    False
    """
    wiring = Wiring.build(graph, laplacian, mixing, algorithm)
    if graph.n == 1:
        return Stability(True, 0.0, 0.0, "one agent cannot disagree")
    if algorithm.common_start:
        return Stability(True, 0.0, 0.0, "all agents hold the same x")
    eye = scipy.sparse.eye_array(graph.n)
    by_laplacian = _uses(algorithm, "laplacian")
    if by_laplacian and _uses(algorithm, "disagreement"):
        raise InputError(f"{type(algorithm).__name__} uses both L and W: its modes do not separate.")
    name = "L" if by_laplacian else "I−W"
    matrix = wiring.laplacian if by_laplacian else scipy.sparse.csr_array(eye - wiring.mixing)
    values = _eigenvalues(matrix)
    shares = (1.0, 0.0) if by_laplacian else (0.0, 1.0)
    radii = [_radius(recursion(algorithm, shares[0] * value, shares[1] * value, curvature)) for value in values]
    mean = _radius(recursion(algorithm, 0.0, 0.0, curvature))
    if mean > 1 + 1e-9:  # 1 itself is the mean that stays where it is, and quantities that are conserved
        return Stability(False, mean, 0.0, f"the agents' mean itself has spectral radius {mean:.6g}")
    worst = int(np.argmax(radii))
    radius, value = radii[worst], float(values[worst])
    side = "the largest" if value == max(values) else "the smallest" if value == min(values) else "an inner"
    reason = f"{side} eigenvalue of {name}, {value:.4g}, has spectral radius {radius:.6g}"
    return Stability(radius < 1, radius, value, reason)


def nearest_stable(
    algorithm: Algorithm, graph: Graph, laplacian: str = "metropolis", mixing: str = "metropolis"
) -> dict[str, float]:
    """For each step size of an unstable method the value nearest to its own that alone would make it stable.

    Sought by factors within a thousandfold either way, to three digits; a step size that cannot do it is left out.

    >>> from peerdescent import graphs
    >>> from peerdescent.algorithms import make
    >>> cures = nearest_stable(make("dsgpa-f"), graphs.parse("star:10"), "unit")
    >>> round(cures["eta"], 4), round(cures["alpha"], 2)
    (0.0215, 0.67)
    """

    def stable(name: str, factor: float) -> bool:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            values: dict[str, Any] = {name: factor * schedules.at(getattr(algorithm, name), 0)}
            changed = replace(algorithm, **values)
            return stability(changed, graph, laplacian, mixing).stable

    cures = {}
    for name in algorithm.rates:
        own = schedules.at(getattr(algorithm, name), 0)
        factors = [f for f in (_boundary(partial(stable, name), up) for up in (True, False)) if f is not None]
        if own > 0 and factors:
            cures[name] = own * min(factors, key=lambda factor: abs(math.log(factor)))
    return cures


def _boundary(stable: Callable[[float], bool], up: bool) -> float | None:
    """The factor nearest to 1, above or below it, at which the method becomes stable."""
    steps = np.geomspace(1, 1000 if up else 1e-3, 61)
    first = next((i for i, factor in enumerate(steps) if stable(float(factor))), None)
    if first is None:
        return None
    bad, good = float(steps[max(0, first - 1)]), float(steps[first])
    while abs(good / bad - 1) > 1e-4:
        middle = math.sqrt(bad * good)
        bad, good = (bad, middle) if stable(middle) else (middle, good)
    return good


def theorem1_parameters(
    graph: Graph, iterations: int, laplacian: str = "metropolis", kappa1: float | None = None
) -> dict[str, float]:
    """Parameters that satisfy the conditions of Theorem 1: safe, and slow.

    κ₁ > 1/ρ₂ + 1,  0 < κ₂ < min{((κ₁−1)ρ₂ − 1)/(ρ + (2κ₁²+1)ρ² + 1), 1/5},  β = κ₂√(T/n), α = κ₁β, η = κ₂/β;
    needs T > n³. κ₁ maximises the bound on κ₂ unless given; κ₂ is 99 % of the bound.

    >>> from peerdescent import graphs
    >>> values = theorem1_parameters(graphs.parse("ring:3"), iterations=1000)
    >>> round(values["eta"], 4), values["kappa1"] > 2
    (0.0548, True)
    """
    n = graph.n
    if n < 2:
        raise InputError("Theorem 1 speaks of at least two agents.")
    if iterations <= n**3:
        raise InputError(f"Theorem 1 needs more than n³ = {n**3} iterations, not {iterations}.")
    ends = spectrum(graph.laplacian(laplacian), graph.mixing())
    rho, rho2 = ends.rho, ends.rho2
    low = 1 / rho2 + 1

    def bound(k1: float) -> float:
        return ((k1 - 1) * rho2 - 1) / (rho + (2 * k1**2 + 1) * rho**2 + 1)

    if kappa1 is None:
        # (k₁−low)/(a+bk₁²) is largest at k₁ = low + √(low² + a/b)
        kappa1 = low + math.sqrt(low**2 + (rho + rho**2 + 1) / (2 * rho**2))
    if not kappa1 > low:
        raise InputError(f"kappa1 = {kappa1:g}: Theorem 1 needs more than 1/ρ₂ + 1 = {low:g} on this graph.")
    kappa2 = 0.99 * min(bound(kappa1), 0.2)
    beta = kappa2 * math.sqrt(iterations / n)
    return {"kappa1": kappa1, "kappa2": kappa2, "alpha": kappa1 * beta, "beta": beta, "eta": kappa2 / beta}


def corrected_lemma1_bound(g: ArrayLike, gamma: float) -> float:
    """The bound that Lemma 1 should state: ‖σ(g,γ)‖² ≤ p^((1−γ)/(1+γ)) ‖g‖_{1+γ}^{2γ}.

    As printed, ‖g‖²_{1+γ}, it fails already for p = 1, g = 0.1, γ = 0.7.

    >>> round(corrected_lemma1_bound([0.1], 0.7), 4), 0.1**2
    (0.0398, 0.010000000000000002)
    """
    entries = np.abs(np.asarray(g, dtype=np.float64)).ravel()
    norm = float(np.sum(entries ** (1 + gamma)) ** (1 / (1 + gamma)))
    return float(entries.size ** ((1 - gamma) / (1 + gamma)) * norm ** (2 * gamma))


def _linear(algorithm: Algorithm) -> Algorithm:
    """The method with γ = 1 and no transform."""
    powered = {"gamma": 1.0} if any(f.name == "gamma" for f in fields(algorithm)) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what construction warns of was said when the user constructed it
        return replace(algorithm, transform=Transform(), **powered)


def _radius(matrix: Any) -> float:
    """The largest modulus of an eigenvalue."""
    return float(np.abs(np.linalg.eigvals(matrix)).max())


def _uses(algorithm: Algorithm, kind: str) -> bool:
    """Whether the recursion depends on L, or on I−W."""
    one, two = ((1.0, 0.0), (2.0, 0.0)) if kind == "laplacian" else ((0.0, 0.25), (0.0, 0.5))
    return not np.array_equal(recursion(algorithm, *one), recursion(algorithm, *two))


def _eigenvalues(matrix: scipy.sparse.csr_array) -> Numbers:
    """The positive eigenvalues; for large graphs a grid between the extreme ones."""
    n = matrix.shape[0]
    if n <= DENSE_UP_TO:
        return np.asarray(np.linalg.eigvalsh(matrix.toarray())[1:], dtype=np.float64)
    ends = spectrum(matrix, scipy.sparse.csr_array(scipy.sparse.eye_array(n) - matrix))
    return np.linspace(ends.rho2, ends.rho, 200)
