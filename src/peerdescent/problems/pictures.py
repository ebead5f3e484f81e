"""A perceptron on pictures and tables, and a small residual network on CIFAR-10."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from peerdescent._util.validation import check_choice, check_integer
from peerdescent.data import adult, bundled, cifar10, fashion_mnist, mnist_full, stream
from peerdescent.data import partition as make_partition
from peerdescent.data.census import CATEGORIES
from peerdescent.data.groups import Groups
from peerdescent.problems.named import NamedProblem, shuffled
from peerdescent.problems.networks import ResNet, perceptron, resnet_parameters

Targets = NDArray[np.int64] | NDArray[np.float32]
SHAPES = {
    "digits": (1797, 64, 10),
    "fashion-mnist": (70_000, 784, 10),
    "mnist": (70_000, 784, 10),
    "adult": (45_222, 104, 2),
    "breast-cancer": (569, 30, 2),
    "wine": (178, 13, 3),
    "iris": (150, 4, 3),
    "diabetes": (442, 10, 1),
}
"""Samples, features and outputs of the data sets that a perceptron can learn."""
CIFAR10_MEAN, CIFAR10_DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of the three colours over all training pictures."""


@dataclass(frozen=True, eq=False)
class Task:
    """Features and targets for training and testing, and the groups of the training samples."""

    train: NDArray[np.float32]
    train_targets: Targets
    test: NDArray[np.float32]
    test_targets: Targets
    groups: Groups = field(default_factory=dict)


def mlp(
    agents: int = 10,
    partition: str = "iid",
    source: str = "digits",
    hidden: int = 64,
    start: str = "shared",
    sizes: str = "even",
    evaluated: int = 10_000,
    seed: int = 0,
) -> NamedProblem:
    """Return a perceptron with one hidden layer of ReLUs: cross-entropy for classes, squared error for diabetes.

    Args:
        agents: n; each has a part of the training samples.
        partition: "iid", "label", "dirichlet:A", or for adult "by:COLUMN", such as "by:occupation".
        source: "digits", "breast-cancer", "wine", "iris" and "diabetes" ship with scikit-learn; "fashion-mnist",
            "mnist" and "adult" are fetched.
        hidden: units of the hidden layer.
        start: "shared" or "independent".
        sizes: "even" or "uneven".
        evaluated: training samples for evaluating loss and gradient norm; 0 for all.
        seed: determines the partition and, for what ships with scikit-learn, which fifth is test data.

    >>> problem = mlp(agents=4, source="iris", hidden=5)
    >>> problem.sizes, problem.dimension
    ([30, 30, 30, 30], 43)
    """
    check_choice("source", source, SHAPES)
    check_integer("hidden", hidden, 1, 100_001)
    task = _task(source, seed)
    classes = task.train_targets.dtype == np.int64
    labels = task.train_targets if classes else len(task.train)
    shards = shuffled(make_partition(labels, agents, partition, seed, sizes, task.groups), seed)
    train, test = (_tensors(task.train, task.train_targets), _tensors(task.test, task.test_targets))
    loss = functional.cross_entropy if classes else functional.mse_loss
    build = partial(perceptron, [task.train[0].size, *layer_sizes(source, hidden)[1:]])
    return NamedProblem("mlp", build, loss, train, shards, test, start, evaluated)


def layer_sizes(source: str, hidden: int) -> list[int]:
    """Return the sizes of the layers for a data set.

    >>> layer_sizes("wine", 8)
    [13, 8, 3]
    """
    _, features, outputs = SHAPES[check_choice("source", source, SHAPES)]
    return [features, hidden, outputs]


def cifar10_resnet(
    agents: int = 10,
    partition: str = "iid",
    blocks: int = 1,
    width: int = 16,
    samples: int = 50_000,
    tested: int = 10_000,
    start: str = "shared",
    sizes: str = "even",
    evaluated: int = 2000,
    seed: int = 0,
) -> NamedProblem:
    """Return a residual network with group normalisation on CIFAR-10.

    Args:
        agents: n; each has a part of the training pictures.
        partition: "iid", "label" or "dirichlet:A".
        blocks: residual blocks in each of three stages; 1 gives 8 layers, 3 gives the usual ResNet-20.
        width: channels of the first stage, a multiple of 8.
        samples: training pictures that are used, the first of all 50,000.
        tested: test pictures that are used, the first of all 10,000.
        start: "shared" or "independent".
        sizes: "even" or "uneven".
        evaluated: training pictures for evaluating loss and gradient norm; 0 for all.
        seed: determines the partition.
    """
    check_integer("samples", samples, 1, 50_001)
    check_integer("tested", tested, 1, 10_001)
    resnet_parameters(blocks, width)  # wrong options are refused before the data are read
    data = cifar10()
    labels = data.train_labels[:samples]
    shards = shuffled(make_partition(labels, agents, partition, seed, sizes), seed)
    train = _normalised(data.train_images[:samples]), torch.from_numpy(labels)
    test = _normalised(data.test_images[:tested]), torch.from_numpy(data.test_labels[:tested])
    build = partial(ResNet, blocks, width)
    return NamedProblem(
        "cifar10-resnet", build, functional.cross_entropy, train, shards, test, start, evaluated
    )  # fmt: skip


def _normalised(images: NDArray[np.float32]) -> torch.Tensor:
    mean, deviation = (torch.tensor(values)[:, None, None] for values in (CIFAR10_MEAN, CIFAR10_DEVIATION))
    return torch.from_numpy(images).sub_(mean).div_(deviation)


def _task(source: str, seed: int) -> Task:
    if source in ("mnist", "fashion-mnist"):
        split = mnist_full() if source == "mnist" else fashion_mnist()
        return Task(split.train_images, split.train_labels, split.test_images, split.test_labels)
    if source == "adult":
        census = adult()
        train, test, _ = census.features()
        groups = {key: census.train[key] for key in CATEGORIES}
        return Task(_single(train), census.train_labels, _single(test), census.test_labels, groups)
    features, targets = bundled(source)
    order = stream(seed, "split").permutation(len(features))
    cut = len(order) - len(order) // 5
    train_rows, test_rows = order[:cut], order[cut:]
    scaled = _single(standardised(features, train_rows))
    if targets.dtype == np.int64:
        wanted: Targets = targets.astype(np.int64)
    else:
        wanted = _single(standardised(targets[:, None].astype(np.float64), train_rows))
    return Task(scaled[train_rows], wanted[train_rows], scaled[test_rows], wanted[test_rows])


def standardised(features: NDArray[np.float64], rows: NDArray[np.int64]) -> NDArray[np.float64]:
    """Centre and scale every column by its mean and standard deviation in some rows; constant columns become 0.

    >>> standardised(np.array([[1.0, 7.0], [3.0, 7.0], [9.0, 7.0]]), np.array([0, 1])).tolist()
    [[-1.0, 0.0], [1.0, 0.0], [7.0, 0.0]]
    """
    mean, deviation = features[rows].mean(axis=0), features[rows].std(axis=0)
    scaled: NDArray[np.float64] = (features - mean) / np.where(deviation > 0, deviation, 1.0)
    return scaled


def _single(values: NDArray[np.float64]) -> NDArray[np.float32]:
    return values.astype(np.float32)


def _tensors(*arrays: NDArray[np.float32] | NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor]:
    first, second = (torch.from_numpy(array) for array in arrays)
    return first, second
