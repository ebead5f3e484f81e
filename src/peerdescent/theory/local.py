"""What kind of fixed point it is: the only one or not, attracting or not."""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from peerdescent.algorithms import Algorithm, GTNSGDm
from peerdescent.algorithms.state import initial_state
from peerdescent.errors import InputError
from peerdescent.expressions import Mixed
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.balance import derivatives, infinitely_steep
from peerdescent.theory.evaluation import evaluate
from peerdescent.theory.fixed_points import FixedPointProblem, without_transforms
from peerdescent.theory.recursion import Equation, Numbers

if TYPE_CHECKING:
    from peerdescent.problems import Quadratic

LARGEST = 1000
"""Numbers in the state, states × agents × p, up to which the Jacobian is formed."""


@dataclass(frozen=True)
class FixedPoint:
    """A fixed point and what is known of it."""

    x: Numbers
    """The agents' points, n×p."""
    unique: bool
    """Whether it is proved to be the only one; False means that there may be others."""
    radius: float
    """The spectral radius of the step's derivative there, on the states that the method can reach."""

    @property
    def attracting(self) -> bool:
        """Whether nearby states converge to it; a radius of 1 is not decided and counts as no."""
        return self.radius < 1


def inspect_fixed_point(
    algorithm: Algorithm, problem: Quadratic, graph: object, laplacian: str = "metropolis", mixing: str = "metropolis"
) -> FixedPoint:
    """The fixed point of `fixed_point`, whether it is proved to be the only one, and whether it attracts.

    The derivative of a power at a gradient g is γ|g|^(γ−1): where an agent's gradient is small, the method is as
    unstable as with that much curvature, and where it vanishes, the radius is infinite. A power on the direction is
    zero at its fixed point: its radius is infinite for every γ < 1, and the method oscillates around the point. The
    arguments are those of `fixed_point`.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.problems import Quadratic
    >>> costs = Quadratic(A=[[1.0]] * 3, c=[[-1.0], [0.0005], [1.0]])
    >>> found = inspect_fixed_point(make("dsgpa-f-pb", gamma=0.5), costs, "complete:3", "unit:0.3333333333")
    >>> found.unique, found.attracting
    (True, False)
    """
    asked = FixedPointProblem.of(algorithm, problem, graph, laplacian, mixing)
    x = asked.solve()
    return FixedPoint(x, asked.unique, _radius(algorithm, asked, x, laplacian, mixing))


def _radius(algorithm: Algorithm, asked: FixedPointProblem, x: Numbers, laplacian: str, mixing: str) -> float:
    if isinstance(algorithm, GTNSGDm):
        return math.inf  # it normalizes a tracker that is zero
    equation, graph = Equation(without_transforms(algorithm)), asked.graph
    n, p = asked.c.shape
    moving = equation.moving
    size = len(equation.names) * n * p
    if size > LARGEST:
        raise InputError(f"the derivative of a step with {size:,} numbers is not formed: at most {LARGEST:,}.")
    gradients = np.einsum("npq,nq->np", asked.A, x - asked.c)
    of_zero = algorithm.transform.before if algorithm.common_start else algorithm.transform.after
    if infinitely_steep(asked.transform, gradients) or infinitely_steep(of_zero, np.zeros((n, p))):
        return math.inf
    if equation.power_on_direction:
        return math.inf  # the power of zero has an infinite slope
    slopes = derivatives(asked.transform, gradients)
    jacobian = _jacobian(equation, MixingWeights.build(graph, laplacian, mixing, algorithm), asked.A, slopes)
    kept = [state * n * p + entry for state in moving for entry in range(n * p)]
    jacobian = jacobian[np.ix_(kept, kept)]
    if algorithm.common_start:
        together = np.kron(np.eye(len(moving)), np.kron(np.ones((n, 1)) / math.sqrt(n), np.eye(p)))
        jacobian = together.T @ jacobian @ together
    values = np.linalg.eigvals(jacobian)
    order = np.argsort(np.abs(values - 1))
    return float(np.abs(values[order[p * _conserved(algorithm, moving) :]]).max(initial=0.0))


def _conserved(algorithm: Algorithm, moving: list[int]) -> int:
    """How many sums over the agents the method conserves; each has an eigenvalue 1 that no trajectory feels."""
    if algorithm.common_start or len(moving) == 1:
        return 0  # agents that cannot disagree, or a memory that stays zero
    state = initial_state(algorithm, torch.zeros(2, 1))
    return len(algorithm.invariants(SimpleNamespace(**state)))


def _jacobian(equation: Equation, weights: MixingWeights, A: Numbers, slopes: Numbers) -> Numbers:
    """The derivative of the step, with σ' = `slopes`, n×p×p, in front of each agent's gradient."""
    n, p, _ = slopes.shape
    curvatures = slopes @ A
    names = equation.names
    size = len(names) * n * p
    units = np.eye(size).reshape(len(names), n, p, size)
    matrices = {"laplacian": weights.laplacian.toarray(), "disagreement": np.eye(n) - weights.mixing.toarray()}

    def mix(node: Mixed, value: Any) -> Any:
        if node.kind == "mean":
            return np.broadcast_to(value.mean(axis=0), value.shape)
        return np.einsum("ij,jpk->ipk", matrices[node.kind], value)

    _, new = evaluate(
        equation.exchanging,
        {**dict(zip(names, units, strict=True)), **equation.numbers()},
        gradient=lambda point: np.einsum("ipq,iqk->ipk", curvatures, point),
        mix=mix,
        powered=lambda _, value: value,
    )
    return np.stack([new[name] for name in names]).reshape(size, size)
