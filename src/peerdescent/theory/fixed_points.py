"""The fixed point of a method on quadratic costs: the optimum, or a biased point near it."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse

from peerdescent._util.validation import described
from peerdescent.algorithms import DSGD1, Algorithm, ClippedDSGD, GTNSGDm, as_algorithm, varied
from peerdescent.errors import InputError
from peerdescent.expressions import Clamp, Power, RowNorm, walk
from peerdescent.graphs import Graph, as_graph, as_static, path
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.balance import balance, entrywise, power_of
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.transforms import ClipNorm, Transform, chained

if TYPE_CHECKING:
    from peerdescent.problems import Quadratic

ROUNDING = 1e-12


def fixed_point(
    algorithm: Algorithm, problem: Quadratic, graph: object, laplacian: str = "metropolis", mixing: str = "metropolis"
) -> Numbers:
    """The agents' fixed point on f_i = ½(x−c_i)ᵀA_i(x−c_i) with exact gradients, n×p.

    At a fixed point the mean does not move, so the gradients as the method uses them, u_i = σ(∇f_i(x_i)), sum to
    zero; and in the mode of each eigenvalue λ > 0 disagreement is a gain G(λ) times u, given by the recursion. G = 0
    (DSGPA, D², gradient tracking) means consensus; G ≠ 0 (D-SGD, DM-SGD, D-ASG) means that the agents disagree. A
    power, clip or norm after the correction and γ = 1 give Σ∇f_i = 0; before the correction, on local gradients, they
    give Σσ(∇f_i) = 0, which is a different point where the agents' costs differ: see `heterogeneity_bias`.

    It is the only one for γ = 1; if all A_i are diagonal and G has no positive eigenvalue (DM-SGD's has if W has
    negative ones); and if G = 0 and all A_i are equal or there are two agents; with norms, if G = 0 and all A_i are
    equal or multiples of I. Otherwise there may be several: the result is the one to which the optimum moves as γ falls
    from 1, or limits from infinity, and a warning says so. Whether the method converges
    to it is another question, which `inspect_fixed_point` answers near the point. Hyperparameters are the nominal
    ones, held constant.

    Args:
        algorithm: a method whose powers (γ > 0), clips and norms are on the gradient or on the corrected direction.
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
            "this fixed point may not be the only one: with powers, clips or norms of local gradients, matrices A_i "
            "that differ and are not diagonal can have several.",
            stacklevel=2,
        )
    return asked.solve()


@dataclass(frozen=True)
class FixedPointProblem:
    """The equations of a fixed point: x = 1x̄ + Gu with u_i = σ(A_i(x_i − c_i)) and Σu_i = 0."""

    graph: Graph
    A: Numbers
    c: Numbers
    transform: Transform
    """σ: powers, clips and norms of local gradients."""
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
        transform, G = _gradient_transform(algorithm), _gain(algorithm, network, laplacian, mixing)
        return cls(network, problem.A.numpy(), problem.c.numpy(), transform, G)

    @property
    def unique(self) -> bool:
        """Whether one of the known arguments shows that there is only one solution.

        `solve` refuses clips that balance on a whole interval; apart from that, clips are as monotone as powers. Norms
        of rows are gradients of convex functions, as powers are, but only if the A_i are equal or multiples of I.
        """
        gamma, consensus = power_of(self.transform), not self.G.any()
        if gamma == 1:
            return True  # a linear system, which `solve` refuses if it is singular
        same = bool((self.A[0] == self.A).all())
        if not entrywise(self.transform):
            multiples = self._diagonal and bool((self._diagonals == self._diagonals[:, :1]).all())
            return consensus and (same or multiples)
        largest = float(np.linalg.eigvalsh((self.G + self.G.T) / 2).max())
        gains_push_back = largest <= ROUNDING * max(1.0, float(np.abs(self.G).max()))
        two = self.graph.n <= 2 and gamma is not None
        return (self._diagonal and gains_push_back) or (consensus and (same or two))

    @property
    def _diagonal(self) -> bool:
        return np.array_equal(self.A, self._diagonals[:, :, None] * np.eye(self.A.shape[1]))

    @property
    def _diagonals(self) -> Numbers:
        return np.asarray(np.diagonal(self.A, axis1=1, axis2=2), dtype=np.float64)

    def solve(self) -> Numbers:
        """A solution, n×p: by bisection in each coordinate if they separate, else by continuation from γ = 1."""
        return balance(self.A, self.c, self.transform, self.G)


@dataclass(frozen=True)
class Bias:
    """Whether a method's fixed point is beside the optimum where the agents' costs differ, and why."""

    biased: bool
    reason: str


def heterogeneity_bias(algorithm: Algorithm) -> Bias:
    """Whether a method with exact gradients is biased on heterogeneous data in general, from its recorded step.

    It is not if it reaches consensus (G = 0 in `fixed_point`) and uses local gradients linearly. Noise that is
    skewed adds a bias of its own to every transform: E σ(d + noise) ≠ 0 where d = 0.

    >>> from peerdescent.algorithms import make
    >>> heterogeneity_bias(make("d-sgt-1", powerball=0.7)).reason
    'the transform acts on local gradients, before the correction'
    >>> heterogeneity_bias(make("powered-tracking")).biased
    False
    """
    transform = _gradient_transform(as_algorithm(algorithm))
    if _gain(algorithm, path(3), "metropolis", "metropolis").any():
        return Bias(True, "the agents disagree at the fixed point: there is no correction")
    if power_of(transform) != 1:
        return Bias(True, "the transform acts on local gradients, before the correction")
    points, outputs = Equation(algorithm).exchanging
    nonlinear = any(isinstance(node, (Power, Clamp, RowNorm)) for node in walk(*points, *outputs.values()))
    after = "the transform acts after the correction, on what vanishes at the optimum"
    return Bias(False, after if nonlinear else "local gradients are corrected, and nothing is transformed")


def _gradient_transform(algorithm: Algorithm) -> Transform:
    """What acts on the gradients in the balance Σu_i = 0; what acts after a correction vanishes with its argument."""
    if isinstance(algorithm, ClippedDSGD):
        return chained(algorithm.gradient_transform(), ClipNorm(algorithm.nominal()["tau"]))
    own = Equation(without_transforms(algorithm))
    known = algorithm.corrects or type(algorithm).gradient_transform is not Algorithm.gradient_transform
    if own.powers and not known:
        raise InputError(f"no fixed point is known for {type(algorithm).__name__}, whose step has a power.")
    if algorithm.common_start:
        return Transform()  # the transform of the mean gradient is zero where the mean gradient is
    return algorithm.gradient_transform()


def without_transforms(algorithm: Algorithm) -> Algorithm:
    """The method without what acts on its gradient or its direction; a power in its own step stays."""
    return DSGD1(eta=algorithm.eta) if isinstance(algorithm, ClippedDSGD) else varied(algorithm, transform=Transform())


def _gain(algorithm: Algorithm, graph: Graph, laplacian: str, mixing: str) -> Numbers:
    """G, n×n, from the gradients to the disagreement at a fixed point: zero for methods that reach consensus."""
    if isinstance(algorithm, GTNSGDm):  # equal trackers y = Wy whose normalized sum is zero vanish, and x = Wx
        return np.zeros((graph.n, graph.n))
    plain = without_transforms(algorithm)
    equation, weights = Equation(plain), MixingWeights.build(graph, laplacian, mixing, plain)
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
