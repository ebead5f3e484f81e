"""Costs that are means over samples: every agent has a shard of the data and draws minibatches from it."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.validation import described
from peerdescent.data import Minibatches
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle, Problem

Shards = Sequence[NDArray[np.integer]]
Batches = Sequence[torch.Tensor] | torch.Tensor
GradientFunction = Callable[[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor], None]
EVALUATED_AT_ONCE = 500
"""Samples per chunk of an evaluation, so that intermediate results stay in the CPU cache."""


class Sampled(Problem):
    """f_i is the mean of a loss over the shard of agent i.

    A subclass defines the loss and its stacked gradient; this class handles shards, minibatches and evaluation.

    Args:
        inputs: all training inputs, samples first.
        targets: all training targets.
        shards: the sample indices of each agent.
        test: inputs and targets for the accuracy, or None.
    """

    evaluated: int = 0
    """The number of samples for evaluating f, equally many from each agent; 0 for all samples."""

    by_hand: bool = False
    """Whether the stacked gradient is written by hand for this problem, which makes it the fastest strategy."""

    def __init__(
        self,
        inputs: torch.Tensor,
        targets: torch.Tensor,
        shards: Shards,
        test: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        for name, column in (("inputs", inputs), ("targets", targets)):
            if not isinstance(column, torch.Tensor) or column.dim() == 0 or len(column) != len(inputs):
                raise InputError(f"{name} is {described(column)}; expected a tensor with one row per sample.")
        order = _order(shards, len(inputs))
        self.inputs, self.targets = inputs[order].contiguous(), targets[order].contiguous()
        self.test = test
        self.sizes = [len(shard) for shard in shards]
        self.agents = len(shards)
        self.offsets = torch.tensor([0, *np.cumsum(self.sizes)])
        self.even = len(set(self.sizes)) == 1

    @abstractmethod
    def mean_loss(self, x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the loss at one point, averaged over these samples."""

    @abstractmethod
    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """Write the gradient at row i of `points` on `inputs[i]`, `targets[i]` into row i of `out`."""

    def looped_gradient(self, points: torch.Tensor, inputs: Batches, targets: Batches, out: torch.Tensor) -> None:
        """Compute the same agent by agent; batches may have different sizes."""
        for i in range(len(points)):
            self.stacked_gradient(points[i : i + 1], inputs[i][None], targets[i][None], out[i : i + 1])

    def gradient_function(self, strategy: str) -> GradientFunction:
        """Return the function of a strategy."""
        return self.stacked_gradient if strategy == "stacked" else self.looped_gradient

    def preferred_strategy(self) -> tuple[str, str]:
        """Return "stacked" if its gradient is written by hand.

        >>> from peerdescent.problems import logistic_nonconvex
        >>> logistic_nonconvex(agents=2, samples=20).preferred_strategy()
        ('stacked', 'written by hand')
        """
        return ("stacked", "written by hand") if self.by_hand else super().preferred_strategy()

    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return minibatch gradients for a block of agents; batch_size None means full shards."""
        self.check_request(batch_size, strategy)
        if batch_size is None:
            return _FullShards(self, agents, strategy)
        minibatches = Minibatches(self.sizes, batch_size, seed, replacement, agents, self.numbers)
        return _SampledShards(self, minibatches, strategy)

    def subset(self, agents: Sequence[int]) -> Sampled:
        """Return the problem of some of the shards."""
        new, shards = copy.copy(self), [self.shard(agent) for agent in agents]
        new.inputs, new.targets = (torch.cat([shard[part] for shard in shards]) for part in (0, 1))
        new.sizes = [len(inputs) for inputs, _ in shards]
        new.agents, new.numbers = len(shards), tuple(self.number(agent) for agent in agents)
        new.offsets = torch.tensor([0, *np.cumsum(new.sizes)])
        new.even = len(set(new.sizes)) == 1
        new.evaluated = self.evaluated * new.agents // self.agents
        return new

    def shard(self, agent: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the inputs and targets of an agent."""
        part = slice(int(self.offsets[agent]), int(self.offsets[agent + 1]))
        return self.inputs[part], self.targets[part]

    def loss(self, x: torch.Tensor) -> float:
        """Return f(x); every agent has the same weight, whatever the size of its shard."""
        with torch.no_grad():
            return sum(weight * float(self.mean_loss(x, *part)) for weight, part in self._parts())

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x) on all data."""
        total, part_gradient = torch.zeros_like(x), torch.empty_like(x)[None]
        for weight, (inputs, targets) in self._parts():
            if self.by_hand:
                self.stacked_gradient(x[None], inputs[None], targets[None], part_gradient)
            else:
                self.looped_gradient(x[None], [inputs], [targets], part_gradient)  # works where vmap does not
            total += weight * part_gradient[0]
        return total

    def to(self, device: torch.device, dtype: torch.dtype) -> Sampled:
        """Return the problem on another device, in another precision."""
        new = copy.copy(self)
        new.device, new.dtype = device, dtype
        new.inputs, new.targets = _move(self.inputs, device, dtype), _move(self.targets, device, dtype)
        new.test = self.test and (_move(self.test[0], device, dtype), _move(self.test[1], device, dtype))
        return new

    def _parts(self) -> list[tuple[float, tuple[torch.Tensor, torch.Tensor]]]:
        """Return the samples for evaluating f in weighted chunks: of equal size for even shards, else the shards."""
        each = self.evaluated // self.agents or None
        if not self.even:
            shards = [self.shard(i) for i in range(self.agents)]
            return [(1 / self.agents, (inputs[:each], targets[:each])) for inputs, targets in shards]
        inputs, targets = self._first_of_each(each)
        total, step = len(inputs), EVALUATED_AT_ONCE
        cuts = [slice(a, min(a + step, total)) for a in range(0, total, step)]
        return [((cut.stop - cut.start) / total, (inputs[cut], targets[cut])) for cut in cuts]

    def _first_of_each(self, each: int | None) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the first samples of every shard; all shards have the same size."""
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
        self._gradient = problem.gradient_function(strategy)

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        chosen = self.minibatches.batches(k) + self._first
        rows = chosen.flatten().to(self.problem.device)
        self._gradient(points, self._rows(self.problem.inputs, rows), self._rows(self.problem.targets, rows), out)

    def _rows(self, data: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the selected samples, agents first."""
        return data.index_select(0, rows).view(-1, self.minibatches.batch_size, *data.shape[1:])


class _FullShards:
    """Exact gradients."""

    def __init__(self, problem: Sampled, agents: range, strategy: str) -> None:
        self.problem = problem
        self.shards = [problem.shard(i) for i in agents]
        self.stacked: tuple[torch.Tensor, torch.Tensor] | None = None
        self._gradient = problem.gradient_function(strategy)
        if strategy != "loop" and problem.even:
            self.stacked = torch.stack([a for a, _ in self.shards]), torch.stack([b for _, b in self.shards])

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        if self.stacked is not None:
            self._gradient(points, *self.stacked, out)
        else:
            inputs, targets = [a for a, _ in self.shards], [b for _, b in self.shards]
            self.problem.looped_gradient(points, inputs, targets, out)


def _order(shards: Shards, samples: int) -> torch.Tensor:
    """Return the indices of the samples of all agents, one agent after the other."""
    try:
        parts = [np.asarray(shard).astype(np.int64, casting="same_kind") for shard in shards]
        if not parts or any(part.ndim != 1 or not len(part) for part in parts):
            raise ValueError
        order = np.concatenate(parts)
    except (TypeError, ValueError):
        raise InputError(f"shards is {described(shards)}; expected one list of sample indices per agent.") from None
    if order.min() < 0 or order.max() >= samples:
        raise InputError(f"shards has indices from {order.min()} to {order.max()}; there are {samples} samples.")
    return torch.from_numpy(order)


def _move(a: torch.Tensor, device: torch.device, dtype: torch.dtype) -> torch.Tensor:
    return a.to(device=device, dtype=dtype if a.is_floating_point() else a.dtype)
