"""Logistic regression with a nonconvex regulariser, a standard small nonconvex problem."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.memory import check_fits
from peerdescent._util.validation import check_choice, check_integer, check_number
from peerdescent.data import adult, bundled, stream
from peerdescent.data import partition as make_partition
from peerdescent.data.census import CATEGORIES
from peerdescent.data.groups import Groups
from peerdescent.data.shards import Shards
from peerdescent.errors import InputError
from peerdescent.problems.sampled import Sampled

SOURCES = ("generated", "breast-cancer", "digits", "adult")


class LogisticNonconvex(Sampled):
    r"""f_i(x) = mean over shard i of log(1 + exp(−b aᵀx)) + λ Σ_l x_l²/(1 + x_l²), with labels b = ±1."""

    name = "logistic-nonconvex"
    strategies = ("stacked", "loop")
    by_hand = True

    def __init__(
        self,
        inputs: torch.Tensor,
        labels: torch.Tensor,
        shards: Shards,
        regularisation: float = 0.01,
        test: tuple[torch.Tensor, torch.Tensor] | None = None,
    ) -> None:
        super().__init__(inputs, labels, shards, test)
        if inputs.dim() != 2:
            raise InputError(f"inputs has shape {tuple(inputs.shape)}; expected samples×features.")
        self.dimension, self.regularisation = inputs.shape[1], check_number("regularisation", regularisation, 0)

    def start(self, seed: int) -> torch.Tensor:
        """Return small random points, different for each agent."""
        numbers = [self.number(agent) for agent in range(self.agents)]
        rows = [0.1 * stream(seed, "start", number).standard_normal(self.dimension) for number in numbers]
        return torch.from_numpy(np.stack(rows)).to(self.device, self.dtype)

    def mean_loss(self, x: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Return the logistic loss plus the regulariser."""
        fit = torch.nn.functional.softplus(-targets * (inputs @ x)).mean()
        return fit + self.regularisation * (x * x / (1 + x * x)).sum()

    def stacked_gradient(
        self, points: torch.Tensor, inputs: torch.Tensor, targets: torch.Tensor, out: torch.Tensor
    ) -> None:
        """−mean b·Sig(−b aᵀx)·a + 2λ x/(1+x²)²."""
        margin = targets * torch.bmm(inputs, points[:, :, None])[:, :, 0]
        weight = -targets * torch.sigmoid(-margin) / targets.shape[1]
        torch.bmm(weight[:, None, :], inputs, out=out[:, None, :])
        out.addcdiv_(points, (1 + points * points).square(), value=2 * self.regularisation)

    def accuracy(self, x: torch.Tensor) -> float | None:
        """Return the fraction of test samples that are classified correctly."""
        if not isinstance(self.test, tuple):
            return None
        inputs, labels = self.test
        return float((labels * (inputs @ x) > 0).to(torch.float64).mean())


def logistic_nonconvex(
    agents: int = 10,
    partition: str = "iid",
    source: str = "generated",
    samples: int = 2000,
    dimension: int = 20,
    regularisation: float = 0.01,
    sizes: str = "even",
    seed: int = 0,
) -> LogisticNonconvex:
    """Nonconvex logistic regression on generated data, data of scikit-learn, or Adult.

    Args:
        agents: n; each has a part of the training samples.
        partition: "iid", "label", "dirichlet:A", or for adult "by:COLUMN", such as "by:occupation".
        source: "generated", "breast-cancer", "digits" (odd or even), or "adult", which is fetched: 30,162 people
            with 104 features. A fifth of the samples is test data; Adult has its own, 15,060 people.
        samples: how many are generated.
        dimension: features of generated data, without the constant one that all data have.
        regularisation: λ.
        sizes: "even" or "uneven".
        seed: determines generated data, which samples are test data, and the partition.

    >>> logistic_nonconvex(agents=5, samples=100).sizes
    [16, 16, 16, 16, 16]
    """
    check_integer("samples", samples, 1)
    check_integer("dimension", dimension, 1)
    check_choice("source", source, SOURCES)
    check_fits(f"a problem of {samples:,} samples and dimension {dimension:,}", 8 * samples * dimension)
    data = _census() if source == "adult" else _drawn(*_data(source, samples, dimension, seed), seed)
    inputs, labels = torch.from_numpy(data.features), torch.from_numpy(2.0 * data.classes - 1)
    train, held = data.train, data.test
    shards = make_partition(data.classes[train], agents, partition, seed, sizes, data.groups)
    problem = LogisticNonconvex(inputs[train], labels[train], shards, regularisation, (inputs[held], labels[held]))
    new = problem.to(torch.device("cpu"), torch.float32)
    assert isinstance(new, LogisticNonconvex)
    return new


@dataclass(frozen=True, eq=False)
class _Samples:
    """Features with a constant column for the bias, classes 0 or 1, and which rows are for training and for testing."""

    features: NDArray[np.float64]
    classes: NDArray[np.int64]
    train: NDArray[np.int64]
    test: NDArray[np.int64]
    groups: Groups = field(default_factory=dict)


def _drawn(features: NDArray[np.float64], classes: NDArray[np.int64], seed: int) -> _Samples:
    order = stream(seed, "split").permutation(len(features))
    cut = len(order) - len(order) // 5
    return _Samples(features, classes, order[:cut], order[cut:])


def _census() -> _Samples:
    census = adult()
    train, test, _ = census.features()
    features = np.concatenate([train, test])
    rows, classes = np.arange(len(features)), np.concatenate([census.train_labels, census.test_labels])
    groups = {key: census.train[key] for key in CATEGORIES}
    return _Samples(_with_constant(features), classes, rows[: len(train)], rows[len(train) :], groups)


def _with_constant(features: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.column_stack([np.ones(len(features)), features])


def _data(source: str, samples: int, dimension: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return features with a constant column for the bias, and classes 0 or 1."""
    if source == "generated":
        random = stream(seed, "logistic")
        features = random.standard_normal((samples, dimension))
        noise = 0.5 * random.standard_normal(samples)
        classes = (features @ random.standard_normal(dimension) / dimension**0.5 + noise > 0).astype(np.int64)
    else:
        features, targets = bundled(source)
        classes = targets.astype(np.int64) % 2  # digits are odd or even
        features = (features - features.mean(0)) / (features.std(0) + 1e-9)
    return _with_constant(features), classes
