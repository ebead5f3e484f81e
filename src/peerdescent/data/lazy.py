"""Map-style data sets, read sample by sample when a batch is drawn: augmentation is live, memory holds batches only."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.data import default_collate

from peerdescent.data import trees
from peerdescent.data.reading import EVALUATION_SEED, as_batch, as_pair, readable, reading_seed, seeded_reading
from peerdescent.data.shards import EVALUATED_AT_ONCE, Batches, Draw, ShardedData
from peerdescent.data.trees import Batch, Tree
from peerdescent.errors import InputError

KEPT_BYTES = 64 * 2**20
"""How much of what evaluations read is kept for the next one; they read the same every time."""
ALIGNMENT = 64
"""Torch's own tensors start at multiples of so many bytes."""
Place = tuple[torch.device, torch.dtype]
Rows = NDArray[np.int64]


class Source:
    """A data set of (inputs, targets), and how samples become a batch.

    Args:
        dataset: any object with `len` and `[i]`.
        name: the argument it was given as, for messages.
        collate: makes a batch from a list of samples; None stacks them.
        batch_size: the batch size that comes with it.
        drop_last: leave out the last, smaller batch of an evaluation.
    """

    def __init__(
        self,
        dataset: Any,
        name: str,
        collate: Callable[[list[Any]], Any] | None = None,
        batch_size: int | None = None,
        drop_last: bool = False,
    ) -> None:
        self.dataset, self.name, self.collate = dataset, name, collate
        self.batch_size, self.drop_last = batch_size, drop_last
        self.what = f"{name}: the Dataset {type(dataset).__name__}"
        with readable(self.what):
            self.length = len(dataset)
        if self.length < 1:
            raise InputError(f"{name} is a Dataset without samples: {trees.EXPECTED}.")

    def __len__(self) -> int:
        return self.length

    @property
    def regular(self) -> bool:
        """Whether all batches of one size have equal shapes."""
        return self.collate is None or self.collate is default_collate

    @property
    def evaluated_at_once(self) -> int:
        """Samples per chunk of an evaluation; a collate_fn gets as many as it expects."""
        return EVALUATED_AT_ONCE if self.regular or self.batch_size is None else self.batch_size

    def sample(self, i: int) -> Any:
        """Return one sample as the data set gives it."""
        with readable(self.what):
            return self.dataset[i]

    def read(self, rows: Sequence[int]) -> Batch:
        """Return some samples as a batch."""
        return self.batch([self.sample(i) for i in rows], rows)

    def batch(self, samples: list[Any], numbers: Sequence[int]) -> Batch:
        """Return samples as a batch.

        Args:
            samples: as the data set gives them.
            numbers: what messages call them.
        """
        if self.collate is not None:
            with readable(f"{self.name}: a batch of the collate_fn {_called(self.collate)}"):
                batch = self.collate(samples)
            return as_batch(batch, f"{self.name}: a batch of the collate_fn {_called(self.collate)}", self.name)
        what = f"{self.name}: a sample of {type(self.dataset).__name__}"
        pairs = [as_pair(sample, what) for sample in samples]
        inputs, targets = (self._stacked([pair[part] for pair in pairs], part, numbers) for part in (0, 1))
        return inputs, targets

    def _stacked(self, values: list[Any], part: int, numbers: Sequence[int]) -> Tree:
        name = f"{self.name}[{part}]"

        def mismatch(i: int, one: str, other: str) -> InputError:
            return InputError(
                f"{name}: sample {numbers[i]} has {one} and sample {numbers[0]} {other}; samples must have equal "
                "shapes, so pad or crop them, or give a DataLoader with a collate_fn that makes batches."
            )

        return trees.stack([trees.as_tree(value, name) for value in values], mismatch)


class Chunks:
    """What an evaluation reads, always with the same draws.

    Args:
        read: for each chunk, the source and the numbers of its samples.
        what: the data, for messages.
    """

    def __init__(self, read: Sequence[tuple[Source, Rows]], what: str = "the data") -> None:
        self.read, self.what = read, what
        self.place: Place | None = None
        self._kept: dict[int, Batch] = {}
        self._free = KEPT_BYTES

    def __iter__(self) -> Iterator[Batch]:
        for i, (source, rows) in enumerate(self.read):
            batch = self._kept.get(i)
            if batch is None:
                with seeded_reading() as seed:
                    seed(reading_seed(EVALUATION_SEED, 0, i, "evaluated data"))
                    batch = placed(source.read(rows.tolist()), self.place, self.what)
                self._keep(i, batch)
            yield batch

    def _keep(self, i: int, batch: Batch) -> None:
        size = sum(map(trees.bytes_of, batch))
        if size <= self._free:
            self._kept[i], self._free = batch, self._free - size

    def to(self, device: torch.device, dtype: torch.dtype) -> Chunks:
        """Return the same chunks on a device, with real numbers in a precision."""
        new = type(self)(self.read, self.what)
        new.place = device, dtype
        return new

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}, "_free": KEPT_BYTES}  # other processes read it themselves


