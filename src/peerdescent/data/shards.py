"""The data of the agents: where their minibatches and the samples of an evaluation come from."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_leaves, tree_map

from peerdescent._util.validation import described
from peerdescent.data import trees
from peerdescent.data.sampling import Minibatches
from peerdescent.data.trees import Batch, Tree
from peerdescent.errors import InputError

Shards = Sequence[NDArray[np.integer]]
EVALUATED_AT_ONCE = 500
"""Samples per chunk of an evaluation, so that intermediate results stay in the CPU cache."""


@dataclass(frozen=True)
class Draw:
    """Which minibatches are wanted.

    Args:
        batch_size: B; None for whole shards.
        seed: the seed of the run.
        replacement: sample with replacement, or in epochs.
        agents: the agents hosted here.
        numbers: the number of each agent of the problem in its random stream.
        stacked: whether the batches of all agents are to be one tree, agents first, where their sizes allow it.
    """

    batch_size: int | None
    seed: int
    replacement: bool
    agents: range
    numbers: Sequence[int]
    stacked: bool

    def minibatches(self, sizes: Sequence[int]) -> Minibatches | None:
        """Return the numbers of the samples, or None for whole shards."""
        if self.batch_size is None:
            return None
        return Minibatches(sizes, self.batch_size, self.seed, self.replacement, self.agents, self.numbers)


@dataclass(frozen=True)
class Batches:
    """The inputs and targets of the agents hosted here, as a function of the iteration.

    Args:
        of: returns those of iteration k.
        stacked: whether each of the two is one tree, agents first; otherwise `[i]` of each is that of agent i.
    """

    of: Callable[[int], tuple[Any, Any]]
    stacked: bool


class ShardedData(ABC):
    """The samples of n agents."""

    agents: int
    sizes: list[int]
    """How many samples each agent has."""
    batch_size: int | None = None
    """The batch size that comes with the data, as a DataLoader has one."""
    regular: bool = True
    """Whether all batches of one size have equal shapes."""
    endless: bool = False
    """Whether these are streams, which have no whole shards."""

    @abstractmethod
    def batches(self, draw: Draw) -> Batches:
        """Return the batches of a block of agents."""

    @abstractmethod
    def few(self, agent: int, count: int) -> Batch:
        """Return the first samples of an agent, with repetitions if it has fewer."""

    @abstractmethod
    def parts(self, evaluated: int) -> Iterable[tuple[float, Batch]]:
        """Return the samples for evaluating f in weighted chunks.

        Args:
            evaluated: how many samples, equally many from each agent; 0 for all.
        """

    @abstractmethod
    def subset(self, agents: Sequence[int]) -> ShardedData:
        """Return the data of some of the agents."""

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> ShardedData:
        """Return the data on a device, with real numbers in a precision."""

    def bytes_per_sample(self) -> int:
        """Return the size of one sample."""
        return sum(map(trees.bytes_of, self.few(0, 1)))


class TensorShards(ShardedData):
    """All samples in memory, those of one agent after the other.

    Args:
        inputs: all inputs, samples first.
        targets: all targets.
        shards: the sample indices of each agent.

    >>> data = TensorShards(torch.arange(4.0), torch.arange(4), [np.array([2, 3]), np.array([1])])
    >>> data.inputs, data.sizes
    (tensor([2., 3., 1.]), [2, 1])
    """

    def __init__(self, inputs: Tree, targets: Tree, shards: Shards) -> None:
        samples = _count(inputs)
        for name, tree in (("inputs", inputs), ("targets", targets)):
            for column in tree_leaves(tree) or [tree]:
                if not isinstance(column, torch.Tensor) or column.dim() == 0 or len(column) != samples:
                    raise InputError(f"{name} is {described(column)}; expected a tensor with one row per sample.")
        order = in_order(shards, samples)
        self.inputs, self.targets = (tree_map(lambda a: a[order].contiguous(), tree) for tree in (inputs, targets))
        self._set_sizes([len(shard) for shard in shards])

    def _set_sizes(self, sizes: list[int]) -> None:
        self.agents, self.sizes = len(sizes), sizes
        self.offsets = torch.tensor([0, *np.cumsum(sizes)])
        self.even = len(set(sizes)) == 1

    @property
    def device(self) -> torch.device:
        """Where the samples are."""
        device: torch.device = tree_leaves(self.inputs)[0].device
        return device

    def shard(self, agent: int) -> Batch:
        """Return the inputs and targets of an agent."""
        part = slice(int(self.offsets[agent]), int(self.offsets[agent + 1]))
        return self._rows(part)

    def _rows(self, rows: torch.Tensor | slice) -> Batch:
        return trees.take(self.inputs, rows), trees.take(self.targets, rows)

    def few(self, agent: int, count: int) -> Batch:
        """Return the first samples of an agent, with repetitions if it has fewer."""
        rows = int(self.offsets[agent]) + torch.arange(count) % self.sizes[agent]
        return self._rows(rows.to(self.device))

    def batches(self, draw: Draw) -> Batches:
        """Return minibatches or whole shards."""
        plain = isinstance(self.inputs, torch.Tensor) and isinstance(self.targets, torch.Tensor)
        minibatches = draw.minibatches(self.sizes)
        if minibatches is None:
            return self._whole_shards(draw)
        chosen = _ChosenRows(self, minibatches)
        if plain:
            return Batches(chosen.of_tensors, True)  # agents first serves both
        return Batches(chosen.of_trees if draw.stacked else chosen.one_by_one, draw.stacked)

    def _whole_shards(self, draw: Draw) -> Batches:
        shards = [self.shard(agent) for agent in draw.agents]
        inputs, targets = [a for a, _ in shards], [b for _, b in shards]
        if not (draw.stacked and self.even):
            return Batches(lambda k: (inputs, targets), False)
        stacked = _stack(inputs), _stack(targets)
        return Batches(lambda k: stacked, True)

    def subset(self, agents: Sequence[int]) -> TensorShards:
        """Return the data of some of the agents."""
        new, shards = copy.copy(self), [self.shard(agent) for agent in agents]
        new.inputs, new.targets = (_cat([shard[part] for shard in shards]) for part in (0, 1))
        new._set_sizes([self.sizes[agent] for agent in agents])
        return new

    def to(self, device: torch.device, dtype: torch.dtype) -> TensorShards:
        """Return the data on a device, with real numbers in a precision."""
        new = copy.copy(self)
        new.inputs, new.targets = trees.move(self.inputs, device, dtype), trees.move(self.targets, device, dtype)
        return new

    def parts(self, evaluated: int) -> list[tuple[float, Batch]]:
        """Return weighted chunks: of equal size for even shards, else the shards."""
        each = evaluated // self.agents or None
        if not self.even:
            shards = [self.shard(i) for i in range(self.agents)]
            return [(1 / self.agents, (trees.take(a, slice(each)), trees.take(b, slice(each)))) for a, b in shards]
        inputs, targets = self._first_of_each(each)
        total, step = _count(inputs), EVALUATED_AT_ONCE
        cuts = [slice(a, min(a + step, total)) for a in range(0, total, step)]
        return [((c.stop - c.start) / total, (trees.take(inputs, c), trees.take(targets, c))) for c in cuts]

    def _first_of_each(self, each: int | None) -> Batch:
        """Return the first samples of every shard; all shards have the same size."""
        if each is None or each >= self.sizes[0]:
            return self.inputs, self.targets
        return self._rows((self.offsets[:-1, None] + torch.arange(each)).flatten().to(self.device))


class _ChosenRows:
    """Minibatches as rows of the tensors."""

    def __init__(self, data: TensorShards, minibatches: Minibatches) -> None:
        self.data, self.minibatches, self.device = data, minibatches, data.device
        agents = minibatches.agents
        self._first = data.offsets[agents.start : agents.stop, None]

    def of_tensors(self, k: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Return one tensor each."""
        rows = self._chosen(k)
        return self._rows(self.data.inputs, rows), self._rows(self.data.targets, rows)

    def of_trees(self, k: int) -> tuple[Tree, Tree]:
        """Return one tree each, agents first."""
        rows = self._chosen(k)
        inputs, targets = (
            tree_map(lambda a: self._rows(a, rows), tree) for tree in (self.data.inputs, self.data.targets)
        )
        return inputs, targets

    def one_by_one(self, k: int) -> tuple[list[Tree], list[Tree]]:
        """Return a tree for each agent."""
        pairs = [self.data._rows(rows) for rows in self._chosen(k).view(-1, self.minibatches.batch_size)]
        return [a for a, _ in pairs], [b for _, b in pairs]

    def _chosen(self, k: int) -> torch.Tensor:
        return (self.minibatches.batches(k) + self._first).flatten().to(self.device)

    def _rows(self, data: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        """Return the selected samples, agents first."""
        return data.index_select(0, rows).view(-1, self.minibatches.batch_size, *data.shape[1:])


def in_order(shards: Shards, samples: int) -> torch.Tensor:
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


def _count(tree: Tree) -> int:
    """Return the number of rows of a tree."""
    leaves = tree_leaves(tree)
    return len(leaves[0]) if leaves and isinstance(leaves[0], torch.Tensor) and leaves[0].dim() else -1


def _stack(shards: list[Tree]) -> Tree:
    return tree_map(lambda *leaves: torch.stack(leaves), *shards)


def _cat(shards: list[Tree]) -> Tree:
    return tree_map(lambda *leaves: torch.cat(leaves), *shards)
