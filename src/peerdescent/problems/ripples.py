"""Nonconvex costs with exactly known gradient, noise and heterogeneity, for measuring convergence rates."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch

from peerdescent._util.memory import check_fits
from peerdescent._util.validation import check_integer, check_number
from peerdescent.data import stream
from peerdescent.problems.base import Oracle, Problem
from peerdescent.problems.noise import KnownNoise

HEIGHT, FREQUENCY = 0.5, 2.0


class Ripples(Problem):
    r"""f_i(x) = ½‖x − c_i‖² + h Σ_j (1 − cos ωx_j), h = ½, ω = 2: a bowl with ripples, nonconvex since hω² > 1.

    Centres are skewed, so that the mean of powered gradients differs from the power of their mean: each entry of c_i
    is `spread`·(e − 1) with e from the exponential distribution, shifted so that Σ c_i = 0 for every n. All agents
    start from the same point, drawn from N(0, 2²).

    Args:
        agents: n.
        dimension: p; coordinates do not interact, so a run is p independent trials.
        spread: the heterogeneity of the agents; 0 gives all of them the same cost.
        noise: standard deviation of each entry of a one-sample gradient; a minibatch of B has noise/√B.
        seed: determines the centres.

    >>> problem = Ripples(agents=4, dimension=3, spread=1.0)
    >>> bool(problem.c.mean(dim=0).abs().max() < 1e-12), problem.smoothness
    (True, 3.0)
    """

    name = "ripples"
    smoothness = 1 + HEIGHT * FREQUENCY**2
    """The Lipschitz constant of every ∇f_i."""

    def __init__(
        self, agents: int = 10, dimension: int = 20, spread: float = 0.0, noise: float = 1.0, seed: int = 0
    ) -> None:
        self.agents, self.dimension = (
            check_integer("ripples: agents", agents, 1),
            check_integer("ripples: dimension", dimension, 1),
        )
        spread, self.noise = check_number("ripples: spread", spread, 0), check_number("ripples: noise", noise, 0)
        check_fits(f"ripples with {agents:,} agents and dimension {dimension:,}", 8 * agents * dimension)
        skewed = [stream(seed, "centre", agent).exponential(size=dimension) - 1 for agent in range(agents)]
        self.c = torch.from_numpy(spread * (np.stack(skewed) - np.mean(skewed, axis=0)))
        self._mean = torch.zeros(dimension, dtype=torch.float64)

    def start(self, seed: int) -> torch.Tensor:
        """Return one point for all agents."""
        row = torch.from_numpy(2 * stream(seed, "start").standard_normal(self.dimension))
        return row.to(self.device, self.dtype).repeat(self.agents, 1)

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return x − c_i + hω sin ωx plus noise/√B; exact without a batch size."""
        self.check_request(batch_size, strategy)
        c = self.c[agents.start : agents.stop].to(self.device, self.dtype)
        noise = KnownNoise(self.noise, batch_size, seed, [self.number(agent) for agent in agents])

        def gradient(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
            torch.mul(points, FREQUENCY, out=out)
            out.sin_().mul_(HEIGHT * FREQUENCY).add_(points).sub_(c)
            noise.add_to(out, k)

        return gradient

    def loss(self, x: torch.Tensor) -> float:
        """Return f(x)."""
        bowl = (x - self.c.to(x)).square().sum() / (2 * self.agents)
        return float(bowl + HEIGHT * (1 - (FREQUENCY * x).cos()).sum())

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x)."""
        return x - self._mean.to(x) + HEIGHT * FREQUENCY * (FREQUENCY * x).sin()

    def subset(self, agents: Sequence[int]) -> Ripples:
        """Return the problem of some of the agents; the mean of their centres need not be 0."""
        new, chosen = copy.copy(self), list(agents)
        new.c = self.c[chosen]
        new._mean = new.c.mean(dim=0)
        new.agents, new.numbers = len(chosen), tuple(self.number(agent) for agent in chosen)
        return new

    def to(self, device: torch.device, dtype: torch.dtype) -> Ripples:
        """Return the problem on another device, in another precision."""
        new = copy.copy(self)
        new.device, new.dtype = device, dtype
        return new
