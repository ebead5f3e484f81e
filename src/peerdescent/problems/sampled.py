"""Costs that are means over samples: each agent owns a shard of the data and draws minibatches from it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent.data import Minibatches
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle, Problem

Shards = Sequence[NDArray[np.integer]]
Batches = Sequence[torch.Tensor] | torch.Tensor
EVALUATED_AT_ONCE = 500
"""Samples per piece of an evaluation: what a piece needs in between stays in the cache."""


class Sampled(Problem):
    """f_i is the mean of a loss over agent i's shard.

    A subclass gives the loss and its stacked gradient; shards, minibatches and evaluation are done here.

    Args:
        inputs: all training inputs, samples first.
        targets: all training targets.
        shards: for each agent, the numbers of its samples.
        test: inputs and targets for the accuracy, or None.
    """

    evaluated: int = 0
    """How many samples, an equal number of each agent's, f is measured on; 0 for all of them."""

    by_hand: bool = False
    """Whether the stacked gradient is written out for this problem, and so the fastest everywhere."""

    def __init__(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        shards: Shards,
        test: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        order = torch.from_numpy(np.concatenate(shards).astype(np.int64))
        self.inputs, self.targets = inputs[order].contiguous(), targets[order].contiguous()
        self.test = test
        self.sizes = [len(shard) for shard in shards]
        self.agents = len(shards)
        self.offsets = torch.tensor([0, *np.cumsum(self.sizes)])
        self.even = len(set(self.sizes)) == 1

    @abstractmethod
    def mean_loss(self, x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The loss at one point, averaged over these samples."""

    @abstractmethod
    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Row i of `out` becomes the gradient at row i of `points` on `inputs[i]`, `targets[i]`."""

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """The same, agent by agent; the batches may have different sizes."""
        for i in range(len(points)):
            self.stacked_gradient(points[i : i + 1], inputs[i][None], targets[i][None], out[i : i + 1])

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Minibatch gradients for a block of agents; batch_size None takes whole shards."""
        if strategy not in self.strategies:
            raise InputError(f"gradients = {strategy!r}: {self.name} offers {', '.join(self.strategies)}.")
        if batch_size is None:
            return _WholeShards(self, agents, strategy)
        minibatches = Minibatches(self.sizes, batch_size, seed, replacement, agents, self.numbers)
        return _SampledShards(self, minibatches, strategy)

    def subset(self, agents: Sequence[int]) -> Sampled:
        """The shards of some of the agents."""
        new, shards = copy.copy(self), [self.shard(agent) for agent in agents]
        new.inputs, new.targets = (torch.cat([shard[part] for shard in shards]) for part in (0, 1))
        new.sizes = [len(inputs) for inputs, _ in shards]
        new.agents, new.numbers = len(shards), tuple(self.number(agent) for agent in agents)
        new.offsets = torch.tensor([0, *np.cumsum(new.sizes)])
        new.even = len(set(new.sizes)) == 1
        new.evaluated = self.evaluated * new.agents // self.agents
        return new

    def shard(self, agent: int) -> tuple[torch.Tensor, torch.Tensor]:
        """An agent's own samples."""
        part = slice(int(self.offsets[agent]), int(self.offsets[agent + 1]))
        return self.inputs[part], self.targets[part]

    def loss(self, x: torch.Tensor) -> float:
        """f(x): every agent counts the same, whatever the size of its shard."""
        with torch.no_grad():
            return sum(weight * float(self.mean_loss(x, *part)) for weight, part in self._parts())

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """∇f(x) on all data."""
        total, part_gradient = torch.zeros_like(x), torch.empty_like(x)[None]
        for weight, (inputs, targets) in self._parts():
            if self.by_hand:
                self.stacked_gradient(x[None], inputs[None], targets[None], part_gradient)
            else:
                self.looped_gradient(x[None], [inputs], [targets], part_gradient)  # it works where vmap does not
            total += weight * part_gradient[0]
        return total

    def to(self, device: torch.device, dtype: torch.dtype) -> Sampled:
        """The same problem on another device, in another precision."""
        new = copy.copy(self)
        new.device, new.dtype = device, dtype
        new.inputs, new.targets = _move(self.inputs, device, dtype), _move(self.targets, device, dtype)
        new.test = self.test and (_move(self.test[0], device, dtype), _move(self.test[1], device, dtype))
        return new

    def _parts(self) -> list[tuple[float, tuple[torch.Tensor, torch.Tensor]]]:
        """What f is measured on, in pieces with their weights: large ones if shards are even, else the shards."""
        each = self.evaluated // self.agents or None
        if not self.even:
            shards = [self.shard(i) for i in range(self.agents)]
            return [(1 / self.agents, (inputs[:each], targets[:each])) for inputs, targets in shards]
        inputs, targets = self._first_of_each(each)
        total, step = len(inputs), EVALUATED_AT_ONCE
        cuts = [slice(a, min(a + step, total)) for a in range(0, total, step)]
        return [((cut.stop - cut.start) / total, (inputs[cut], targets[cut])) for cut in cuts]

    def _first_of_each(self, each: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """The first samples of every shard, for shards of one size."""
        if each is None or each >= self.sizes[0]:
            return self.inputs, self.targets
        rows = (self.offsets[:-1, None] + torch.arange(each)).flatten().to(self.device)
        return self.inputs[rows], self.targets[rows]


class _SampledShards:
    """Minibatch gradients."""

    def __init__(self, problem: Sampled, minibatches: Minibatches, strategy: str) -> None:
        self.problem, self.minibatches = problem, minibatches
        agents = minibatches.agents
        self._first = problem.offsets[agents.start : agents.stop, None]
        self._gradient = problem.stacked_gradient if strategy == "stacked" else problem.looped_gradient

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        chosen = self.minibatches.batches(k) + self._first
        rows = chosen.flatten().to(self.problem.device)
        self._gradient(points, self._rows(self.problem.inputs, rows), self._rows(self.problem.targets, rows), out)

    def _rows(self, data: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """The chosen samples, agents first."""
        return data.index_select(0, rows).view(-1, self.minibatches.batch_size, *data.shape[1:])


class _WholeShards:
    """Exact gradients."""

    def __init__(self, problem: Sampled, agents: range, strategy: str) -> None:
        self.problem = problem
        self.shards = [problem.shard(i) for i in agents]
        self.stacked: tuple[torch.Tensor, torch.Tensor] | None = None
        if strategy == "stacked" and problem.even:
            self.stacked = torch.stack([a for a, _ in self.shards]), torch.stack([b for _, b in self.shards])

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        if self.stacked is not None:
            self.problem.stacked_gradient(points, *self.stacked, out)
        else:
            inputs, targets = [a for a, _ in self.shards], [b for _, b in self.shards]
            self.problem.looped_gradient(points, inputs, targets, out)


def _move(a: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return a.to(device=device, dtype=dtype if a.is_floating_point() else a.dtype)
