"""Data in all forms that users have them, as the samples of n agents, and as test data."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map
from torch.utils.data import DataLoader, Dataset, IterableDataset, default_collate

from peerdescent._util.validation import check_integer, described
from peerdescent.data import partition as make_partition
from peerdescent.data.labels import labels_of
from peerdescent.data.lazy import Chunks, LazyShards, Source, test_chunks
from peerdescent.data.loaders import Loaded, unpacked
from peerdescent.data.repeatable import check_repeatable
from peerdescent.data.shards import ShardedData, TensorShards, in_order
from peerdescent.data.streams import FiniteStream, StreamShards, StreamSource
from peerdescent.data.trees import Batch, Tree
from peerdescent.errors import InputError
from peerdescent.problems.tensors import TreeDataset, as_tensors, is_pair, unwrapped

Data = Any
"""(inputs, targets), a Dataset, an IterableDataset, a DataLoader, or a list with one of these for each agent."""
TestData = Batch | list[Chunks | FiniteStream]
AGENTS = 10
"""The number of agents unless data or shards decide it."""
MANY = 10_000
"""Samples that are read in every evaluation without a word."""
STREAM_EVALUATED = 1000
"""Samples of streams on which f is evaluated, unless given."""


@dataclass(frozen=True)
class InMemory:
    """Inputs and targets with one row per sample, and the batch size that came with them."""

    inputs: Tree
    targets: Tree
    batch_size: int | None = None

    def __len__(self) -> int:
        return len(tree_leaves(self.targets)[0])


Given = InMemory | Source | StreamSource


def as_shards(
    data: Data,
    agents: int | None = None,
    partition: str | None = None,
    sizes: str | None = None,
    seed: int | None = None,
    shards: Sequence[Any] | None = None,
) -> ShardedData:
    """Return the samples of n agents.

    Args:
        data: one data set for all agents, or a list with one for each agent.
        agents: n; 10 unless data or shards decide it.
        partition: how one data set is shared; "iid" unless given.
        sizes: "even" or "uneven"; "even" unless given.
        seed: determines the partition; 0 unless given.
        shards: the sample indices of each agent, instead of a partition.

    >>> as_shards((torch.zeros(6, 2), torch.zeros(6)), shards=[range(4), [5, 4]]).sizes
    [4, 2]
    """
    options = {"partition": partition, "sizes": sizes, "seed": seed}
    asked = [name for name, value in options.items() if value is not None]
    if _is_list_of_data(data):
        _refuse("data has one data set for each agent", asked, shards)
        return _one_for_each(data, _agents(agents, len(data), "data sets"))
    given = _classified(data, "data")
    if isinstance(given, Source):
        check_repeatable(given)
    if isinstance(given, StreamSource):
        _refuse("data is a stream, which agents read in turn", asked, shards)
        return StreamShards([given], _agents(agents, AGENTS if agents is None else agents, ""))
    if shards is not None:
        _refuse("shards says which samples an agent has", asked)
        parts, count = _checked(shards, len(given)), _agents(agents, len(shards), "shards")
    else:
        kind, count = "iid" if partition is None else partition, AGENTS if agents is None else agents
        labels = _labels(given) if isinstance(kind, str) and kind != "iid" else len(given)
        chosen = 0 if seed is None else seed, "even" if sizes is None else sizes
        parts = make_partition(labels, count, kind, *chosen)
    if isinstance(given, Source):
        return LazyShards([given] * count, parts)
    return _in_memory(given, parts)


def as_test(test: Data) -> TestData:
    """Return test data: tensors, or what an evaluation reads."""
    parts = list(test) if _is_list_of_data(test) else [test]
    given = [_classified(part, "test", test=True) for part in parts]
    held = [part for part in given if isinstance(part, InMemory)]
    if len(held) == len(given):
        joined = _joined(held, "test") if len(held) > 1 else held[0]
        return joined.inputs, joined.targets
    return [_held_out(part) for part in given]


def check_evaluated(evaluated: int | None, data: ShardedData) -> int:
    """Return how many samples f is evaluated on, 0 for all; warn if that reads very many.

    Args:
        evaluated: as the user gave it.
        data: the samples of the agents.
    """
    if evaluated is not None:
        check_integer("evaluated", evaluated, 0)
        if 0 < evaluated < data.agents:
            raise InputError(f"evaluated = {evaluated}: expected at least one sample for each of {data.agents} agents.")
    if isinstance(data, StreamShards):
        if evaluated == 0:
            raise InputError("evaluated = 0: the data are streams, which have no last sample; give how many to use.")
        return max(STREAM_EVALUATED, data.agents) if evaluated is None else evaluated
    if evaluated is None and isinstance(data, LazyShards) and sum(data.sizes) > MANY:
        warnings.warn(
            f"every evaluation reads all {sum(data.sizes):,} samples, several times: evaluated=1000 uses a part of "
            "them, per_agent=False of `train` evaluates the average only, and evaluated=0 avoids this warning.",
            stacklevel=3,
        )
    return evaluated or 0


def _is_list_of_data(data: Any) -> bool:
    """Whether this is a list with the data of each agent."""
    if not isinstance(data, list | tuple) or not data:
        return False
    if all(isinstance(part, Dataset | DataLoader) for part in data):
        return True
    return isinstance(data, list) and all(_is_dataset(part) or is_pair(part) for part in data)


def _is_dataset(data: Any) -> bool:
    """Whether samples can be read from this one by one; arrays and tables are no data sets, but parts of a pair."""
    if isinstance(data, Dataset | DataLoader):
        return True
    if isinstance(data, torch.Tensor | Sequence | dict | type) or hasattr(data, "__array__"):
        return False
    return hasattr(data, "__getitem__") and hasattr(data, "__len__")


def _classified(data: Any, name: str, test: bool = False) -> Given:
    """Return what is in memory, or what is read as needed."""
    if not _is_dataset(data):
        return InMemory(*as_tensors(data, name))
    loaded = unpacked(data, name, test) if isinstance(data, DataLoader) else Loaded(data)
    if isinstance(loaded.dataset, IterableDataset):
        return StreamSource(loaded.dataset, name, loaded.collate, loaded.batch_size)
    if loaded.collate in (None, default_collate) and not (test and loaded.drop_last):
        tensors = unwrapped(loaded.dataset, name)
        if tensors is not None:
            return InMemory(*tensors, loaded.batch_size)
    return Source(loaded.dataset, name, loaded.collate, loaded.batch_size, loaded.drop_last)


def _one_for_each(data: Sequence[Any], agents: int) -> ShardedData:
    """Return the samples of agents that each have a data set."""
    given = [_classified(part, f"data[{i}]") for i, part in enumerate(data)]
    sizes = {part.batch_size for part in given}
    if len(sizes) > 1:
        raise InputError(
            f"data has batch sizes {', '.join(sorted(map(str, sizes)))} in its DataLoaders: all agents use the same."
        )
    streams = [part for part in given if isinstance(part, StreamSource)]
    if streams and len(streams) < agents:
        raise InputError("data has streams (IterableDatasets) and other data sets: give all agents the same kind.")
    for part in given:
        if isinstance(part, Source):
            check_repeatable(part)
    if streams:
        return StreamShards(streams, agents)
    held = [part for part in given if isinstance(part, InMemory)]
    rows = [np.arange(len(part)) for part in given if not isinstance(part, StreamSource)]
    if len(held) == agents:
        begin = np.cumsum([0, *map(len, rows)])
        return _in_memory(_joined(held, "data"), [own + first for own, first in zip(rows, begin[:-1], strict=True)])
    return LazyShards([_as_source(part, f"data[{i}]") for i, part in enumerate(given)], rows)


def _joined(held: list[InMemory], name: str) -> InMemory:
    """Return the tensors of all agents in one."""
    shapes = [[(leaf.shape[1:], leaf.dtype) for leaf in tree_leaves((part.inputs, part.targets))] for part in held]
    structures = [tree_flatten((part.inputs, part.targets))[1] for part in held]
    for i in range(1, len(held)):
        if shapes[i] != shapes[0] or structures[i] != structures[0]:
            raise InputError(
                f"{name}[{i}] and {name}[0] have samples of different shapes, types or structures: all agents train "
                "one model, so give them samples of one kind."
            )
    inputs, targets = (
        tree_map(lambda *leaves: torch.cat(leaves), *parts)
        for parts in ([part.inputs for part in held], [part.targets for part in held])
    )
    return InMemory(inputs, targets, held[0].batch_size)


def _in_memory(given: InMemory, shards: Sequence[Any]) -> TensorShards:
    data = TensorShards(given.inputs, given.targets, shards)
    data.batch_size = given.batch_size
    return data


def _held_out(given: Given) -> Chunks | FiniteStream:
    if not isinstance(given, StreamSource):
        source = _as_source(given, "test")
        check_repeatable(source)
        return test_chunks(source)
    try:
        length = len(given.dataset)
    except TypeError:
        raise InputError(
            f"test is the IterableDataset {type(given.dataset).__name__} without a length, which may have no end: "
            "define __len__, or give a Dataset or tensors."
        ) from None
    check_repeatable(given)
    return FiniteStream(given, check_integer("the length of test", length, 1))


def _as_source(given: InMemory | Source, name: str) -> Source:
    if isinstance(given, Source):
        return given
    return Source(TreeDataset(given.inputs, given.targets), name, batch_size=given.batch_size)


def _labels(given: InMemory | Source) -> NDArray[np.integer] | int:
    """Return the labels of all samples, or their number if there are none."""
    if isinstance(given, Source):
        return labels_of(given)
    targets = given.targets
    labelled = isinstance(targets, torch.Tensor) and not targets.is_floating_point() and targets.dim() == 1
    return np.asarray(targets) if labelled else len(given)


def _checked(shards: Any, samples: int) -> list[NDArray[np.int64]]:
    """Return given shards as arrays of sample indices."""
    if isinstance(shards, str | bytes | dict) or not isinstance(shards, Sequence):
        raise InputError(f"shards is {described(shards)}; expected one list of sample indices per agent.")
    parts = [shard.numpy() if isinstance(shard, torch.Tensor) else shard for shard in shards]
    in_order(parts, samples)
    return [np.asarray(part).astype(np.int64) for part in parts]


def _agents(agents: int | None, count: int, what: str) -> int:
    """Return the number of agents that the data decide."""
    if agents is not None and check_integer("agents", agents, 1) != count:
        raise InputError(f"agents = {agents}, but there are {count} {what}: give one for each agent.")
    return count


def _refuse(reason: str, asked: Sequence[str], shards: object = None) -> None:
    """Refuse arguments that would have no effect."""
    names = [*asked, *(["shards"] if shards is not None else [])]
    if names:
        raise InputError(f"{reason}, so {' and '.join(names)} would have no effect: leave it out.")
