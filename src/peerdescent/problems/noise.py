"""Gradient noise of known variance, a pure function of (seed, agent, iteration)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from peerdescent.data import stream

BLOCK = 64
"""Iterations whose noise is drawn at once."""


class KnownNoise:
    """Adds independent N(0, s²) to every entry of the agents' gradients.

    Args:
        deviation: s for one sample; a minibatch of B has s/√B, exact gradients (batch_size None) have none.
        batch_size: B.
        seed: the run's seed.
        agents: the numbers by which those draw whose gradients these are.

    >>> gradients = torch.zeros(2, 3)
    >>> KnownNoise(1.0, None, 0, range(2)).add_to(gradients, k=0)
    >>> gradients.abs().sum()
    tensor(0.)
    """

    def __init__(self, deviation: float, batch_size: int | None, seed: int, agents: Sequence[int]) -> None:
        self.deviation = 0.0 if batch_size is None else deviation / batch_size**0.5
        self.seed, self.agents = seed, agents
        self._drawn: tuple[int, torch.Tensor] = (-1, torch.empty(0))

    def add_to(self, gradients: torch.Tensor, k: int) -> None:
        """The noise of iteration k, in place."""
        if self.deviation:
            gradients.add_(self._noise(k, gradients), alpha=self.deviation)

    def _noise(self, k: int, like: torch.Tensor) -> torch.Tensor:
        block, place = divmod(k, BLOCK)
        if self._drawn[0] != block:
            shape = (BLOCK, like.shape[1])
            drawn = [stream(self.seed, "noise", agent, block).standard_normal(shape) for agent in self.agents]
            self._drawn = block, torch.from_numpy(np.stack(drawn, axis=1)).to(like)
        return self._drawn[1][place]
