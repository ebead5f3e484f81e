"""The problems by name, with the options that an experiment can set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from types import MappingProxyType
from typing import Any

from torch import nn

from peerdescent._util.memory import check_fits
from peerdescent._util.schema import LARGEST
from peerdescent._util.validation import check_integer, described, did_you_mean
from peerdescent.data.datasets import find
from peerdescent.errors import InputError
from peerdescent.problems.base import Problem
from peerdescent.problems.logistic import logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN, convolutional_net
from peerdescent.problems.mnist_nn import PIXELS, MnistNN, SigmoidNet
from peerdescent.problems.networks import resnet_parameters, transformer_parameters
from peerdescent.problems.noise import BLOCK
from peerdescent.problems.pictures import SHAPES, cifar10_resnet, layer_sizes, mlp
from peerdescent.problems.quadratic import quadratic
from peerdescent.problems.ripples import Ripples
from peerdescent.problems.sizes import Size
from peerdescent.problems.texts import char_transformer

FROM_EXPERIMENT = ("agents", "partition")
"""Options that come from other keys of an experiment: the size of the graph and `partition`."""


@dataclass(frozen=True)
class Entry:
    """A named problem: how to make it and one line about it."""

    make: Callable[..., Problem]
    summary: str
    dimension: Callable[..., int] | None = None
    """The length of x as a function of some options, for problems whose data need not be loaded to know it."""
    size: Callable[..., Size] | None = None
    """The size as a function of some options and `agents`, so that what cannot fit into memory is not begun."""
    dataset: Callable[..., str | None] | None = None
    """The data set that it reads as a function of some options, to be fetched before several processes want it."""

    def options(self) -> dict[str, Any]:
        """Return the options with their defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in signature if p.name not in FROM_EXPERIMENT}


_PROBLEMS: dict[str, Entry] = {}
PROBLEMS: Mapping[str, Entry] = MappingProxyType(_PROBLEMS)
"""Every registered problem."""


