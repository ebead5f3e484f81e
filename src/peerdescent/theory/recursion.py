"""A method's step in one mode of the network: a small matrix for each eigenvalue.

The eigenvectors of L (or of W) split a step on n agents into independent modes. In one mode L is a number λ,
I−W a number μ, and the step a matrix, derived from the same recorded equation that the kernels compile.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerdescent._util.validation import check_integer, check_number
from peerdescent.algorithms import Algorithm, as_algorithm
from peerdescent.algorithms.state import memory_of
from peerdescent.errors import InputError
from peerdescent.expressions import Array, Binary, Clamp, Constant, Expression, Mixed, Power, Scalar, walk
from peerdescent.tracing.recording import GRADIENT, RecordingError, record

Numbers = NDArray[np.float64]
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


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
    """s⁺ = Ms + b·g, with g evaluated at the point c·s, in each of several modes; s is x and the memory."""

    matrix: Numbers
    """M, modes × states × states."""
    gradient: Numbers
    """b, modes × states."""
    point: Numbers
    """c, modes × states."""

    def closed(self, curvature: float) -> Numbers:
        """M + h·b cᵀ, the step for g = h times the point."""
        return self.matrix + curvature * self.gradient[:, :, None] * self.point[:, None, :]


class Equation:
    """A method's step, recorded once and evaluated in many modes.

    Args:
        algorithm: a method whose step is linear except for powers and clips.
    """

    def __init__(self, algorithm: Algorithm) -> None:
        self.algorithm = as_algorithm(algorithm)
        self.names = ("x", *memory_of(algorithm))
        self._exchanging = self._record(local=False)
        nodes = list(walk(self._exchanging[0], *self._exchanging[1].values()))
        self.powers = [node for node in nodes if isinstance(node, (Power, Clamp))]
        used = {node.kind for node in nodes if isinstance(node, Mixed)}
        if {"laplacian", "disagreement"} <= used:
            raise InputError(f"{type(algorithm).__name__} uses both L and W: its modes do not separate.")
        self.matrix = "L" if "laplacian" in used else "I−W"
        """The matrix whose eigenvectors split the step into modes."""

    def _record(self, local: bool) -> tuple[Expression, dict[str, Expression]]:
        try:
            return record(self.algorithm, self.names, local)
        except RecordingError as error:
            raise InputError(f"theory cannot analyse {type(self.algorithm).__name__}: {error}.") from error

    @cached_property
    def _local(self) -> tuple[Expression, dict[str, Expression]]:
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
        stays = (step.matrix[0] == np.eye(len(starts))).all(axis=1) & (step.gradient[0] == 0)
        return [i for i, start in enumerate(starts) if start == "x" or not stays[i]]

    def step(
        self,
        laplacian: ArrayLike,
        disagreement: ArrayLike,
        slope: ArrayLike = 1.0,
        k: int | None = None,
        local: bool = False,
    ) -> LinearStep:
        """The step in modes with these eigenvalues of L and of I−W; both zero is the agents' mean.

        Args:
            laplacian: the modes' eigenvalues of L.
            disagreement: the modes' eigenvalues of I−W, as many.
            slope: the factor that replaces a power or a clip: σ(a) becomes slope·a, one for all modes or one for each.
                1 is γ = 1; 0 is a power with γ < 1 far from the solution, where |σ(a)| is small against |a|.
            k: the iteration whose hyperparameters are used; by default the nominal ones.
            local: the step without messages, between exchanges.
        """
        point, outputs = self._local if local else self._exchanging
        given = (np.atleast_1d(np.asarray(a, dtype=np.float64)) for a in (laplacian, disagreement, slope))
        lam, mu, slopes = (a[:, None] for a in np.broadcast_arrays(*given))
        factors = {"laplacian": lam, "disagreement": mu, "mean": ((lam == 0) & (mu == 0)).astype(np.float64)}
        arrays = dict(zip((*self.names, GRADIENT), np.eye(len(self.names) + 1), strict=True))
        leaves = {**arrays, **(self.algorithm.nominal() if k is None else self.algorithm.hyperparameters(k))}
        known: dict[int, Any] = {}
        for node in walk(point, *outputs.values()):
            known[id(node)] = _value(node, known, leaves, factors, slopes)
        shape = (len(lam), len(self.names) + 1)
        rows = np.stack([np.broadcast_to(known[id(outputs[name])], shape) for name in self.names], axis=1)
        return LinearStep(rows[:, :, :-1], rows[:, :, -1], np.broadcast_to(known[id(point)], shape)[:, :-1])

    def period(
        self,
        laplacian: ArrayLike,
        disagreement: ArrayLike,
        curvature: float,
        slope: ArrayLike,
        communication_period: int,
    ) -> Numbers:
        """The matrices of one communication period, whose last iteration exchanges messages, for f_i = h‖x‖²/2."""
        exchanging = self.step(laplacian, disagreement, slope).closed(curvature)
        if communication_period == 1:
            return exchanging
        local = self.step(laplacian, disagreement, slope, local=True).closed(curvature)
        return np.asarray(exchanging @ np.linalg.matrix_power(local, communication_period - 1), dtype=np.float64)


def _value(
    node: Expression, known: dict[int, Any], leaves: dict[str, Any], factors: dict[str, Numbers], slope: Numbers
) -> Any:
    """The value of a number; for an array its coefficients on the states and the gradient."""
    match node:
        case Array(name) | Scalar(name):
            return leaves[name]
        case Constant(value):
            return value
        case Power(base) | Clamp(base):
            return slope * known[id(base)]
        case Mixed(kind, source, _):
            return factors[kind] * known[id(source)]
        case Binary(sign, left, right):
            a, b = known[id(left)], known[id(right)]
            if not _linear(sign, left.scalar, right.scalar, a, b):
                text = str(node).replace(GRADIENT, "g")
                raise InputError(f"no prediction: the step is not linear, it computes {text}.")
            return OPERATORS[sign](a, b)
    raise TypeError(f"unknown node {node}")


def _linear(sign: str, left: bool, right: bool, a: Any, b: Any) -> bool:
    """Whether an operation keeps things linear, given which sides are numbers."""
    if sign == "*":
        return left or right
    if sign == "/":
        return right
    return left == right or (a if left else b) == 0  # a number added to an array is an affine step, unless it is 0
