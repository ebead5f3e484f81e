"""What is taken from a DataLoader: its data set, batch size and collate_fn; agents draw their own minibatches."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler, SequentialSampler

from peerdescent.errors import InputError


@dataclass(frozen=True)
class Loaded:
    """The parts of a DataLoader that are used."""

    dataset: Any
    collate: Callable[[list[Any]], Any] | None = None
    batch_size: int | None = None
    drop_last: bool = False


def unpacked(loader: DataLoader[Any], name: str, test: bool = False) -> Loaded:
    """Return what is used of a DataLoader; refuse samplers that choose the data, and warn of options without effect.

    Batches are drawn by (seed, agent, iteration) instead of `shuffle`, in the process of the run, and always full.

    Args:
        loader: the DataLoader.
        name: the argument, for messages.
        test: whether it holds test data, whose order is of no importance.
    """
    if loader.batch_size is None or type(loader.batch_sampler) is not BatchSampler:
        raise InputError(
            f"{name} is a DataLoader with batches of its own (a batch_sampler, or batch_size=None), but agents draw "
            "their own minibatches: give batch_size, or the dataset."
        )
    sampler = loader.sampler
    if not isinstance(loader.dataset, IterableDataset) and not _takes_all(sampler, loader.dataset):
        raise InputError(
            f"{name} is a DataLoader with a {type(sampler).__name__}, but agents draw their own minibatches from all "
            "samples: give torch.utils.data.Subset for some of them, or shards."
        )
    if unused := _unused(loader, test):
        warnings.warn(
            f"{name} is a DataLoader, of which the dataset, batch_size and collate_fn are used; without effect: "
            f"{', '.join(unused)}.",
            stacklevel=5,
        )
    return Loaded(loader.dataset, loader.collate_fn, loader.batch_size, loader.drop_last)


def _takes_all(sampler: Any, dataset: Any) -> bool:
    """Whether a sampler is one that `shuffle` makes."""
    if type(sampler) is RandomSampler:
        return not sampler.replacement and sampler.num_samples == len(dataset)
    return type(sampler) is SequentialSampler


def _unused(loader: DataLoader[Any], test: bool) -> list[str]:
    """Return the options that were given and have no effect."""
    options = {
        "shuffle=False": not test and type(loader.sampler) is SequentialSampler,
        f"num_workers={loader.num_workers}": loader.num_workers > 0,
        "pin_memory": bool(loader.pin_memory),
        "worker_init_fn": loader.worker_init_fn is not None,
        "generator": loader.generator is not None,
    }
    return [option for option, given in options.items() if given]
