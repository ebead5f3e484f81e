"""Whether a method stays bounded on a graph, from the spectral radius of its recursion in every mode."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from peerdescent._util.validation import check_integer, check_number, described
from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.base import as_algorithm
from peerdescent.errors import InputError
from peerdescent.expressions import Power
from peerdescent.graphs import as_graph
from peerdescent.mixing.periods import OnePeriod, Period, Periods
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.sequence_weights import Weights, make_weights
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.radii import FLAT, ROUNDING, ModeRadii, Modes
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.theory.sequences import judge_rounds
from peerdescent.theory.verdict import Stability, decide

DENSE_UP_TO = 500
"""Agents up to which every eigenvalue is used; beyond, a grid between the extreme ones."""
LARGEST = {"L": 1e6, "I−W": 2.0}
"""The largest eigenvalue considered; I−W has none beyond."""


def stability(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    curvature: float = 0.0,
    communication_period: Period = 1,
    weights: Rounds | None = None,
    delay: int = 0,
) -> Stability:
    """Whether a method stays bounded on a graph, from its recursion in every mode, for f_i = h‖x − c_i‖²/2 with one h.

    Without a power: per eigenvalue λ > 0 the state follows a matrix. The method is stable if all their spectral
    radii are below 1, so that disagreement dies out, and the radius of the mean (λ = 0) is not above 1.

    With a power γ < 1, sign or clip: far from the solution σ is flat, |σ(a)| ≪ |a|, so the rest of the step decides
    boundedness: for a power on the gradient, the recursion with h = 0; for one on the direction of DSGPA,
    |1 − ηαλ|, whatever β and θ are; with h = 0 nothing holds the mean there, and it may drift away (`drifts`), while
    disagreement and βv stay bounded. "Unstable" means unbounded from starting points that are far enough away. Near
    the solution the slope of σ is infinite, so the method does not converge exactly: entries under the power keep
    about the size `chatter` = s^(−1/(1−γ)), where s is the largest slope at which the linear recursion is stable.
    What is said of powers is an argument that simulation supports, not a proof.

    On graphs that change from round to round, and for a method with both L and W, modes do not separate: then the
    recursion of all agents at once decides, see `judge_rounds`, and `chatter` is not known.

    Hyperparameters are the nominal ones: those of iteration 0, or of the end of a warm-up.

    Args:
        algorithm: the method.
        graph: the communication graph or sequence of graphs: a Graph, a networkx graph or a text such as "ring:10".
        laplacian: kind of L, or the matrix.
        mixing: kind of W, or the matrix.
        curvature: h, the same for all agents.
        communication_period: iterations from one exchange to the next, or a schedule, which is judged by its worst
            period: even a short segment that grows can overflow. Random exchanges (random:P) are judged by the growth
            of the mean square, exactly.
        weights: L and W of this graph and method, if they are built already, or those of every round.
        delay: rounds by which messages are late.

    >>> from peerdescent.algorithms import make
    >>> stability(make("dsgpa-f"), "authors10", "unit").stable
    True
    >>> stability(make("dsgpa-t"), "star:10", "unit").reason
    'the largest eigenvalue of L, 10, has spectral radius 2.61674'
    >>> stability(make("d-sgt-1"), "onepeer-exp:8").stable
    True
    """
    as_algorithm(algorithm)
    check_number("curvature", curvature)
    check_integer("delay", delay, 0)
    periods = Periods.parse(communication_period).distinct
    if weights is None:
        weights = _weights(algorithm, graph, laplacian, mixing)
    if not (isinstance(weights, MixingWeights) and Equation(algorithm).separates):
        return _worst({m: judge_rounds(algorithm, weights, curvature, m, delay) for m in periods})[1]
    found = modes(algorithm, graph, laplacian, mixing, weights)
    m, verdict = _worst({m: judge(algorithm, found, curvature, m, delay) for m in periods})
    return replace(verdict, chatter=_chatter(algorithm, found, curvature, m, delay)) if verdict.stable else verdict


def _worst(verdicts: dict[OnePeriod, Stability]) -> tuple[OnePeriod, Stability]:
    """The communication period with the worst verdict, and that verdict."""
    m = max(verdicts, key=lambda m: (not verdicts[m].stable, not verdicts[m].settles, verdicts[m].shrinkage))
    reason = f"{verdicts[m].reason} with communication period {m}" if len(verdicts) > 1 else verdicts[m].reason
    return m, replace(verdicts[m], reason=reason)


def _weights(algorithm: Algorithm, graph: object, laplacian: str, mixing: str) -> Weights:
    return make_weights(as_graph(graph), laplacian, mixing, algorithm)


def modes(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    weights: Weights | None = None,
) -> Modes:
    """The modes of disagreement of a method on a graph; the arguments are those of `stability`."""
    name = Equation(algorithm).matrix
    if weights is None:
        weights = _weights(algorithm, graph, laplacian, mixing)
    if not isinstance(weights, MixingWeights):
        raise InputError(f"weights is {described(weights)}: expected MixingWeights of this graph, or None.")
    if weights.graph.n == 1 or algorithm.common_start:
        return Modes(name, np.zeros(0))
    ends = weights.spectrum
    if weights.graph.n > DENSE_UP_TO:
        low, high = (ends.rho2, ends.rho) if name == "L" else (1 - ends.lambda2, 1 - ends.lambda_min)
        return Modes(name, np.linspace(low, high, 200))
    matrix = weights.laplacian if name == "L" else scipy.sparse.eye_array(weights.graph.n) - weights.mixing
    return Modes(name, np.asarray(np.linalg.eigvalsh(matrix.toarray())[1:], dtype=np.float64))


def judge(
    algorithm: Algorithm, modes: Modes, curvature: float = 0.0, communication_period: OnePeriod = 1, delay: int = 0
) -> Stability:
    """The verdict for given modes, without `chatter`."""
    found = ModeRadii(Equation(algorithm), modes, curvature, communication_period, delay)

    def describe(radii: Numbers) -> tuple[float, float, str]:
        worst = int(np.argmax(radii))
        radius, value = float(radii[worst]), float(modes.values[worst])
        ends = {float(modes.values.max()): "the largest", float(modes.values.min()): "the smallest"}
        place = f"{ends.get(value, 'an inner')} eigenvalue of {modes.matrix}"
        what = "has spectral radius" if isinstance(communication_period, int) else "grows in the mean square by"
        return radius, value, f"{place}, {value:.4g}, {what} {radius:.6g}"

    return decide(found, describe)


def stable_up_to(
    algorithm: Algorithm, curvature: float = 0.0, communication_period: Period = 1, delay: int = 0
) -> float:
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
    check_integer("delay", delay, 0)
    equation = Equation(algorithm)
    return min(_stable_up_to(equation, curvature, m, delay) for m in Periods.parse(communication_period).distinct)


def _stable_up_to(equation: Equation, curvature: float, communication_period: OnePeriod, delay: int) -> float:
    """The same for one period."""

    def radii(values: ArrayLike) -> ModeRadii:
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
        return ModeRadii(equation, Modes(equation.matrix, numbers), curvature, communication_period, delay)

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


def _chatter(
    algorithm: Algorithm, modes: Modes, curvature: float, communication_period: OnePeriod, delay: int
) -> float | None:
    """s^(−1/(1−γ)) with s the largest slope at which the linear recursion is stable; None if no power matters."""
    equation = Equation(algorithm)
    gammas = {node.gamma for node in equation.powers if isinstance(node, Power)}
    matters = curvature > 0 or equation.power_on_direction
    if not (matters and len(gammas) == 1 and all(isinstance(node, Power) for node in equation.powers)):
        return None
    found = ModeRadii(equation, modes, curvature, communication_period, delay)
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
