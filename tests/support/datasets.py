"""Data sets as users write them, for the tests of data that are read as needed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.utils.data import Dataset, IterableDataset

SAMPLES, FEATURES, CLASSES = 64, 4, 3


def tensors(samples: int = SAMPLES) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs and labels."""
    inputs = torch.randn(samples, FEATURES, generator=torch.Generator().manual_seed(0))
    return inputs, torch.arange(samples) % CLASSES


def net(outputs: int = CLASSES) -> nn.Sequential:
    """A small classifier, always the same."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(FEATURES, 8), nn.Tanh(), nn.Linear(8, outputs))


class Plain(Dataset[Any]):
    """The samples of `tensors`, one by one; counts how many were read."""

    def __init__(self, samples: int = SAMPLES) -> None:
        self.inputs, self.classes = tensors(samples)
        self.read: list[int] = []

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, i: int) -> Any:
        if not 0 <= i < len(self):
            raise IndexError(i)
        self.read.append(i)
        return self.inputs[i], int(self.classes[i])


class Augmented(Plain):
    """Adds noise drawn from torch, Python and NumPy, as augmentation libraries do."""

    def __getitem__(self, i: int) -> Any:
        inputs, label = super().__getitem__(i)
        scale = random.uniform(0.5, 1.5) + np.random.uniform(-0.2, 0.2)  # noqa: NPY002
        return inputs * scale + 0.1 * torch.randn(FEATURES), label


class Counting(IterableDataset[Any]):
    """A stream of samples whose inputs tell their position; `length` None has no end."""

    def __init__(self, length: int | None = None, offset: float = 0.0) -> None:
        self.length, self.offset = length, offset

    def __iter__(self) -> Iterator[Any]:
        i = 0
        while self.length is None or i < self.length:
            yield torch.full((FEATURES,), self.offset + i), i % CLASSES
            i += 1


class NoisyStream(IterableDataset[Any]):
    """A shuffled stream with noise: both come from the global generators."""

    def __iter__(self) -> Iterator[Any]:
        order = list(range(20))
        random.shuffle(order)
        for i in order:
            yield torch.full((FEATURES,), i / 20) + torch.randn(FEATURES), i % CLASSES


def padded(samples: list[Any]) -> Any:
    """A collate_fn for sequences of different lengths: zeros at the end, and a mask."""
    sequences = [inputs for inputs, _ in samples]
    longest = max(map(len, sequences))
    rows = torch.stack([nn.functional.pad(s, (0, longest - len(s))) for s in sequences])
    mask = torch.stack([(torch.arange(longest) < len(s)).float() for s in sequences])
    return {"rows": rows, "mask": mask}, torch.tensor([label for _, label in samples])


class Sequences(Dataset[Any]):
    """Samples of different lengths."""

    targets = [0, 1] * 10

    def __len__(self) -> int:
        return 20

    def __getitem__(self, i: int) -> Any:
        return torch.linspace(-1, 1, 1 + i % 5) + i % 2, i % 2


class MaskedMean(nn.Module):
    """A model with two named inputs of any length."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(1, 2)

    def forward(self, rows: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        means: torch.Tensor = (rows * mask).sum(1, keepdim=True) / mask.sum(1, keepdim=True)
        result: torch.Tensor = self.layer(means)
        return result
