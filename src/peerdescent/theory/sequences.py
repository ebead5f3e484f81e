"""Stability on graphs that change from round to round: the radius of one period, or the growth over a sample."""

from __future__ import annotations

import numpy as np
from scipy.sparse.linalg import ArpackError, LinearOperator, eigs

from peerdescent._util.validation import check_integer, check_number
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.mixing.periods import OnePeriod, Periods
from peerdescent.mixing.rounds import Rounds
from peerdescent.theory.agents import AgentsStep, as_rounds, disagreement_matrix, exchanges
from peerdescent.theory.growth import ROUNDS, Growth, growth
from peerdescent.theory.radii import Radii, largest
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.theory.verdict import Stability, decide

EXACT_UP_TO = 800
"""Numbers in the disagreement, states × (agents − 1), up to which all eigenvalues are computed."""
LARGEST = 50_000
"""Numbers beyond which nothing is predicted."""
KEPT = 2_000_000
"""Rounds × agents of a sample; large networks have a smaller one, of at least 100 rounds."""
PERIODS = 200
"""Periods over which growth is measured where Arnoldi's method does not converge."""


def judge_rounds(
    algorithm: Algorithm,
    weights: Rounds,
    curvature: float = 0.0,
    communication_period: OnePeriod = 1,
    delay: int = 0,
    sample: int = ROUNDS,
) -> Stability:
    """Whether a method stays bounded when every round has its own L and W, for f_i = h‖x‖²/2.

    Modes do not separate, so that the recursion is that of all agents at once. If the rounds repeat, the spectral
    radius of one period decides, on the disagreement of those states that ever leave zero: exactly for up to
    `EXACT_UP_TO` numbers, beyond by Arnoldi's method, in which the product is never formed. If they do not repeat,
    the factor by which disagreement grows is estimated from the first `sample` rounds. On directed graphs the push-sum
    weights are those that they settle at; with flat costs they change nothing else.

    Args:
        algorithm: the method.
        weights: L and W of every round.
        curvature: h, the same for all agents.
        communication_period: iterations from one round to the next.
        delay: rounds by which messages are late.
        sample: the rounds that an estimate uses.
    """
    check_number("curvature", curvature)
    if isinstance(communication_period, Periods):
        raise InputError("no prediction: theory knows random exchanges only on one graph, whose messages all arrive.")
    check_integer("communication_period", communication_period, 1)
    check_integer("delay", delay, 0)
    check_integer("sample", sample, 100)
    equation, rounds = Equation(algorithm), as_rounds(weights)
    if curvature and rounds.n > 1 and rounds.at(0).push_sum is not None:
        raise InputError(
            "no prediction: where agents have different push-sum weights, curvature couples their mean with their "
            "disagreement."
        )
    if equation.arrays(delay) * rounds.n > LARGEST:
        raise InputError(
            f"no prediction: {rounds.n:,} agents with {equation.arrays(delay)} arrays each are more than "
            f"{LARGEST:,} numbers."
        )
    arguments = equation, rounds, curvature, communication_period, delay
    if rounds.period is None:
        sampled = SampledRadii(*arguments, max(100, min(sample, KEPT // rounds.n)))
        return decide(sampled, sampled.describe, sampled.growth)
    repeating = PeriodRadii(*arguments)
    return decide(repeating, repeating.describe)


class _RoundsRadii(Radii):
    """The radii of the recursion of all agents at once."""

    def __init__(
        self, equation: Equation, rounds: Rounds, curvature: float, communication_period: int, delay: int, count: int
    ) -> None:
        super().__init__(equation, curvature, communication_period, delay)
        self.every = communication_period
        """Iterations of a round."""
        self.n = 1 if equation.algorithm.common_start else rounds.n
        """The number of agents that can disagree."""
        self.exchanges = exchanges(rounds, count) if self.n > 1 else []

    def step(self, slope: float) -> AgentsStep:
        """The step of all agents."""
        return AgentsStep(self.equation, self.curvature, self.delay, slope)


class PeriodRadii(_RoundsRadii):
    """The radii of one period."""

    def __init__(
        self, equation: Equation, rounds: Rounds, curvature: float, communication_period: int, delay: int = 0
    ) -> None:
        super().__init__(equation, rounds, curvature, communication_period, delay, rounds.period or 1)
        self.iterations = max(1, len(self.exchanges)) * communication_period
        """Iterations of one period."""

    def over(self, slopes: Numbers, neutral: bool = False) -> Numbers:
        """The radii of disagreement, slopes × 1; `neutral` leaves out eigenvalues 1, which a power decides."""
        if self.n == 1:
            return np.zeros((len(slopes), 0))
        with np.errstate(over="ignore", invalid="ignore"):
            radii = [[self._radius(float(slope), neutral)] for slope in slopes]
        return np.array(radii) ** (1 / self.iterations)

    def _radius(self, slope: float, neutral: bool) -> float:
        step = self.step(slope)
        if len(self.equation.deciding(self.delay)) * (self.n - 1) > EXACT_UP_TO:
            return self._iterated(step, neutral)
        matrix = disagreement_matrix(step, self.exchanges, self.n, self.every)
        if not np.isfinite(matrix).all():
            return np.inf
        return float(largest(np.linalg.eigvals(matrix), neutral))

    def _iterated(self, step: AgentsStep, neutral: bool) -> float:
        """The radius without forming the product; eigenvalues 1 of a memory would hide the others of x."""
        moving, size = self.equation.deciding(self.delay), self.equation.arrays(self.delay)
        shape = (len(moving), self.n, 1)

        def one_period(vector: Numbers) -> Numbers:
            state = np.zeros((size, self.n, 1))
            state[moving] = vector.reshape(shape)
            after = step.run(state - state.mean(axis=1, keepdims=True), self.exchanges, self.every)
            return np.asarray((after - after.mean(axis=1, keepdims=True))[moving].ravel(), dtype=np.float64)

        total = len(moving) * self.n
        operator = LinearOperator((total, total), matvec=one_period, dtype=np.dtype(np.float64))
        start = np.random.default_rng(0).standard_normal(total)
        if not neutral and np.linalg.norm(one_period(one_period(start))) > 1e-12 * np.linalg.norm(start):
            try:
                found = eigs(
                    operator, 2, which="LM", v0=start, ncv=30, maxiter=100, tol=1e-6, return_eigenvectors=False
                )
                return float(np.abs(found).max())
            except ArpackError:  # clustered or defective eigenvalues
                pass
        many = self.exchanges * PERIODS
        factor = growth(step, many, self.n, self.every, only_x=neutral).factor
        return float(factor**self.iterations)

    def describe(self, radii: Numbers) -> tuple[float, float, str]:
        """The radius, no eigenvalue, and the reason."""
        radius = float(radii[0])
        rounds = len(self.exchanges)
        whole = f"one period of {rounds} round{'s' * (rounds > 1)} has spectral radius {radius**self.iterations:.6g}"
        each = f", {radius:.6g} per iteration" if self.iterations > 1 else ""
        return radius, 0.0, whole + each


class SampledRadii(_RoundsRadii):
    """The growth of disagreement over a sample of rounds."""

    def __init__(
        self, equation: Equation, rounds: Rounds, curvature: float, communication_period: int, delay: int, sample: int
    ) -> None:
        super().__init__(equation, rounds, curvature, communication_period, delay, sample)
        self.growth: list[Growth] = []
        """The estimate that decides, once it is known."""
        self._known: dict[tuple[float, bool], Growth] = {}

    def over(self, slopes: Numbers, neutral: bool = False) -> Numbers:
        """The growth factors of disagreement, slopes × 1; `neutral` leaves out the memory, which a power decides."""
        if self.n == 1:
            return np.zeros((len(slopes), 0))
        return np.array([[self._measured(float(slope), neutral).factor] for slope in slopes])

    def deciding(self) -> Numbers:
        """The factor that decides whether everything stays bounded."""
        radii = self.over(np.array([self.far]), neutral=self.equation.power_on_direction).ravel()
        if len(radii):
            self.growth[:] = [self._measured(self.far, self.equation.power_on_direction)]
        return radii

    def _measured(self, slope: float, neutral: bool) -> Growth:
        key = (slope, neutral)
        if key not in self._known:
            with np.errstate(over="ignore", invalid="ignore"):
                step, period = self.step(slope), self.every
                self._known[key] = growth(step, self.exchanges, self.n, period, only_x=neutral)
        return self._known[key]

    def describe(self, radii: Numbers) -> tuple[float, float, str]:
        """The factor, no eigenvalue, and the reason."""
        return float(radii[0]), 0.0, f"disagreement is multiplied by {self.growth[0]}"
