"""Data that are in memory: inputs and targets with one row per sample."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import Dataset, Subset, TensorDataset

from peerdescent._util.validation import described
from peerdescent.data import trees
from peerdescent.data.trees import EXPECTED, Batch, Tree, as_tensor, as_tree
from peerdescent.errors import InputError

PARTS = (torch.Tensor, np.ndarray, Mapping, tuple)
"""What several inputs or targets consist of."""


def as_tensors(data: Any, name: str) -> Batch:
    """Return inputs and targets with one row per sample: a tensor each, or tuples and dicts of tensors.

    Args:
        data: (inputs, targets). A tuple or dict of tensors or arrays is several inputs or targets, a list is rows.
        name: the argument, for messages.

    >>> inputs, targets = as_tensors(([[1.0], [2.0]], [0, 1]), "data")
    >>> inputs.shape, targets.dtype
    (torch.Size([2, 1]), torch.int64)
    """
    columns = _columns(data, name)
    if len(columns) != 2 or any(leaf.dim() == 0 for column in columns for leaf in tree_leaves(column)):
        raise InputError(f"{name}: {EXPECTED}.")
    counts = [[len(leaf) for leaf in tree_leaves(column)] for column in columns]
    for part, lengths in zip(("inputs", "targets"), counts, strict=True):
        if len(set(lengths)) != 1:
            raise InputError(f"{name} has {part} with {lengths} samples: {EXPECTED}.")
    if counts[0][0] != counts[1][0] or not counts[0][0]:
        raise InputError(f"{name} has {counts[0][0]} inputs and {counts[1][0]} targets: {EXPECTED}.")
    return columns[0], columns[1]


def is_pair(data: Any) -> bool:
    """Whether this is (inputs, targets) of one agent among several: a tuple of two, each of tensors or arrays."""
    return isinstance(data, tuple) and len(data) == 2 and all(isinstance(part, PARTS) for part in data)


def unwrapped(dataset: Any, name: str) -> Batch | None:
    """Return the tensors of a TensorDataset, or of Subsets of one; None for other data sets, which are read as needed.

    >>> data = Subset(TensorDataset(torch.arange(4.0), torch.arange(4)), [3, 1])
    >>> unwrapped(data, "data")
    (tensor([3., 1.]), tensor([3, 1]))
    """
    if type(dataset) is Subset:
        inner = unwrapped(dataset.dataset, name)
        rows = torch.as_tensor(list(dataset.indices), dtype=torch.int64)
        return None if inner is None else (trees.take(inner[0], rows), trees.take(inner[1], rows))
    if type(dataset) is not TensorDataset:
        return None
    if len(dataset.tensors) != 2:
        raise InputError(
            f"{name} is a TensorDataset of {len(dataset.tensors)} tensors: {EXPECTED}; several inputs of a module are "
            "one tuple or dict, as in ((a, b), targets)."
        )
    return as_tensors(dataset.tensors, name)


class TreeDataset(Dataset[Batch]):
    """Inputs and targets in memory as a data set of samples."""

    def __init__(self, inputs: Tree, targets: Tree) -> None:
        self.inputs, self.targets = inputs, targets

    def __len__(self) -> int:
        return len(tree_leaves(self.targets)[0])

    def __getitem__(self, i: int) -> Batch:
        rows = torch.tensor(i)
        return trees.take(self.inputs, rows), trees.take(self.targets, rows)


def _columns(data: Any, name: str) -> list[Tree]:
    if isinstance(data, str | bytes | dict) or not isinstance(data, Iterable):
        raise InputError(f"{name} is {described(data)}: {EXPECTED}.")
    try:
        columns = list(data)
    except TypeError:  # a tensor or array of a single number
        raise InputError(f"{name} is {described(data)}: {EXPECTED}.") from None
    return [_column(column, f"{name}[{c}]") for c, column in enumerate(columns)]


def _column(column: Any, name: str) -> Tree:
    several = isinstance(column, Mapping) or (
        isinstance(column, tuple) and bool(column) and all(isinstance(part, PARTS) for part in column)
    )
    return as_tree(column, name) if several else as_tensor(column, name)
