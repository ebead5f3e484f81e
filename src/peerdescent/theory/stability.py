"""Whether a method stays bounded on a graph, from the spectral radius of its recursion in every mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike, NDArray

from peerdescent._util.validation import check_number, described
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.expressions import Power
from peerdescent.graphs import as_graph, as_static
from peerdescent.graphs.own_weights import as_kind
from peerdescent.mixing.periods import Period, Periods
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.recursion import Equation, Numbers

DENSE_UP_TO = 500
"""Agents up to which every eigenvalue is used; beyond, a grid between the extreme ones."""
ROUNDING = 1e-9
"""How far from 1 the eigenvalue of a conserved quantity may be."""
FLAT = 1e-6
"""A slope at which a power is practically flat but still decides whether a neutral mode grows or shrinks."""
LARGEST = {"L": 1e6, "I−W": 2.0}
"""The largest eigenvalue considered; I−W has none beyond."""


@dataclass(frozen=True)
class Stability:
    """Whether a method stays bounded, which mode decides, how fast disagreement dies out, how finely it settles."""

    stable: bool
    """From every starting point everything stays bounded; without a power, disagreement also dies out."""
    radius: float
    """The largest spectral radius over all modes of disagreement, or the mean's if that is above 1."""
    eigenvalue: float
    """The eigenvalue of L (or of I−W) whose mode has that radius; 0 for the mean."""
    reason: str
    mean: float = 1.0
    """The spectral radius of the agents' mean; 1 for a mean that does not move by itself."""
    shrinkage: float = 0.0
    """The spectral radius with γ = 1: equal to `radius` unless a power matters."""
    chatter: float | None = None
    """The approximate size at which entries under a power keep oscillating; None without a power."""

    @property
    def margin(self) -> float:
        """1 − radius; negative if unstable."""
        return 1 - self.radius

    @property
    def settles(self) -> bool:
        """Stable, and not merely oscillating where the method with γ = 1 would be unstable."""
        return self.stable and self.shrinkage < 1

    @property
    def tenfold(self) -> float:
        """Iterations until disagreement has shrunk tenfold; infinite if it does not."""
        if not self.settles:
            return math.inf
        return math.log(10) / -math.log(self.shrinkage) if self.shrinkage > 0 else 0.0


@dataclass(frozen=True)
class Modes:
    """The eigenvalues, of L or of I−W, of a method's modes."""

    matrix: str
    values: Numbers

    def pairs(self) -> tuple[Numbers, Numbers]:
        """Each mode's eigenvalues of L and of I−W; the matrix that the method does not use has zeros."""
        nothing = np.zeros_like(self.values)
        return (self.values, nothing) if self.matrix == "L" else (nothing, self.values)


def stability(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    curvature: float = 0.0,
    communication_period: Period = 1,
    weights: MixingWeights | None = None,
) -> Stability:
    """Whether a method stays bounded on a graph, from its recursion in every mode, for f_i = h‖x‖²/2.

    Without a power: per eigenvalue λ > 0 the state follows a matrix. The method is stable if all their spectral
    radii are below 1, so that disagreement dies out, and the radius of the mean (λ = 0) is not above 1.

    With a power γ < 1, sign or clip: far from the solution σ is flat, |σ(a)| ≪ |a|, so the rest of the step decides
    boundedness: for a power on the gradient, the recursion with h = 0; for one on the direction of DSGPA,
    |1 − ηαλ|, whatever β is. "Unstable" means unbounded from starting points that are far enough away. Near the
    solution the slope of σ is infinite, so the method does not converge exactly: entries under the power keep about
    the size `chatter` = s^(−1/(1−γ)), where s is the largest slope at which the linear recursion is stable.

    Hyperparameters are the nominal ones: those of iteration 0, or of the end of a warm-up.

    Args:
        algorithm: the method.
        graph: the communication graph: a Graph, a networkx graph or a text such as "ring:10".
        laplacian: kind of L, or the matrix.
        mixing: kind of W, or the matrix.
        curvature: h, the same for all agents.
        communication_period: iterations from one exchange to the next, or a schedule, which is judged by its worst
            period: even a short segment that grows can overflow.
        weights: L and W of this graph and method, if they are built already.

    >>> from peerdescent.algorithms import make
    >>> stability(make("dsgpa-f"), "authors10", "unit").stable
    True
    >>> stability(make("dsgpa-t"), "star:10", "unit").reason
    'the largest eigenvalue of L, 10, has spectral radius 2.61674'
    """
    check_number("curvature", curvature)
    periods = Periods.parse(communication_period).distinct
    found = modes(algorithm, graph, laplacian, mixing, weights)
    verdicts = {m: judge(algorithm, found, curvature, m) for m in periods}
    m = max(periods, key=lambda m: (not verdicts[m].stable, not verdicts[m].settles, verdicts[m].shrinkage))
    verdict = verdicts[m]
    if len(periods) > 1:
        verdict = replace(verdict, reason=f"{verdict.reason} with communication period {m}")
    return replace(verdict, chatter=_chatter(algorithm, found, curvature, m)) if verdict.stable else verdict


