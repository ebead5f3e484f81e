"""The labels of a data set, for partitions that need them."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from peerdescent.data.lazy import Source
from peerdescent.data.reading import EVALUATION_SEED, as_pair, seeded_reading
from peerdescent.errors import InputError

MANY = 10_000
"""Samples whose reading may take long enough to be announced."""
ATTRIBUTES = ("targets", "labels")


def labels_of(source: Source) -> NDArray[np.integer]:
    """Return the label of every sample: the data set's `targets` or `labels`, or else the targets of its samples."""
    known = known_labels(source.dataset)
    return _read(source) if known is None else known


def known_labels(dataset: Any) -> NDArray[np.integer] | None:
    """Return the labels that a data set has as an attribute, also through Subset and ConcatDataset; or None.

    >>> known_labels(Subset(TensorDataset(torch.zeros(3), torch.tensor([5, 6, 7])), [2, 0]))
    array([7, 5])
    """
    if type(dataset) is Subset:
        known = known_labels(dataset.dataset)
        return None if known is None else known[np.asarray(dataset.indices, dtype=np.int64)]
    if type(dataset) is ConcatDataset:
        parts = [known_labels(part) for part in dataset.datasets]
        found = [part for part in parts if part is not None]
        return np.concatenate(found) if len(found) == len(parts) else None
    values = [getattr(dataset, name, None) for name in ATTRIBUTES]
    if type(dataset) is TensorDataset:
        values = [dataset.tensors[-1]]
    for value in values:
        labels = _as_labels(value, len(dataset))
        if labels is not None:
            return labels
    return None


def _as_labels(value: Any, count: int) -> NDArray[np.integer] | None:
    """Return one whole number per sample, or None if the value is something else."""
    if value is None or callable(value):
        return None
    try:
        labels = np.asarray(value)
    except (TypeError, ValueError, RuntimeError):
        return None
    return labels if labels.shape == (count,) and np.issubdtype(labels.dtype, np.integer) else None


def _read(source: Source) -> NDArray[np.integer]:
    kind = type(source.dataset).__name__
    if len(source) > MANY:
        warnings.warn(
            f"{source.name}: the partition needs labels, and {kind} has no attribute {' or '.join(ATTRIBUTES)}: all "
            f"{len(source):,} samples are read once for them.",
            stacklevel=5,
        )
    labels = np.empty(len(source), dtype=np.int64)
    with seeded_reading() as seed:
        seed(EVALUATION_SEED)
        for i in range(len(source)):
            target = as_pair(source.sample(i), f"{source.name}: a sample of {kind}")[1]
            try:
                label = torch.as_tensor(target)
            except (TypeError, ValueError, RuntimeError):
                label = torch.tensor(0.5)
            if label.numel() != 1 or label.is_floating_point() or label.is_complex():
                raise InputError(
                    f"{source.name}: the partition needs labels, and the target of sample {i} of {kind} is not one "
                    f"whole number: use 'iid', or give {kind} an attribute {' or '.join(ATTRIBUTES)}."
                )
            labels[i] = int(label)
    return labels
