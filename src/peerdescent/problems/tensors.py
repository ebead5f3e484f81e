"""Data as users have them, as two tensors with one row per sample."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from peerdescent._util.validation import described
from peerdescent.errors import InputError

Data = tuple[torch.Tensor, torch.Tensor] | Dataset[Any]
EXPECTED = "expected (inputs, targets) or a Dataset of such pairs, of equal length and not empty"


def as_tensors(data: Data, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs and targets as two tensors with one row per sample.

    Args:
        data: (inputs, targets), or a Dataset of such pairs.
        name: the argument, for messages.

    >>> inputs, targets = as_tensors(([[1.0], [2.0]], [0, 1]), "data")
    >>> inputs.shape, targets.dtype
    (torch.Size([2, 1]), torch.int64)
    """
    if isinstance(data, DataLoader):
        raise InputError(f"{name} is a DataLoader: {EXPECTED}; give its dataset, since agents draw their own batches.")
    if isinstance(data, IterableDataset):
        raise InputError(f"{name} is an IterableDataset: {EXPECTED}; samples must be reachable by number.")
    if isinstance(data, Dataset):
        columns = _columns_of(data, name)
    elif isinstance(data, Sequence) and any(isinstance(part, Dataset) for part in data):
        raise InputError(f"{name} is a list of datasets: {EXPECTED}; join them with torch.utils.data.ConcatDataset.")
    else:
        columns = _as_columns(data, name)
    if len(columns) != 2 or any(column.dim() == 0 for column in columns):
        raise InputError(f"{name}: {EXPECTED}.")
    if len(columns[0]) != len(columns[1]) or not len(columns[0]):
        raise InputError(f"{name} has {len(columns[0])} inputs and {len(columns[1])} targets: {EXPECTED}.")
    return columns[0], columns[1]


def _as_columns(data: Any, name: str) -> list[torch.Tensor]:
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise InputError(f"{name} is {described(data)}: {EXPECTED}.")
    try:
        columns = list(data)
    except TypeError:  # a tensor or array of a single number
        raise InputError(f"{name} is {described(data)}: {EXPECTED}.") from None
    return [_tensor(column, f"{name}[{c}]") for c, column in enumerate(columns)]


def _columns_of(dataset: Dataset[Any], name: str) -> list[torch.Tensor]:
    try:
        pairs = [dataset[i] for i in range(len(dataset))]  # type: ignore[arg-type]
    except Exception as error:  # a Dataset is the user's code
        message = f"{type(error).__name__}: {error}".splitlines()[0][:200].rstrip(".")
        raise InputError(f"{name}: the Dataset {type(dataset).__name__} cannot be read: {message}.") from error
    columns = []
    for c, part in enumerate(("inputs", "targets") if pairs else ()):
        try:
            columns.append([pair[c] for pair in pairs])
        except (TypeError, IndexError, KeyError):
            raise InputError(f"{name}: a sample of {type(dataset).__name__} has no {part}: {EXPECTED}.") from None
    return [_stacked(column, f"{name}[{c}]") for c, column in enumerate(columns)]


def _stacked(samples: list[Any], name: str) -> torch.Tensor:
    """Return samples as the rows of one tensor."""
    tensors = [_tensor(sample, name) for sample in samples]
    for i, tensor in enumerate(tensors):
        if tensor.shape != tensors[0].shape:
            raise InputError(
                f"{name}: sample {i} has shape {tuple(tensor.shape)} and sample 0 {tuple(tensors[0].shape)}; "
                "samples must have equal shapes, so pad or crop them."
            )
    return torch.stack(tensors)


def _tensor(value: Any, name: str) -> torch.Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} is {described(value)}, which cannot become a tensor ({str(error).splitlines()[0]}): {EXPECTED}."
        ) from None