class LazyShards(ShardedData):
    """Samples of data sets that are read when they are needed.

    Draws in `__getitem__` and `collate_fn` with torch, Python's `random` or `numpy.random` depend on
    (seed, agent, iteration) alone.

    Args:
        sources: the data set of each agent, which may be the same.
        shards: the sample indices of each agent.
    """

    def __init__(self, sources: Sequence[Source], shards: Sequence[Rows]) -> None:
        self.sources, self.shards = list(sources), list(shards)
        self.agents, self.sizes = len(shards), [len(shard) for shard in shards]
        self.batch_size = sources[0].batch_size
        self.regular = all(source.regular for source in sources)
        self.place: Place | None = None
        self._chunks: dict[int, tuple[list[float], Chunks]] = {}

    def rows(self, agent: int, local: Sequence[int] | None = None) -> list[int]:
        """Return the numbers of an agent's samples in its data set; all of them by default."""
        shard = self.shards[agent]
        numbers: list[int] = (shard if local is None else shard[local]).tolist()
        return numbers

    def few(self, agent: int, count: int) -> Batch:
        """Return the first samples of an agent, with repetitions if it has fewer."""
        with seeded_reading() as seed:
            seed(EVALUATION_SEED)
            rows = self.rows(agent, [i % self.sizes[agent] for i in range(count)])
            return placed(self.sources[agent].read(rows), self.place, f"the data of agent {agent}")

    def batches(self, draw: Draw) -> Batches:
        """Return batches that are read in the iteration that needs them."""
        minibatches, data = draw.minibatches(self.sizes), self

        def read(k: int) -> tuple[Any, Any]:
            chosen = None if minibatches is None else minibatches.batches(k).numpy()
            pairs = []
            with seeded_reading() as seed:
                for place, agent in enumerate(draw.agents):
                    number = draw.numbers[agent]
                    seed(reading_seed(draw.seed, number, k))
                    rows = data.rows(agent, None if chosen is None else chosen[place])
                    pairs.append(placed(data.sources[agent].read(rows), data.place, f"the data of agent {number}"))
            return of_agents(pairs, stacked)

        stacked = draw.stacked and (minibatches is not None or len(set(self.sizes)) == 1)
        return Batches(lru_cache(maxsize=1)(read), stacked)  # a step may want the same batch again

    def parts(self, evaluated: int) -> Iterator[tuple[float, Batch]]:
        """Read weighted chunks; across shards that are even and of one data set, otherwise shard by shard."""
        if evaluated not in self._chunks:
            weights, read = self._cut(evaluated // self.agents or None)
            chunks = Chunks(read)
            chunks.place = self.place
            self._chunks = {evaluated: (weights, chunks)}
        weights, chunks = self._chunks[evaluated]
        return zip(weights, chunks, strict=True)

    def _cut(self, each: int | None) -> tuple[list[float], list[tuple[Source, Rows]]]:
        shards = [shard[:each] for shard in self.shards]
        sources = self.sources
        if len(set(map(len, shards))) == 1 and all(source is sources[0] for source in sources):
            shards, sources = [np.concatenate(shards)], sources[:1]
        weights, read = [], []
        for source, shard in zip(sources, shards, strict=True):
            for rows in cut(shard, source.evaluated_at_once):
                weights.append(len(rows) / len(shard) / len(shards))
                read.append((source, rows))
        return weights, read

    def subset(self, agents: Sequence[int]) -> LazyShards:
        """Return the data of some of the agents."""
        new = LazyShards([self.sources[agent] for agent in agents], [self.shards[agent] for agent in agents])
        new.place = self.place
        return new

    def to(self, device: torch.device, dtype: torch.dtype) -> LazyShards:
        """Return the data on a device, with real numbers in a precision."""
        new = copy.copy(self)
        new.place, new._chunks = (device, dtype), {}
        return new


def test_chunks(source: Source) -> Chunks:
    """Return what an evaluation on test data reads; the batch size of a DataLoader is kept."""
    cuts = cut(np.arange(len(source)), source.batch_size or EVALUATED_AT_ONCE)
    if source.drop_last and len(cuts[-1]) < len(cuts[0]):
        cuts = cuts[:-1]
    return Chunks([(source, rows) for rows in cuts], "the test data")


def cut(rows: Rows, step: int) -> list[Rows]:
    """Return rows in pieces of `step`.

    >>> [part.tolist() for part in cut(np.arange(5), 2)]
    [[0, 1], [2, 3], [4]]
    """
    return [rows[begin : begin + step] for begin in range(0, len(rows), step)]


def placed(batch: Batch, place: Place | None, what: str) -> Batch:
    """Return a batch on its device; refuse NaN and infinite numbers, which would look like divergence."""
    if place is None:
        return batch
    for leaf in tree_leaves(batch):
        if (found := trees.first_not_finite(leaf, place[1])) is not None:
            raise InputError(f"{what} contain {found[1]}: replace or remove them.")
    moved: Batch = tree_map(_aligned, (trees.move(batch[0], *place), trees.move(batch[1], *place)))
    return moved


def _aligned(a: torch.Tensor) -> torch.Tensor:
    """Return a tensor in memory as torch allocates it: rounding depends on that, and arrays are anywhere."""
    return a.clone() if a.device.type == "cpu" and a.data_ptr() % ALIGNMENT else a


def of_agents(pairs: Sequence[Batch], stacked: bool) -> tuple[Any, Any]:
    """Return the inputs and the targets of all agents, as one tree each, or so that `[i]` is those of agent i."""
    columns = [a for a, _ in pairs], [b for _, b in pairs]
    if stacked:
        return trees.stack(columns[0], _differing), trees.stack(columns[1], _differing)
    if all(isinstance(a, torch.Tensor) and a.shape == column[0].shape for column in columns for a in column):
        return torch.stack(columns[0]), torch.stack(columns[1])  # in memory as data that are loaded: the same rounding
    return columns


def _differing(i: int, one: str, other: str) -> InputError:
    return InputError(
        f"gradients = 'stacked': the batches of two agents differ ({one} and {other}); use gradients=loop or auto."
    )


def _called(function: Any) -> str:
    return getattr(function, "__name__", type(function).__name__)
