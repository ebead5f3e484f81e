"""Logistic regression with a nonconvex regulariser, a standard small nonconvex problem."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.memory import check_fits
from peerdescent._util.validation import check_choice, check_integer, check_number
from peerdescent.data import partition as make_partition
from peerdescent.data import stream
from peerdescent.data.shards import Shards
from peerdescent.errors import InputError
from peerdescent.problems.sampled import Sampled

SOURCES = ("generated", "breast-cancer", "digits")


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
    """Nonconvex logistic regression on generated or scikit-learn data; a fifth of it is test data.

    >>> logistic_nonconvex(agents=5, samples=100).sizes
    [16, 16, 16, 16, 16]
    """
    check_integer("samples", samples, 1)
    check_integer("dimension", dimension, 1)
    check_choice("source", source, SOURCES)
    check_fits(f"a problem of {samples:,} samples and dimension {dimension:,}", 8 * samples * dimension)
    features, classes = _data(source, samples, dimension, seed)
    order = stream(seed, "split").permutation(len(features))
    cut = len(order) - len(order) // 5
    train, held = order[:cut], order[cut:]
    inputs, labels = torch.from_numpy(features), torch.from_numpy(2.0 * classes - 1)
    shards = make_partition(classes[train], agents, partition, seed, sizes)
    test = (inputs[held], labels[held])
    problem = LogisticNonconvex(inputs[train], labels[train], shards, regularisation, test)
    new = problem.to(torch.device("cpu"), torch.float32)
    assert isinstance(new, LogisticNonconvex)
    return new


def _data(source: str, samples: int, dimension: int, seed: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Return features with a constant column for the bias, and classes 0 or 1."""
    if source == "generated":
        random = stream(seed, "logistic")
        features = random.standard_normal((samples, dimension))
        noise = 0.5 * random.standard_normal(samples)
        classes = (features @ random.standard_normal(dimension) / dimension**0.5 + noise > 0).astype(np.int64)
    else:
        from sklearn import datasets

        loaded = datasets.load_breast_cancer() if source == "breast-cancer" else datasets.load_digits()
        features, classes = loaded.data, loaded.target
        if source == "digits":
            classes = classes % 2  # odd or even
        features = (features - features.mean(0)) / (features.std(0) + 1e-9)
    return np.column_stack([np.ones(len(features)), features]), np.asarray(classes, dtype=np.int64)
