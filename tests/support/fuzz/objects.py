"""Models, data, costs and methods that are wrong in ways that happen, and the modules that calls name."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

import networkx as nx
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

import peerdescent
from peerdescent import algorithms, explain, graphs, load, problems, schedules, theory, train, transforms

__all__ = [
    "BadRepr",
    "DataLoader",
    "Endless",
    "FailingForward",
    "Fraction",
    "Listed",
    "NoReturn",
    "NoYield",
    "Ragged",
    "Strange",
    "Subset",
    "TensorDataset",
    "TwoInputs",
    "UnknownState",
    "WrongShape",
    "algorithms",
    "both",
    "classes",
    "cross_entropy",
    "explain",
    "failing_loss",
    "graphs",
    "load",
    "mse_loss",
    "net",
    "nn",
    "np",
    "numbers",
    "nx",
    "pathlib",
    "peerdescent",
    "problems",
    "schedules",
    "theory",
    "torch",
    "train",
    "transforms",
    "vector_loss",
]


def net(width: int = 3, out: int = 2) -> nn.Module:
    """A model for `classes` or, with one output, for `numbers`."""
    return nn.Sequential(nn.Linear(width, 4), nn.Tanh(), nn.Linear(4, out))


def both(count: int = 40, width: int = 3) -> torch.Tensor:
    """Inputs."""
    return torch.linspace(-1, 1, count * width).reshape(count, width)


def classes(count: int = 40, most: int = 2) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs with labels."""
    return both(count), torch.arange(count) % most


def numbers(count: int = 40) -> tuple[torch.Tensor, torch.Tensor]:
    """Inputs with numbers to predict."""
    return both(count), both(count)[:, :1].square()


def vector_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss of every sample."""
    return cross_entropy(outputs, targets, reduction="none")


def failing_loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """A loss with a bug."""
    raise ZeroDivisionError("a bug in the loss")


class FailingForward(nn.Module):
    """A model with a bug."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.no_such_layer(x)  # type: ignore[no-any-return,operator]


class TwoInputs(nn.Module):
    """A model that takes two tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(3))

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


class Ragged(Dataset[Any]):
    """Samples of different sizes."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.zeros(1 + index % 3), index % 2


class Listed(Dataset[Any]):
    """Samples that are no tensors."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return {"x": [1.0, 2.0], "y": "a"}


class Endless(IterableDataset[Any]):
    """A stream without a length."""

    def __iter__(self) -> Iterator[Any]:
        while True:
            yield torch.zeros(3), 0


@dataclass(frozen=True)
class NoReturn(algorithms.Algorithm):
    """A method whose author forgot the new state."""

    eta: Any = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def step(self, s: Any, net: Any, h: Any) -> Any:
        net.mix(s.x)
        yield s.x


@dataclass(frozen=True)
class NoYield(NoReturn):
    """A method that asks for no gradient."""

    def step(self, s: Any, net: Any, h: Any) -> Any:
        return {"x": s.x}


@dataclass(frozen=True)
class UnknownState(NoReturn):
    """A method that uses a state it has not got."""

    def step(self, s: Any, net: Any, h: Any) -> Any:
        g = yield s.x
        return {"x": s.y - h.eta * g}


@dataclass(frozen=True)
class WrongShape(NoReturn):
    """A method that returns a number."""

    def step(self, s: Any, net: Any, h: Any) -> Any:
        yield s.x
        return {"x": 1.0}


class Strange:
    """An object of no known kind."""


class BadRepr:
    """An object that cannot even be shown."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")