def register(
    name: str,
    make: Callable[..., Problem],
    summary: str = "",
    dimension: Callable[..., int] | None = None,
    size: Callable[..., Size] | None = None,
    dataset: Callable[..., str | None] | None = None,
) -> None:
    """Register a problem under a name; `make` takes agents=, partition= and further options."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name is {described(name)}: expected the name of a problem.")
    if not callable(make):
        raise InputError(f"make is {described(make)}: expected a function that makes the problem {name!r}.")
    _PROBLEMS[name] = Entry(make, summary or (make.__doc__ or "").strip().split("\n")[0], dimension, size, dataset)


def make(name: str, agents: int, partition: str = "iid", **options: Any) -> Problem:
    """Make the problem of that name for n agents.

    >>> make("quadratic", agents=3, dimension=5).dimension
    5
    """
    entry, options = _find(name, options)
    accepted = inspect.signature(entry.make).parameters
    if "partition" in accepted:
        options["partition"] = partition
    elif not isinstance(partition, str) or partition != "iid":
        raise InputError(f"partition = {described(partition)}: {name} has no samples to split; leave it out.")
    agents = check_integer("agents", agents, 1)
    if entry.size is not None:
        check_fits(name, _call(entry.size, {**entry.options(), **options, "agents": agents}).data)
    return entry.make(agents=agents, **options)


def dimension(name: str, agents: int, partition: str = "iid", **options: Any) -> int:
    """Return the length of x without loading data that may have to be fetched first.

    >>> dimension("mnist-nn", agents=10), dimension("quadratic", agents=3, dimension=5)
    (20560, 5)
    """
    entry, checked = _find(name, options)
    if entry.dimension is None and (known := size(name, agents, **options)) is not None:
        return known.dimension
    if entry.dimension is None:
        return make(name, agents, partition, **options).dimension
    return int(_call(entry.dimension, checked))


def size(name: str, agents: int, **options: Any) -> Size | None:
    """Return the size that a problem will have; None if it was registered without it.

    >>> size("quadratic", agents=3, dimension=5)
    Size(dimension=5, data=1200, sample=0, drawn=0)
    """
    entry, checked = _find(name, options)
    if entry.size is None:
        return None
    found: Size = _call(entry.size, {**entry.options(), **checked, "agents": agents})
    return found


def dataset(name: str, **options: Any) -> str | None:
    """Return the data set that a problem reads, one of those of `peerdescent list datasets`; None if there is none.

    >>> dataset("logistic-nonconvex", source="adult"), dataset("quadratic")
    ('adult', None)
    """
    entry, checked = _find(name, options)
    if entry.dataset is None:
        return None
    found: str | None = _call(entry.dataset, {**entry.options(), **checked})
    return found


def _call(function: Callable[..., Any], options: Mapping[str, Any]) -> Any:
    """Call a function with those of the options that it takes."""
    wanted = inspect.signature(function).parameters
    return function(**{key: value for key, value in options.items() if key in wanted})


def _find(name: str, options: Mapping[str, Any]) -> tuple[Entry, dict[str, Any]]:
    """Return the entry of that name and the options, converted to the types of its defaults."""
    if not isinstance(name, str) or name not in _PROBLEMS:
        raise InputError(
            f"there is no problem {described(name)}{did_you_mean(name, _PROBLEMS)}; see `peerdescent list problems`."
        )
    entry = _PROBLEMS[name]
    defaults = entry.options()
    for key in options:
        if key not in defaults:
            raise InputError(f"{name} has no option {key!r}; use one of {', '.join(defaults)}.")
    return entry, {key: _convert(value, defaults[key], f"problem.{key}") for key, value in options.items()}


def _convert(value: Any, default: Any, name: str) -> Any:
    """Convert a text from the command line to the numeric type of the default."""
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return value
    try:
        number = type(default)(value)
        whole = isinstance(default, int)
        if isinstance(value, bool) or (whole and (number != float(value) or abs(number) > LARGEST)):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        kind = f"an integer of at most {LARGEST}" if isinstance(default, int) else "a number"
        raise InputError(f"{name} = {described(value)}: expected {kind}.") from None


def _quadratic_size(agents: int, dimension: int, noise: float) -> Size:
    """Matrices are made one by one and then stacked; the noise likewise."""
    return Size(dimension, 16 * agents * dimension**2, drawn=_noise(agents, dimension, noise))


def _ripples_size(agents: int, dimension: int, noise: float) -> Size:
    return Size(dimension, 24 * agents * dimension, drawn=_noise(agents, dimension, noise))


def _noise(agents: int, dimension: int, noise: float) -> int:
    return 16 * BLOCK * agents * dimension if noise else 0


def _logistic_size(samples: int, dimension: int, source: str) -> Size:
    """Only generated data can be of any size; a feature is drawn and then put beside the constant column."""
    known = {"generated": (samples, dimension + 1), "adult": (45_222, 105)}
    samples, width = known.get(source, (2000, 65))
    return Size(width, 16 * samples * width, sample=4 * (width + 1))


def _images_size(samples: int, pixels: int, dimension: int) -> Size:
    """Images as they are read and as they are sorted into shards, in single precision, with labels."""
    return Size(dimension, 2 * samples * (4 * pixels + 8), sample=4 * pixels + 8)


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def _mlp_size(source: str, hidden: int) -> Size:
    layers = layer_sizes(source, hidden)
    return _images_size(SHAPES[source][0], layers[0], sum((a + 1) * b for a, b in pairwise(layers)))


def _resnet_size(blocks: int, width: int, samples: int, tested: int) -> Size:
    """All pictures are read, in bytes and in single precision, whatever part of them is used."""
    used = _images_size(samples + tested, 3 * 32 * 32, resnet_parameters(blocks, width))
    return Size(used.dimension, used.data + 60_000 * 5 * 3 * 32 * 32, used.sample)


def _transformer_size(source: str, width: int, layers: int, heads: int, context: int) -> Size:
    """Passages have their characters twice, as inputs and as targets, and are read and then sorted into shards."""
    dimension = transformer_parameters(width, layers, heads, context)
    return Size(dimension, 2 * 16 * find(source).size, 16 * context)


register(
    "mnist-nn",
    MnistNN,
    "400-50-10 sigmoid network on 5,000 MNIST digits, the first experiment of the paper",
    lambda: _parameters(SigmoidNet()),
    lambda: _images_size(5000, PIXELS + 1, _parameters(SigmoidNet())),
)
register(
    "mnist-cnn",
    MnistCNN,
    "convolutional network on all of MNIST, the second experiment of the paper",
    lambda reading="code": _parameters(convolutional_net(reading)),
    lambda reading="code": _images_size(70_000, 28 * 28, _parameters(convolutional_net(reading))),
    lambda: "mnist",
)
register("quadratic", quadratic, "random quadratic costs with a known optimum", size=_quadratic_size)
register(
    "logistic-nonconvex",
    logistic_nonconvex,
    "logistic regression with a nonconvex regulariser, on generated data, Adult and others",
    size=_logistic_size,
    dataset=lambda source: None if source == "generated" else source,
)
register(
    "mlp",
    mlp,
    "perceptron with one hidden layer on digits, Fashion-MNIST, Adult and others",
    size=_mlp_size,
    dataset=lambda source: source,
)
register(
    "cifar10-resnet",
    cifar10_resnet,
    "small residual network with group normalisation on CIFAR-10",
    size=_resnet_size,
    dataset=lambda: "cifar10",
)
register(
    "char-transformer",
    char_transformer,
    "transformer that predicts the next character of speeches or plays, for example one speaker per agent",
    size=_transformer_size,
    dataset=lambda source: source,
)
register(
    "ripples",
    Ripples,
    "a rippled bowl: nonconvex, with known noise and heterogeneity, for measuring rates",
    size=_ripples_size,
)
