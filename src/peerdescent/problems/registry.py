"""The problems by name, with the options that an experiment can set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import nn

from peerdescent._util.validation import described, did_you_mean
from peerdescent.errors import InputError
from peerdescent.problems.base import Problem
from peerdescent.problems.logistic import logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN, convolutional_net
from peerdescent.problems.mnist_nn import MnistNN, SigmoidNet
from peerdescent.problems.quadratic import quadratic
from peerdescent.problems.ripples import Ripples

FROM_EXPERIMENT = ("agents", "partition")
"""Options that come from other keys of an experiment: the size of the graph and `partition`."""


@dataclass(frozen=True)
class Entry:
    """A named problem: how to make it and one line about it."""

    make: Callable[..., Problem]
    summary: str
    dimension: Callable[..., int] | None = None
    """The length of x as a function of some options, for problems whose data need not be loaded to know it."""

    def options(self) -> dict[str, Any]:
        """Return the options with their defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in signature if p.name not in FROM_EXPERIMENT}


_PROBLEMS: dict[str, Entry] = {}
PROBLEMS: Mapping[str, Entry] = MappingProxyType(_PROBLEMS)
"""Every registered problem."""


def register(
    name: str, make: Callable[..., Problem], summary: str = "", dimension: Callable[..., int] | None = None
) -> None:
    """Register a problem under a name; `make` takes agents=, partition= and further options."""
    if not isinstance(name, str) or not name:
        raise InputError(f"name is {described(name)}: expected the name of a problem.")
    if not callable(make):
        raise InputError(f"make is {described(make)}: expected a function that makes the problem {name!r}.")
    _PROBLEMS[name] = Entry(make, summary or (make.__doc__ or "").strip().split("\n")[0], dimension)


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
    return entry.make(agents=agents, **options)


def dimension(name: str, agents: int, partition: str = "iid", **options: Any) -> int:
    """Return the length of x without loading data that may have to be fetched first.

    >>> dimension("mnist-nn", agents=10), dimension("quadratic", agents=3, dimension=5)
    (20560, 5)
    """
    entry, checked = _find(name, options)
    if entry.dimension is None:
        return make(name, agents, partition, **options).dimension
    wanted = inspect.signature(entry.dimension).parameters
    return entry.dimension(**{key: value for key, value in checked.items() if key in wanted})


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
        if isinstance(value, bool) or (isinstance(default, int) and number != float(value)):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        kind = "an integer" if isinstance(default, int) else "a number"
        raise InputError(f"{name} = {described(value)}: expected {kind}.") from None


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


register(
    "mnist-nn",
    MnistNN,
    "400-50-10 sigmoid network on 5,000 MNIST digits, the first experiment of the paper",
    lambda: _parameters(SigmoidNet()),
)
register(
    "mnist-cnn",
    MnistCNN,
    "convolutional network on all of MNIST, the second experiment of the paper",
    lambda reading="code": _parameters(convolutional_net(reading)),
)
register("quadratic", quadratic, "random quadratic costs with a known optimum")
register("logistic-nonconvex", logistic_nonconvex, "logistic regression with a nonconvex regulariser")
register("ripples", Ripples, "a rippled bowl: nonconvex, with known noise and heterogeneity, for measuring rates")
