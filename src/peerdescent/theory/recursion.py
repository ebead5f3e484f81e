"""A method's step in one mode of the network: a small matrix for each eigenvalue.

The eigenvectors of L (or of W) split a step on n agents into independent modes. In one mode L is a number λ,
I−W a number μ, and the step a matrix, derived from the same recorded equation that the kernels compile.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerdescent._util.validation import check_integer, check_number
from peerdescent.algorithms import KGT, Algorithm, as_algorithm
from peerdescent.algorithms.state import memory_of
from peerdescent.errors import InputError
from peerdescent.expressions import Clamp, Expression, Mixed, Power, walk
from peerdescent.mixing.periods import OnePeriod, Periods
from peerdescent.theory.evaluation import evaluate
from peerdescent.tracing.recording import RecordingError, record

Numbers = NDArray[np.float64]


def recursion(
    algorithm: Algorithm,
    laplacian: float,
    disagreement: float,
    curvature: float = 0.0,
    k: int | None = None,
    slope: float = 1.0,
) -> Numbers:
    """The matrix that maps one mode's state (x and the memory, in this order) to the next, for f_i = h‖x‖²/2.

    Args:
        algorithm: a method whose step is linear except for powers and clips.
        laplacian: the mode's eigenvalue of L.
        disagreement: the mode's eigenvalue of I−W.
        curvature: h.
        k: the iteration whose hyperparameters are used; by default the nominal ones.
        slope: the factor that replaces a power; 1 is γ = 1.

    >>> from peerdescent.algorithms import DSGD1
    >>> recursion(DSGD1(eta=0.1), 0.0, 0.25, curvature=1.0)
    array([[0.65]])
    """
    for name, value in (("laplacian", laplacian), ("disagreement", disagreement), ("slope", slope)):
        check_number(name, value)
    check_number("curvature", curvature)
    if k is not None:
        check_integer("k", k, 0)
    one: Numbers = Equation(algorithm).step(laplacian, disagreement, slope, k).closed(curvature)[0]
    return one


@dataclass(frozen=True)
class LinearStep:
    """s⁺ = Ms + Bg in each of several modes; s is x and the memory, and g has one or more gradients.

    The first gradient is at the point c₀·s, the next at c₁·s + d₁·g, and so on: C has the rows c, D the rows d.
    """

    matrix: Numbers
    """M, modes × states × states."""
    gradient: Numbers
    """B, modes × states × gradients."""
    point: Numbers
    """C, modes × gradients × states."""
    between: Numbers
    """D, modes × gradients × gradients, how each point depends on the gradients before it."""

    def closed(self, curvature: float) -> Numbers:
        """M + hB(I − hD)⁻¹C, the step for gradients that are h times their points."""
        if self.gradient.shape[2] == 1:
            return self.matrix + curvature * self.gradient * self.point
        after = np.linalg.solve(np.eye(self.between.shape[1]) - curvature * self.between, self.point)
        return np.asarray(self.matrix + curvature * self.gradient @ after, dtype=np.float64)


class Equation:
    """A method's step, recorded once and evaluated in many modes.

    Args:
        algorithm: a method whose step is linear except for powers and clips.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = as_algorithm(algorithm)
        self.names = ("x", *memory_of(algorithm))
        self.exchanging = self._record(local=False)
        nodes = list(walk(*self.exchanging[0], *self.exchanging[1].values()))
        self.powers = [node for node in nodes if isinstance(node, (Power, Clamp))]
        mixed = [node for node in nodes if isinstance(node, Mixed) and node.kind != "mean"]
        self.messages = list({id(node.source): node.source for node in mixed}.values())
        """The arrays that are sent to neighbours, each once."""
        self.kinds = {node.kind for node in mixed}
        """The matrices that the step uses."""

    def for_period(self, period: OnePeriod) -> Equation:
        """The equation of the method as it runs with this communication period."""
        known = self.algorithm.with_periods(Periods.parse(period))
        if known is self.algorithm:
            return self
        if isinstance(known, KGT) and not isinstance(period, int):
            raise InputError("theory knows K-GT with fixed periods only: its step depends on the length of each round.")
        other = copy.copy(self)  # the same records, with other numbers
        other.algorithm = known
        return other

    @cached_property
    def separates(self) -> bool:
        """Whether one symmetric matrix's eigenvectors split the step into modes."""
        return not {"laplacian", "disagreement"} <= self.kinds

    @cached_property
    def matrix(self) -> str:
        """The matrix whose eigenvectors split the step into modes."""
        if not self.separates:
            raise InputError(f"{type(self.algorithm).__name__} uses both L and W: its modes do not separate.")
        return "L" if "laplacian" in self.kinds else "I−W"

    def arrays(self, delay: int = 0) -> int:
        """How many arrays decide the next iteration: the states, and messages on their way for `delay` rounds."""
        return len(self.names) + delay * len(self.messages)

    def lag(self, message: Expression, delay: int) -> int:
        """Where the latest value of a message is, followed by the older ones up to those of `delay` rounds ago."""
        number = next(i for i, source in enumerate(self.messages) if source is message)
        return len(self.names) + delay * number

    def _record(self, local: bool) -> tuple[tuple[Expression, ...], dict[str, Expression]]:
        try:
            return record(self.algorithm, self.names, local)
        except RecordingError as error:
            raise InputError(f"theory cannot analyse {type(self.algorithm).__name__}: {error}.") from error

    @cached_property
    def local(self) -> tuple[tuple[Expression, ...], dict[str, Expression]]:
        return self._record(local=True)

    @cached_property
    def power_on_direction(self) -> bool:
        """Whether a power acts on more than the gradient, so that it matters even where the gradient is zero."""
        if not self.powers:
            return False
        flat, steep = self.step([1.0, 1.0], [0.5, 0.5], slope=[0.0, 1.0]).matrix
        return not np.array_equal(flat, steep)

    @cached_property
    def moving(self) -> list[int]:
        """The states that ever leave zero: the dual of DSGPA with β = 0, for example, does not."""
        step, starts = self.step(1.0, 0.5), ["x", *self.algorithm.memory().values()]
        stays = (step.matrix[0] == np.eye(len(starts))).all(axis=1) & (step.gradient[0] == 0).all(axis=1)
        return [i for i, start in enumerate(starts) if start == "x" or not stays[i]]

    def deciding(self, delay: int = 0) -> list[int]:
        """The arrays that ever leave zero, with the messages on their way."""
        return [*self.moving, *range(len(self.names), self.arrays(delay))]

    def step(
        self,
        laplacian: ArrayLike,
        disagreement: ArrayLike,
        slope: ArrayLike = 1.0,
        k: int | None = None,
        local: bool = False,
        delay: int = 0,
    ) -> LinearStep:
        """The step in modes with these eigenvalues of L and of I−W; both zero is the agents' mean.

        Args:
            laplacian: the modes' eigenvalues of L.
            disagreement: the modes' eigenvalues of I−W, as many.
            slope: the factor that replaces a power or a clip: σ(a) becomes slope·a, one for all modes or one for each.
                1 is γ = 1; 0 is a power with γ < 1 far from the solution, where |σ(a)| is small against |a|.
            k: the iteration whose hyperparameters are used; by default the nominal ones.
            local: the step without messages, between exchanges.
            delay: L and I−W act on the messages of so many rounds ago, which then belong to the state.
        """
        given = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (laplacian, disagreement, slope))
        lam, mu, slopes = (a[:, None] for a in np.broadcast_arrays(*given))
        factors = {"laplacian": lam, "disagreement": mu, "mean": ((lam == 0) & (mu == 0)).astype(np.float64)}
        size = self.arrays(delay)
        recorded = self.local if local else self.exchanging
        units = np.eye(size + len(recorded[0]))
        rows, gradients = list(units[:size]), iter(units[size:])
        for message in self.messages if delay and not local else ():
            first = self.lag(message, delay)
            rows[first + 1 : first + delay] = rows[first : first + delay - 1]

        def mix(node: Mixed, value: Any) -> Any:
            if delay and node.kind != "mean":
                first = self.lag(node.source, delay)
                rows[first], value = value, units[first + delay - 1]
            return factors[node.kind] * value

        points, new = evaluate(
            recorded,
            {**dict(zip(self.names, units, strict=False)), **self.numbers(k)},
            gradient=lambda _: next(gradients),
            mix=mix,
            powered=lambda _, value: slopes * value,
        )
        shape = (len(lam), len(units))
        rows[: len(self.names)] = (new[name] for name in self.names)
        full, at = (np.stack([np.broadcast_to(row, shape) for row in each], axis=1) for each in (rows, points))
        return LinearStep(full[:, :, :size], full[:, :, size:], at[:, :, :size], at[:, :, size:])

    def numbers(self, k: int | None = None) -> dict[str, float]:
        """The hyperparameters of iteration k, or the nominal ones."""
        return self.algorithm.nominal() if k is None else self.algorithm.hyperparameters(k)

    def period(
        self,
        laplacian: ArrayLike,
        disagreement: ArrayLike,
        curvature: float,
        slope: ArrayLike,
        communication_period: int,
        delay: int = 0,
    ) -> Numbers:
        """The matrices of one communication period, whose last iteration exchanges messages, for f_i = h‖x‖²/2."""
        exchanging = self.step(laplacian, disagreement, slope, delay=delay).closed(curvature)
        if communication_period == 1:
            return exchanging
        local = self.step(laplacian, disagreement, slope, local=True, delay=delay).closed(curvature)
        return np.asarray(exchanging @ np.linalg.matrix_power(local, communication_period - 1), dtype=np.float64)
