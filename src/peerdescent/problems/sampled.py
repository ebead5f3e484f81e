"""Costs that are means over samples: every agent has a shard of the data and draws minibatches from it."""

from __future__ import annotations

import copy
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache

import torch

from peerdescent.data import trees
from peerdescent.data.shards import EVALUATED_AT_ONCE, Draw, ShardedData, Shards, TensorShards
from peerdescent.data.trees import Batch, Tree, aligned
from peerdescent.errors import InputError
from peerdescent.problems.base import Oracle, Problem
from peerdescent.problems.given_data import TestData
from peerdescent.problems.scores import Metrics, Scores, rows_of

Batches = Sequence[Tree] | Tree
GradientFunction = Callable[[torch.Tensor, Tree, Tree, torch.Tensor], None]


class Sampled(Problem):
    """f_i is the mean of a loss over the shard of agent i.

    A subclass defines the loss and its stacked gradient; this class handles minibatches and evaluation.

    Args:
        inputs: all training inputs, samples first; or the samples of all agents in another form.
        targets: all training targets.
        shards: the sample indices of each agent.
        test: inputs and targets for test loss and accuracy, or None.
    """

    evaluated: int = 0
    """The number of samples for evaluating f, equally many from each agent; 0 for all samples."""

    by_hand: bool = False
    """Whether the stacked gradient is written by hand for this problem, which makes it the fastest strategy."""

    def __init__(
        self,
        inputs: Tree | ShardedData,
        targets: Tree = None,
        shards: Shards = (),
        test: TestData | None = None,
    ) -> None:
        self.data = inputs if isinstance(inputs, ShardedData) else TensorShards(inputs, targets, shards)
        self.test, self.agents, self.batch_size = test, self.data.agents, self.data.batch_size

    @property
    def sizes(self) -> list[int]:
        """The number of samples of each agent; none for streams."""
        return self.data.sizes

    @property
    def tensors(self) -> TensorShards:
        """The samples, if they are in memory."""
        if not isinstance(self.data, TensorShards):
            raise AttributeError(f"the samples of this {self.name} are read as needed, and not in memory")
        return self.data

    @property
    def inputs(self) -> Tree:
        """All training inputs, those of one agent after the other, if they are in memory."""
        return self.tensors.inputs

    @property
    def targets(self) -> Tree:
        """All training targets, in the order of the inputs."""
        return self.tensors.targets

    def shard(self, agent: int) -> Batch:
        """Return the inputs and targets of an agent, if they are in memory."""
        return self.tensors.shard(agent)

    def test_chunks(self) -> Iterator[Batch]:
        """Return the test samples in chunks."""
        if isinstance(self.test, list):
            for part in self.test:
                yield from part
        elif self.test is not None:
            inputs, targets = self.test
            for begin in range(0, rows_of(targets), EVALUATED_AT_ONCE):
                rows = slice(begin, begin + EVALUATED_AT_ONCE)
                yield trees.take(inputs, rows), trees.take(targets, rows)

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
        found = torch.empty_like(out[:1])
        for i in range(len(points)):
            batch = aligned(inputs[i])[None], aligned(targets[i])[None]
            self.stacked_gradient(aligned(points[i : i + 1]), *batch, found)
            out[i] = found[0]

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
        if 0 in agents and self.batch_size not in (None, batch_size):  # one process of the run warns
            _warn_of_batch_size(self.batch_size, batch_size)
        numbers = [self.number(agent) for agent in range(self.agents)]
        draw = Draw(batch_size, seed, replacement, agents, numbers, strategy != "loop")
        batches = self.data.batches(draw)
        gradient = self.gradient_function(strategy) if batches.stacked else self.looped_gradient
        batch = batches.of

        def compute(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
            gradient(points, *batch(k), out)

        return compute

    def check_request(self, batch_size: int | None, strategy: str) -> None:
        """Refuse minibatches that the data do not have."""
        super().check_request(batch_size, strategy)
        if self.data.endless and batch_size is None:
            raise InputError(
                "batch_size = 0: the data are streams, which have no whole shards; use a batch_size of at least 1."
            )

    def subset(self, agents: Sequence[int]) -> Sampled:
        """Return the problem of some of the shards."""
        new = copy.copy(self)
        new.data = self.data.subset(agents)
        new.agents, new.numbers = len(agents), tuple(self.number(agent) for agent in agents)
        new.evaluated = self.evaluated * new.agents // self.agents
        return new

    def for_agents(self, most: int) -> Sampled:
        """Return the problem on about `most` samples, equally many from each agent, so that evaluating n agents takes
        time linear in n; more agents than that are represented by `most` of them. A problem that is no larger stays.

        >>> from peerdescent.problems import logistic_nonconvex
        >>> problem = logistic_nonconvex(agents=5, samples=100)
        >>> problem.for_agents(80) is problem, problem.for_agents(50).evaluated, problem.for_agents(3).agents
        (True, 50, 3)
        """
        counted = self.evaluated or sum(self.sizes)
        if counted <= most and self.agents <= most:
            return self
        chosen = range(0, self.agents, -(-self.agents // most))
        new = copy.copy(self) if len(chosen) == self.agents else self.subset(chosen)
        new.evaluated = max(len(chosen), min(counted, most))
        return new

    def scores(self, x: torch.Tensor, metrics: Metrics) -> Scores:
        """Add the mean loss on the test data, if there are any."""
        found = super().scores(x, metrics)
        if self.test is not None:
            with torch.no_grad():
                sums = [(rows_of(b), float(self.mean_loss(x, a, b))) for a, b in self.test_chunks()]
            found["test_loss"] = sum(count * loss for count, loss in sums) / sum(count for count, _ in sums)
        return found

    def loss(self, x: torch.Tensor) -> float:
        """Return f(x); every agent has the same weight, whatever the size of its shard."""
        with torch.no_grad():
            return sum(weight * float(self.mean_loss(x, *part)) for weight, part in self.data.parts(self.evaluated))

    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x) on all data."""
        total, part_gradient = torch.zeros_like(x), torch.empty_like(x)[None]
        for weight, (inputs, targets) in self.data.parts(self.evaluated):
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
        new.data = self.data.to(device, dtype)
        if isinstance(self.test, list):
            new.test = [part.to(device, dtype) for part in self.test]
        elif self.test is not None:
            new.test = trees.move(self.test[0], device, dtype), trees.move(self.test[1], device, dtype)
        return new


@lru_cache
def _warn_of_batch_size(asked: int | None, used: int | None) -> None:
    """Warn once per process, however many methods use these data."""
    size = "whole shards" if used is None else f"batches of {used}"
    warnings.warn(f"the data come as a DataLoader with batch_size={asked}, but the run uses {size}.", stacklevel=4)
