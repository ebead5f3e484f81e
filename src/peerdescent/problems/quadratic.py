"""Quadratic costs with a known optimum, for exact checks of the theory."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import ArrayLike

from peerdescent._util.memory import check_fits
from peerdescent._util.validation import check_integer, check_number, described
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle, Problem
from peerdescent.problems.noise import KnownNoise


class Quadratic(Problem):
    r"""f_i(x) = ½ (x − c_i)ᵀ A_i (x − c_i), with noise of known variance on its gradients.

    The optimum solves (Σ A_i) x = Σ A_i c_i.

    Args:
        A: n symmetric positive semidefinite p×p matrices, or n rows of p diagonals.
        c: n centres, n×p.
        noise: standard deviation of each entry of a one-sample gradient; a minibatch of B has noise/√B.
        start: the starting points, n×p or one row; zeros by default.

    >>> problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    >>> problem.optimum()
    tensor([0.3333], dtype=torch.float64)
    """

    name = "quadratic"
    strategies = ("stacked",)

    def __init__(self, A: ArrayLike, c: ArrayLike, noise: float = 0.0, start: ArrayLike | None = None) -> None:
        self.c, self.A = _numbers("c", c), _numbers("A", A)
        if self.c.dim() != 2 or self.A.shape not in ((*self.c.shape,), (*self.c.shape, self.c.shape[1])):
            raise InputError(
                f"quadratic: c has shape {tuple(self.c.shape)} and A {tuple(self.A.shape)}; "
                "expected c n×p and A n×p (diagonals) or n×p×p."
            )
        self.A = torch.diag_embed(self.A) if self.A.dim() == 2 else self.A
        if not (torch.isfinite(self.A).all() and torch.isfinite(self.c).all()):
            raise InputError("quadratic: A and c must be finite.")
        self.agents, self.dimension = self.c.shape
        self.noise = check_number("quadratic: noise", noise, 0)
        given = _numbers("start", torch.zeros(self.dimension) if start is None else start)
        if given.shape not in ((), (1,), (self.dimension,), (1, self.dimension), tuple(self.c.shape)):
            raise InputError(
                f"quadratic: start has shape {tuple(given.shape)}; expected {tuple(self.c.shape)} or one row of it."
            )
        self._start = given.expand(self.agents, self.dimension).contiguous()

    def start(self, seed: int) -> torch.Tensor:
        """Return the given starting points."""
        return self._start.to(self.device, self.dtype)

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return A_i(x − c_i) plus noise/√B; exact without a batch size."""
        self.check_request(batch_size, strategy)
        return _NoisyGradient(self, batch_size, seed, agents)

    def loss(self, x: torch.Tensor) -> float:
        """Return f(x)."""
        d = x - self.c.to(x)
        return float(torch.einsum("np,npq,nq->", d, self.A.to(x), d) / (2 * self.agents))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x)."""
        return torch.einsum("npq,nq->p", self.A.to(x), x - self.c.to(x)) / self.agents

    def optimum(self) -> torch.Tensor:
        """Return the solution of (Σ A_i) x = Σ A_i c_i."""
        pull = torch.einsum("npq,nq->p", self.A, self.c)
        solution: torch.Tensor = torch.linalg.lstsq(self.A.sum(0), pull[:, None]).solution
        return solution[:, 0]

    def subset(self, agents: Sequence[int]) -> Quadratic:
        """Return the problem of some of the agents.

        >>> Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]]).subset([1, 2]).optimum()
        tensor([0.5000], dtype=torch.float64)
        """
        new, chosen = copy.copy(self), list(agents)
        new.A, new.c, new._start = self.A[chosen], self.c[chosen], self._start[chosen]
        new.agents, new.numbers = len(chosen), tuple(self.number(agent) for agent in chosen)
        return new

    def to(self, device: torch.device, dtype: torch.dtype) -> Quadratic:
        """Return the problem on another device, in another precision."""
        new = copy.copy(self)
        new.device, new.dtype = device, dtype
        return new


def _numbers(name: str, value: ArrayLike) -> torch.Tensor:
    try:
        return torch.from_numpy(np.array(np.asarray(value), dtype=np.float64))
    except (TypeError, ValueError):
        raise InputError(f"quadratic: {name} is {described(value)}; expected an array of numbers.") from None


class _NoisyGradient:
    def __init__(self, problem: Quadratic, batch_size: int | None, seed: int, agents: range) -> None:
        self.A = problem.A[agents.start : agents.stop].to(problem.device, problem.dtype)
        self.c = problem.c[agents.start : agents.stop].to(problem.device, problem.dtype)
        self.noise = KnownNoise(problem.noise, batch_size, seed, [problem.number(agent) for agent in agents])

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        torch.bmm(self.A, (points - self.c)[:, :, None], out=out[:, :, None])
        self.noise.add_to(out, k)


def quadratic(
    agents: int = 10,
    dimension: int = 10,
    condition: float = 10.0,
    spread: float = 1.0,
    noise: float = 0.0,
    seed: int = 0,
    curvature: float = 1.0,
) -> Quadratic:
    """Make a random quadratic problem: A_i = QᵀDQ, c_i = N(0, spread²), eigenvalues in curvature·[1/condition, 1].

    >>> quadratic(agents=4, dimension=3).agents
    4
    """
    agents, dimension = (
        check_integer("quadratic: agents", agents, 1),
        check_integer("quadratic: dimension", dimension, 1),
    )
    condition, spread = check_number("condition", condition, 1), check_number("spread", spread)
    curvature = check_number("curvature", curvature, 0)
    check_fits(f"quadratic with {agents:,} agents and dimension {dimension:,}", 8 * agents * dimension**2)
    A, c = [], []
    for agent in range(agents):
        random = stream(seed, "quadratic", agent)
        basis = np.linalg.qr(random.standard_normal((dimension, dimension)))[0]
        eigenvalues = curvature * condition ** -random.uniform(0, 1, dimension)
        A.append(basis.T @ np.diag(eigenvalues) @ basis)
        c.append(spread * random.standard_normal(dimension))
    return Quadratic(np.stack(A), np.stack(c), noise)