def modes(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    weights: MixingWeights | None = None,
) -> Modes:
    """The modes of disagreement of a method on a graph; the arguments are those of `stability`."""
    name = Equation(algorithm).matrix
    laplacian, mixing = as_kind("laplacian", laplacian), as_kind("mixing", mixing)
    if weights is None:
        weights = MixingWeights.build(as_static(as_graph(graph), "stability"), laplacian, mixing, algorithm)
    elif not isinstance(weights, MixingWeights):
        raise InputError(f"weights is {described(weights)}: expected MixingWeights of this graph, or None.")
    if weights.graph.n == 1 or algorithm.common_start:
        return Modes(name, np.zeros(0))
    ends = weights.spectrum
    if weights.graph.n > DENSE_UP_TO:
        low, high = (ends.rho2, ends.rho) if name == "L" else (1 - ends.lambda2, 1 - ends.lambda_min)
        return Modes(name, np.linspace(low, high, 200))
    matrix = weights.laplacian if name == "L" else scipy.sparse.eye_array(weights.graph.n) - weights.mixing
    return Modes(name, np.asarray(np.linalg.eigvalsh(matrix.toarray())[1:], dtype=np.float64))


def judge(algorithm: Algorithm, modes: Modes, curvature: float = 0.0, communication_period: int = 1) -> Stability:
    """The verdict for given modes, without `chatter`."""
    found = _Radii(Equation(algorithm), modes, curvature, communication_period)
    mean, linear_mean = found.means(np.array([found.far, 1.0])).tolist()
    radii = found.deciding()
    linear = float((found.over(np.ones(1)) if found.equation.powers else radii).max(initial=0.0))
    shrinkage = max(linear, linear_mean) if linear_mean > 1 + ROUNDING else linear
    if mean > 1 + ROUNDING:
        return Stability(False, mean, 0.0, f"the agents' mean itself has spectral radius {mean:.6g}", mean, shrinkage)
    if not len(radii):
        reason = "all agents hold the same x" if algorithm.common_start else "one agent cannot disagree"
        return Stability(True, 0.0, 0.0, reason, mean, shrinkage)
    worst = int(np.argmax(radii))
    radius, value = float(radii[worst]), float(modes.values[worst])
    ends = {float(modes.values.max()): "the largest", float(modes.values.min()): "the smallest"}
    reason = (
        f"{ends.get(value, 'an inner')} eigenvalue of {modes.matrix}, {value:.4g}, has spectral radius {radius:.6g}"
    )
    if found.equation.power_on_direction:
        reason += " far from the solution, where the power makes its direction small"
    return Stability(radius < 1, radius, value, reason, mean, shrinkage)


def stable_up_to(algorithm: Algorithm, curvature: float = 0.0, communication_period: Period = 1) -> float:
    """The eigenvalue of L (of I−W for methods that mix by W) up to which a method is stable, whatever the graph.

    0 if it is unstable on every connected graph with this curvature, infinity if it is stable on all. I−W has no
    eigenvalue beyond 2; the smallest eigenvalue of W is 1 minus the largest of I−W.

    >>> from peerdescent.algorithms import make
    >>> round(stable_up_to(make("dsgpa-f")), 2), round(stable_up_to(make("dsgpa-t", dual="jacobi")), 2)
    (6.06, 6.87)
    >>> round(stable_up_to(make("d2")), 4)
    1.3333
    """
    check_number("curvature", curvature)
    equation = Equation(algorithm)
    return min(_stable_up_to(equation, curvature, m) for m in Periods.parse(communication_period).distinct)


def _stable_up_to(equation: Equation, curvature: float, communication_period: int) -> float:
    """The same for one period."""

    def radii(values: ArrayLike) -> _Radii:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
        return _Radii(equation, Modes(equation.matrix, numbers), curvature, communication_period)

    grid = np.geomspace(1e-6, LARGEST[equation.matrix], 401)
    found = radii(grid)
    if found.means(np.array([found.far]))[0] > 1 + ROUNDING:
        return 0.0
    unstable = np.flatnonzero(found.deciding() >= 1)
    if equation.algorithm.common_start or not len(unstable):
        return math.inf
    first = int(unstable[0])
    inside, outside = float(grid[first - 1]), float(grid[first])
    return bisect(lambda value: bool(radii(value).deciding()[0] < 1), inside, outside) if first else 0.0


