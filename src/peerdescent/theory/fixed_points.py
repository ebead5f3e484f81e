"""The fixed point of a method on quadratic costs: the optimum, or a biased point near it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.linalg
import scipy.sparse

from peerdescent._util.validation import described
from peerdescent.algorithms import DSGPA, Algorithm, as_algorithm, varied
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, as_graph, as_static
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.transforms import Chain, Powerball, Sign, Transform, power

if TYPE_CHECKING:
    from peerdescent.problems import Quadratic

STAGES = 8
"""Powers between 1, where the equations are linear, and γ: each solution is the initial guess for the next."""
ROUNDING = 1e-12


def fixed_point(
    algorithm: Algorithm, problem: Quadratic, graph: object, laplacian: str = "metropolis", mixing: str = "metropolis"
) -> Numbers:
    """The agents' fixed point on f_i = ½(x−c_i)ᵀA_i(x−c_i) with exact gradients, n×p.

    At a fixed point the mean does not move, so the gradients as the method uses them, u_i = σ(∇f_i(x_i), γ), sum to
    zero; and in the mode of each eigenvalue λ > 0 disagreement is a gain G(λ) times u, given by the recursion. G = 0
    (DSGPA, D², gradient tracking) means consensus; G ≠ 0 (D-SGD, DM-SGD, D-ASG) means that the agents disagree. The
    power on the direction of DSGPA and γ = 1 give Σ∇f_i = 0; the power on local gradients gives Σσ(∇f_i, γ) = 0,
    which is a different point where the agents' costs differ.

    It is the only one for γ = 1; if all A_i are diagonal and G has no positive eigenvalue (DM-SGD's has if W has
    negative ones); and if G = 0 and all A_i are equal or there are two agents. Otherwise there may be several: the
    result is the one to which the optimum moves as γ falls from 1, and a warning says so. Whether the method converges
    to it is another question, which `inspect_fixed_point` answers near the point. Hyperparameters are the nominal
    ones, held constant.

    Args:
        algorithm: a method whose only power, γ > 0, is on the gradient or on the direction of DSGPA.
        problem: the costs.
        graph: the communication graph: a Graph, a networkx graph or a text such as "ring:10".
        laplacian: kind of L.
        mixing: kind of W.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.problems import Quadratic
    >>> problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    >>> fixed_point(make("dsgpa-f-pb", gamma=0.7), problem, "complete:3").round(4).tolist()
    [[0.2709], [0.2709], [0.2709]]
    >>> fixed_point(make("dsgpa-f-pb-exact", gamma=0.7), problem, "complete:3").round(4).tolist()
    [[0.3333], [0.3333], [0.3333]]
    >>> fixed_point(make("d-sgd-1", eta=0.1), problem, "complete:3").round(4).tolist()
    [[0.303], [0.303], [0.3939]]
    """
    asked = FixedPointProblem.of(algorithm, problem, graph, laplacian, mixing)
    if not asked.unique:
        warnings.warn(
            "this fixed point may not be the only one: with a power below 1, matrices A_i that differ and are not "
            "diagonal can have several.",
            stacklevel=2,
        )
    return asked.solve()


@dataclass(frozen=True)
class FixedPointProblem:
    """The equations of a fixed point: x = 1x̄ + Gu with u_i = σ(A_i(x_i − c_i), γ) and Σu_i = 0."""

    graph: Graph
    A: Numbers
    c: Numbers
    gamma: float
    G: Numbers

    @classmethod
    def of(
        cls, algorithm: Algorithm, problem: Quadratic, graph: object, laplacian: str, mixing: str
    ) -> FixedPointProblem:
        """The equations of a method; the arguments are those of `fixed_point`."""
        network = as_static(as_graph(graph), "the fixed point")
        as_algorithm(algorithm)
        if not (hasattr(problem, "A") and hasattr(problem, "c")):
            raise InputError(f"problem is {described(problem)}: fixed points are known for a Quadratic only.")
        if problem.agents != network.n:
            raise InputError(f"the problem has {problem.agents} agents and the graph {network.n}: make them equal.")
        gamma, G = _power(algorithm), _gain(algorithm, network, laplacian, mixing)
        return cls(network, problem.A.numpy(), problem.c.numpy(), gamma, G)

    @property
    def unique(self) -> bool:
        """Whether one of the known arguments shows that there is only one solution."""
        consensus = not self.G.any()
        same = bool((self.A[0] == self.A).all())
        largest = float(np.linalg.eigvalsh((self.G + self.G.T) / 2).max())
        gains_push_back = largest <= ROUNDING * max(1.0, float(np.abs(self.G).max()))
        if self.gamma == 1:
            return True  # a linear system, which `solve` refuses if it is singular
        return (self._diagonal and gains_push_back) or (consensus and (same or self.graph.n <= 2))

    @property
    def _diagonal(self) -> bool:
        return np.array_equal(self.A, self._diagonals[:, :, None] * np.eye(self.A.shape[1]))

    @property
    def _diagonals(self) -> Numbers:
        return np.asarray(np.diagonal(self.A, axis1=1, axis2=2), dtype=np.float64)

    def solve(self) -> Numbers:
        """A solution, n×p: by bisection in each coordinate if they separate, else by continuation from γ = 1."""
        if not self.G.any() and self._diagonal:
            return np.tile(_by_coordinate(self._diagonals, self.c, self.gamma), (self.graph.n, 1))
        return _by_continuation(self.A, self.c, self.gamma, self.G)


def _power(algorithm: Algorithm) -> float:
    """γ of the gradients in the balance Σu_i = 0."""
    own = Equation(varied(algorithm, transform=Transform()))
    if own.powers and not isinstance(algorithm, DSGPA):
        raise InputError(f"no fixed point is known for {type(algorithm).__name__}, whose step has a power.")
    if algorithm.common_start:
        return 1.0  # the power of the mean gradient is zero where the mean gradient is
    gamma = _power_of(algorithm.transform)
    if isinstance(algorithm, DSGPA) and (algorithm.power_on == "gradient" or algorithm.nominal()["beta"] == 0):
        gamma *= algorithm.gamma
    if gamma <= 0:
        raise InputError("signs (γ = 0) can balance on a whole interval: a fixed point needs γ above 0.")
    return gamma


def _power_of(transform: Transform) -> float:
    if isinstance(transform, Chain):
        return _power_of(transform.first) * _power_of(transform.second)
    if isinstance(transform, Sign):
        return 0.0
    if isinstance(transform, Powerball):
        return transform.gamma
    if type(transform) is Transform:
        return 1.0
    raise InputError(f"no fixed point is known with {transform}: use powers only.")


def _gain(algorithm: Algorithm, graph: Graph, laplacian: str, mixing: str) -> Numbers:
    """G, n×n, from the gradients to the disagreement at a fixed point: zero for methods that reach consensus."""
    equation, weights = Equation(algorithm), MixingWeights.build(graph, laplacian, mixing, algorithm)
    if graph.n == 1 or algorithm.common_start:
        return np.zeros((graph.n, graph.n))
    eye = scipy.sparse.eye_array(graph.n)
    matrix = weights.laplacian if equation.matrix == "L" else eye - weights.mixing
    values, vectors = np.linalg.eigh(matrix.toarray())
    values, vectors, nothing = values[1:], vectors[:, 1:], np.zeros(graph.n - 1)
    step = equation.step(*((values, nothing) if equation.matrix == "L" else (nothing, values)))
    left = np.eye(len(equation.names)) - step.matrix
    # the pseudoinverse keeps at zero what nothing moves, such as a dual with β = 0
    pushed = step.gradient.sum(axis=2, keepdims=True)  # where the gradients of one iteration are equal
    states = np.linalg.pinv(left) @ pushed
    if not np.allclose(left @ states, pushed, rtol=0, atol=1e-9):
        raise InputError(f"{type(algorithm).__name__} has no fixed point with these values.")
    places = [(step.point[:, j] * states[:, :, 0]).sum(axis=1) for j in range(step.point.shape[1])]
    if not all(np.allclose(place, places[0], rtol=0, atol=1e-9) for place in places) or step.between.any():
        raise InputError(f"no fixed point is known for {type(algorithm).__name__}: its gradients are not at one point.")
    gains = places[0]
    gains[np.abs(gains) < 1e-10 * np.abs(step.gradient).max()] = 0.0
    return np.asarray((vectors * gains) @ vectors.T, dtype=np.float64)


def _by_coordinate(a: Numbers, c: Numbers, gamma: float) -> Numbers:
    """The zero of Σ_i σ(a_i(x−c_i), γ) in each coordinate, a sum of increasing functions, by bisection."""
    if not (a.max(axis=0) > 0).all():
        raise InputError("the sum of the A_i is singular: there is no unique fixed point.")
    low, high = np.where(a > 0, c, np.inf).min(axis=0), np.where(a > 0, c, -np.inf).max(axis=0)
    for _ in range(200):
        middle = (low + high) / 2
        above = power(a * (middle - c), gamma).sum(axis=0) > 0
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray((low + high) / 2, dtype=np.float64)


def _by_continuation(A: Numbers, c: Numbers, gamma: float, G: Numbers) -> Numbers:
    """x = x̄ + Gu with A_i(x_i−c_i) = |u_i|^(1/γ) sign u_i and Σu_i = 0, by Newton's method along γ."""
    from scipy.optimize import root

    n, p = c.shape
    stacked = scipy.linalg.block_diag(*A)  # np × np, agent by agent
    spread, ones = np.kron(G, np.eye(p)), np.tile(np.eye(p), (n, 1))

    def residual(unknown: Numbers, g: float) -> tuple[Numbers, Numbers]:
        u, mean = unknown[: n * p], unknown[n * p :]
        x = ones @ mean + spread @ u
        left = stacked @ (x - c.ravel()) - power(u, 1 / g)
        slope = np.diag(np.abs(u) ** (1 / g - 1) / g)
        jacobian = np.block([[stacked @ spread - slope, stacked @ ones], [ones.T, np.zeros((p, p))]])
        return np.concatenate([left, ones.T @ u]), jacobian

    unknown = np.zeros(n * p + p)
    value, jacobian = residual(unknown, 1.0)
    if np.linalg.matrix_rank(jacobian) < len(unknown):
        raise InputError("the sum of the A_i is singular: there is no unique fixed point.")
    unknown = np.asarray(np.linalg.solve(jacobian, -value), dtype=np.float64)  # γ = 1 is linear
    for g in np.geomspace(1, gamma, STAGES + 1)[1:] if gamma < 1 else ():
        unknown[: n * p] = power(unknown[: n * p], g)  # initial guess: u raised to a slightly smaller power
        found = root(residual, unknown, args=(float(g),), jac=True, method="lm", options={"xtol": 1e-14, "ftol": 1e-14})
        unknown = np.asarray(found.x, dtype=np.float64)
    if np.abs(residual(unknown, gamma)[0]).max() > 1e-8 * np.abs(stacked).max() * np.abs(c).max():
        raise InputError(f"no fixed point was found for γ = {gamma:g}: try a power nearer to 1.")
    x = ones @ unknown[n * p :] + spread @ unknown[: n * p]
    return np.asarray(x.reshape(n, p), dtype=np.float64)
