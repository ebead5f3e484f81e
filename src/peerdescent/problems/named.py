"""What the named problems with a network share: the start is a function of the run's seed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from peerdescent.data import stream
from peerdescent.data.shards import Shards
from peerdescent.data.trees import Batch
from peerdescent.errors import InputError
from peerdescent.problems.supervised import Loss, Supervised


class NamedProblem(Supervised):
    """A network on one of the data sets.

    Args:
        name: the name of the problem.
        build: makes the network; which parameters it draws does not matter.
        loss: the loss.
        train: training inputs and targets.
        shards: the sample indices of each agent.
        test: test inputs and targets.
        start: "shared" (one draw for all agents, by the run's seed) or "independent" (one for each).
        evaluated: training samples for evaluating loss and gradient norm, equally many from each agent; 0 for all.
    """

    def __init__(
        self,
        name: str,
        build: Callable[[], nn.Module],
        loss: Loss,
        train: Batch,
        shards: Shards,
        test: Batch,
        start: str,
        evaluated: int,
    ) -> None:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)  # the caller's random numbers stay as they are
            module = build()
        super().__init__(module, loss, *train, shards, test, start)
        self.name = name
        if 0 < evaluated < self.agents or evaluated < 0:
            raise InputError(
                f"evaluated = {evaluated}: expected 0, or at least one sample for each of {self.agents} agents."
            )
        self.evaluated = evaluated if evaluated < sum(self.sizes) else 0

    def start(self, seed: int) -> torch.Tensor:
        """Return the starting weights of the agents."""
        if self.start_kind != "shared":
            return super().start(seed)
        row = self.flatten(self._fresh(seed, 0))
        return row.expand(self.agents, -1).to(self.device, self.dtype).contiguous()


def shuffled(shards: Sequence[NDArray[np.int64]], seed: int) -> list[NDArray[np.int64]]:
    """Return the shards, each in random order: an evaluation on the first samples of each then sees all its classes."""
    return [shard[stream(seed, "order in a shard", i).permutation(len(shard))] for i, shard in enumerate(shards)]
