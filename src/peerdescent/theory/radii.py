"""The spectral radii of a method's recursion, in each mode and for the mean, with powers replaced by a slope."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent.mixing.periods import OnePeriod, Periods
from peerdescent.mixing.random_periods import RandomPeriods
from peerdescent.theory.random_periods import second_moment
from peerdescent.theory.recursion import Equation, Numbers

ROUNDING = 1e-9
"""How far from 1 the eigenvalue of a conserved quantity may be."""
FLAT = 1e-6
"""A slope at which a power is practically flat but still decides whether a neutral mode grows or shrinks."""


@dataclass(frozen=True)
class Modes:
    """The eigenvalues, of L or of I−W, of a method's modes."""

    matrix: str
    values: Numbers

    def pairs(self) -> tuple[Numbers, Numbers]:
        """Each mode's eigenvalues of L and of I−W; the matrix that the method does not use has zeros."""
        nothing = np.zeros_like(self.values)
        return (self.values, nothing) if self.matrix == "L" else (nothing, self.values)


class Radii(ABC):
    """The spectral radii of a method's recursion, per iteration, with powers replaced by a slope.

    Args:
        equation: the method's recorded step.
        curvature: h.
        communication_period: iterations from one exchange to the next; growth is in the mean square if it is random.
        delay: rounds by which messages are late.
    """

    def __init__(self, equation: Equation, curvature: float, communication_period: OnePeriod, delay: int = 0) -> None:
        self.equation, self.curvature = equation.for_period(communication_period), curvature
        self.communication_period, self.delay = communication_period, delay
        self._root = _root(communication_period)
        """The power of the growth per iteration that the matrices of a round have."""
        self.far = 0.0 if equation.powers else 1.0
        """The slope of the powers, if there are any, far from the solution."""

    @abstractmethod
    def over(self, slopes: Numbers, neutral: bool = False) -> Numbers:
        """The radii of disagreement, slopes × modes; `neutral` leaves out eigenvalues 1, which a power decides."""

    def deciding(self) -> Numbers:
        """In each mode the radius that decides whether it stays bounded."""
        if not self.equation.powers:
            return self.over(np.ones(1)).ravel()
        far = self.over(np.zeros(1), neutral=self.equation.power_on_direction).ravel()
        creeping = self.over(np.array([FLAT])).ravel()
        return np.where((far < 1) & (creeping >= 1), creeping, far)

    def means(self, slopes: Numbers) -> Numbers:
        """The radii of the agents' mean on the states that it can reach; conserved quantities stay zero there."""
        basis, nothing = self._reachable(), np.zeros_like(slopes)
        rounds = self._round(nothing, nothing, slopes, lambda matrices: basis.T @ matrices @ basis)
        return np.asarray(np.abs(_eigvals(rounds)).max(axis=1) ** (1 / self._root), dtype=np.float64)

    def _round(
        self, laplacian: Numbers, disagreement: Numbers, slopes: Numbers, reduce: Callable[[Numbers], Numbers]
    ) -> Numbers:
        """The matrices from one exchange to the next, on the states that `reduce` leaves; of squares if random."""
        period, delay, curvature = self.communication_period, self.delay, self.curvature
        if isinstance(period, RandomPeriods):
            both = (self.equation.step(laplacian, disagreement, slopes, None, local, delay) for local in (False, True))
            exchanging, local = (reduce(step.closed(curvature)) for step in both)
            return second_moment(exchanging, local, period.probability)
        assert isinstance(period, int)
        return reduce(self.equation.period(laplacian, disagreement, curvature, slopes, period, delay))

    def _reachable(self) -> Numbers:
        """A basis of the states that the mean can reach from its initial state, by steps and by gradients."""
        memory = self.equation.algorithm.memory().values()
        start = np.zeros(self.equation.arrays(self.delay))
        start[: len(self.equation.names)] = [1.0, *(0.0 if kind == "zero" else 1.0 for kind in memory)]
        kinds = {False, self.communication_period != 1}
        steps = [self.equation.step(0.0, 0.0, local=local, delay=self.delay) for local in kinds]
        moves = [step.closed(self.curvature)[0] for step in steps]
        basis = _span(np.hstack([start[:, None], *(step.gradient[0] for step in steps)]))
        while (wider := _span(np.hstack([basis, *(move @ basis for move in moves)]))).shape[1] > basis.shape[1]:
            basis = wider
        return basis


class ModeRadii(Radii):
    """The radii in the modes of one symmetric matrix, which do not affect each other."""

    def __init__(
        self, equation: Equation, modes: Modes, curvature: float, communication_period: OnePeriod, delay: int = 0
    ) -> None:
        super().__init__(equation, curvature, communication_period, delay)
        self.modes = modes

    def over(self, slopes: Numbers, neutral: bool = False) -> Numbers:
        """The radii of disagreement, slopes × modes; `neutral` leaves out eigenvalues 1, which a power decides."""
        shape = (len(slopes), len(self.modes.values))
        if not shape[1]:
            return np.zeros(shape)
        lam, mu = (np.tile(values, len(slopes)) for values in self.modes.pairs())
        moving = self.equation.deciding(self.delay)
        rounds = self._round(lam, mu, np.repeat(slopes, shape[1]), lambda matrices: matrices[:, moving][:, :, moving])
        return np.asarray(largest(_eigvals(rounds), neutral).reshape(shape) ** (1 / self._root), dtype=np.float64)


def _root(period: OnePeriod) -> float:
    """The iterations of a round; twice its mean ones if it is random, where matrices are those of squares."""
    steps = Periods.parse(period).expected_steps(0)
    return 2 * steps if isinstance(period, RandomPeriods) else steps


def largest(eigenvalues: NDArray[Any], neutral: bool) -> Numbers:
    """The largest absolute value in each row; `neutral` leaves out eigenvalues 1."""
    sizes = np.abs(eigenvalues)
    sizes = np.where(np.abs(eigenvalues - 1) < ROUNDING, 0.0, sizes) if neutral else sizes
    return np.asarray(sizes.max(axis=-1), dtype=np.float64)


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
