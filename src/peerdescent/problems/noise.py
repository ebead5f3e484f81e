"""Gradient noise of known variance, a pure function of (seed, agent, iteration)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from peerdescent.data import stream
from peerdescent.errors import InputError

BLOCK = 64
"""The number of iterations whose noise is drawn at once."""
LARGEST = 1e30


class KnownNoise:
    """Add independent N(0, s²) noise to every entry of the gradients.

    Args:
        deviation: s for one sample; a minibatch of B has s/√B, exact gradients (batch_size None) have no noise.
        batch_size: B.
        seed: the seed of the run.
        agents: the numbers of the agents in their random streams.

    >>> gradients = torch.zeros(2, 3)
    >>> KnownNoise(1.0, None, 0, range(2)).add_to(gradients, k=0)
    >>> gradients.abs().sum()
    tensor(0.)
    """

    def __init__(self, deviation: float, batch_size: int | None, seed: int, agents: Sequence[int]) -> None:
        if deviation > LARGEST:  # it would overflow single precision
            raise InputError(f"noise = {deviation:g}: expected at most {LARGEST:g}.")
        self.deviation = 0.0 if batch_size is None else deviation / batch_size**0.5
        self.seed, self.agents = seed, agents
        self._drawn: tuple[int, torch.Tensor] = (-1, torch.empty(0))

    def add_to(self, gradients: torch.Tensor, k: int) -> None:
        """Add the noise of iteration k in place."""
        if self.deviation:
            gradients.add_(self._noise(k, gradients), alpha=self.deviation)

    def _noise(self, k: int, gradients: torch.Tensor) -> torch.Tensor:
        block, place = divmod(k, BLOCK)
        if self._drawn[0] != block:
            shape = (BLOCK, gradients.shape[1])
            drawn = [stream(self.seed, "noise", agent, block).standard_normal(shape) for agent in self.agents]
            self._drawn = block, torch.from_numpy(np.stack(drawn, axis=1)).to(gradients)
        return self._drawn[1][place]