class _Radii:
    """The spectral radii of a method's recursion, per iteration, with powers replaced by a slope."""

    def __init__(self, equation: Equation, modes: Modes, curvature: float, communication_period: int) -> None:
        self.equation, self.modes, self.curvature = equation, modes, curvature
        self.communication_period = communication_period
        self.far = 0.0 if equation.powers else 1.0
        """The slope of the powers, if there are any, far from the solution."""

    def deciding(self) -> Numbers:
        """In each mode the radius that decides whether it stays bounded."""
        if not self.equation.powers:
            return self.over(np.ones(1)).ravel()
        far = self.over(np.zeros(1), neutral=self.equation.power_on_direction).ravel()
        creeping = self.over(np.array([FLAT])).ravel()
        return np.where((far < 1) & (creeping >= 1), creeping, far)

    def over(self, slopes: Numbers, neutral: bool = False) -> Numbers:
        """The radii of disagreement, slopes × modes; `neutral` leaves out eigenvalues 1, which a power decides."""
        shape = (len(slopes), len(self.modes.values))
        if not shape[1]:
            return np.zeros(shape)
        lam, mu = (np.tile(values, len(slopes)) for values in self.modes.pairs())
        periods = self._period(lam, mu, np.repeat(slopes, shape[1]))
        moving = self.equation.moving
        eigenvalues = _eigvals(periods[:, moving][:, :, moving])
        sizes = np.abs(eigenvalues)
        sizes = np.where(np.abs(eigenvalues - 1) < ROUNDING, 0.0, sizes) if neutral else sizes
        return np.asarray(sizes.max(axis=1).reshape(shape) ** (1 / self.communication_period), dtype=np.float64)

    def means(self, slopes: Numbers) -> Numbers:
        """The radii of the agents' mean on the states that it can reach; conserved quantities stay zero there."""
        basis = self._reachable()
        periods = basis.T @ self._period(np.zeros_like(slopes), np.zeros_like(slopes), slopes) @ basis
        return np.asarray(np.abs(_eigvals(periods)).max(axis=1) ** (1 / self.communication_period), dtype=np.float64)

    def _period(self, laplacian: Numbers, disagreement: Numbers, slopes: Numbers) -> Numbers:
        return self.equation.period(laplacian, disagreement, self.curvature, slopes, self.communication_period)

    def _reachable(self) -> Numbers:
        """A basis of the states that the mean can reach from its initial state, by steps and by gradients."""
        memory = self.equation.algorithm.memory().values()
        start = np.array([1.0, *(0.0 if kind == "zero" else 1.0 for kind in memory)])
        steps = [self.equation.step(0.0, 0.0, local=local) for local in {False, self.communication_period > 1}]
        moves = [step.closed(self.curvature)[0] for step in steps]
        basis = _span(np.stack([start, *(step.gradient[0] for step in steps)], axis=1))
        while (wider := _span(np.hstack([basis, *(move @ basis for move in moves)]))).shape[1] > basis.shape[1]:
            basis = wider
        return basis


def _eigvals(matrices: Numbers) -> NDArray[np.complex128]:
    """The eigenvalues of each matrix; infinite for a matrix that has overflowed."""
    finite = np.isfinite(matrices).all(axis=(1, 2))
    values = np.full(matrices.shape[:2], np.inf, dtype=np.complex128)
    values[finite] = np.linalg.eigvals(matrices[finite])
    return values


def _span(columns: Numbers) -> Numbers:
    """An orthonormal basis of the span of the columns, whatever their lengths."""
    columns = columns[:, np.isfinite(columns).all(axis=0)]
    lengths = np.linalg.norm(columns, axis=0)
    directions, sizes, _ = np.linalg.svd(columns[:, lengths > 0] / lengths[lengths > 0], full_matrices=False)
    return np.asarray(directions[:, sizes > 1e-10 * sizes[0]], dtype=np.float64)


def _chatter(algorithm: Algorithm, modes: Modes, curvature: float, communication_period: int) -> float | None:
    """s^(−1/(1−γ)) with s the largest slope at which the linear recursion is stable; None if no power matters."""
    equation = Equation(algorithm)
    gammas = {node.gamma for node in equation.powers if isinstance(node, Power)}
    matters = curvature > 0 or equation.power_on_direction
    if not (matters and len(gammas) == 1 and all(isinstance(node, Power) for node in equation.powers)):
        return None
    found = _Radii(equation, modes, curvature, communication_period)
    slopes = np.geomspace(FLAT, 1 / FLAT, 49)
    for _ in range(3):  # each grid is 48 times finer than the previous one
        calm = (found.over(slopes) < 1).all(axis=1) & (found.means(slopes) <= 1 + ROUNDING)
        if calm.all():
            return 0.0
        first = max(1, int(np.argmin(calm)))
        slopes = np.geomspace(slopes[first - 1], slopes[first], 49)
    return float(slopes[0] ** (-1 / (1 - gammas.pop())))


def bisect(good: Callable[[float], bool], inside: float, outside: float, digits: float = 1e-10) -> float:
    """The last good value between a good and a bad one, both positive."""
    while abs(outside / inside - 1) > digits:
        middle = math.sqrt(inside * outside)
        inside, outside = (middle, outside) if good(middle) else (inside, middle)
    return float(inside)
