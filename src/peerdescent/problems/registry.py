"""The problems by name, with the options that an experiment may set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from torch import nn

from peerdescent._util.validation import did_you_mean
from peerdescent.errors import InputError
from peerdescent.problems.base import Problem
from peerdescent.problems.logistic import logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN, convolutional_net
from peerdescent.problems.mnist_nn import MnistNN, SigmoidNet
from peerdescent.problems.quadratic import quadratic
from peerdescent.problems.ripples import Ripples

FROM_EXPERIMENT = ("agents", "partition")
"""Options that stand elsewhere in an experiment: the graph's size and `partition`."""


@dataclass(frozen=True)
class Entry:
    """How a named problem is made."""

    make: Callable[..., Problem]
    summary: str
    dimension: Callable[..., int] | None = None
    """The length of x from some of the options, for problems that need their data only to run."""

    def options(self) -> dict[str, Any]:
        """What can be set, with the defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in signature if p.name not in FROM_EXPERIMENT}


_PROBLEMS: dict[str, Entry] = {}
PROBLEMS: Mapping[str, Entry] = MappingProxyType(_PROBLEMS)
"""Every registered problem."""


def register(
    name: str, make: Callable[..., Problem], summary: str = "", dimension: Callable[..., int] | None = None
) -> None:
    """Offer a problem under a name; `make` takes agents=, partition= and its own options."""
    _PROBLEMS[name] = Entry(make, summary or (make.__doc__ or "").strip().split("\n")[0], dimension)


def make(name: str, agents: int, partition: str = "iid", **options: Any) -> Problem:
    """The problem of that name for n agents.

    >>> make("quadratic", agents=3, dimension=5).dimension
    5
    """
    entry, options = _find(name, options)
    accepted = inspect.signature(entry.make).parameters
    if "partition" in accepted:
        options["partition"] = partition
    elif partition != "iid":
        raise InputError(f"{name} has no samples to split: leave out partition = {partition!r}.")
    return entry.make(agents=agents, **options)


def dimension(name: str, agents: int, partition: str = "iid", **options: Any) -> int:
    """How many numbers an agent's x has, without touching data that would have to be fetched first.

    >>> dimension("mnist-nn", agents=10), dimension("quadratic", agents=3, dimension=5)
    (20560, 5)
    """
    entry, checked = _find(name, options)
    if entry.dimension is None:
        return make(name, agents, partition, **options).dimension
    wanted = inspect.signature(entry.dimension).parameters
    return entry.dimension(**{key: value for key, value in checked.items() if key in wanted})


def _find(name: str, options: Mapping[str, Any]) -> tuple[Entry, dict[str, Any]]:
    """The entry of that name, and the options as the kinds of values that it has."""
    if name not in _PROBLEMS:
        raise InputError(
            f"there is no problem {name!r}{did_you_mean(name, _PROBLEMS)}: see `peerdescent list problems`."
        )
    entry = _PROBLEMS[name]
    defaults = entry.options()
    for key in options:
        if key not in defaults:
            raise InputError(f"{name} has no option {key!r}: it has {', '.join(defaults)}.")
    return entry, {key: _like(value, defaults[key], f"problem.{key}") for key, value in options.items()}


def _like(value: Any, default: Any, name: str) -> Any:
    """A text from the command line as the kind of number that the default is."""
    if isinstance(default, bool) or not isinstance(default, (int, float)):
        return value
    try:
        number = type(default)(value)
        if isinstance(value, bool) or (isinstance(default, int) and number != float(value)):
            raise ValueError
        return number
    except (TypeError, ValueError, OverflowError):
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise InputError(f"{name} = {value!r}: expected {kind}.") from None


def _parameters(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


register(
    "mnist-nn",
    MnistNN,
    "400-50-10 sigmoid network on 5,000 MNIST digits, the paper's first experiment",
    lambda: _parameters(SigmoidNet()),
)
register(
    "mnist-cnn",
    MnistCNN,
    "convolutional network on all of MNIST, the paper's second experiment",
    lambda reading="code": _parameters(convolutional_net(reading)),
)
register("quadratic", quadratic, "random quadratic costs with a known optimum")
register("logistic-nonconvex", logistic_nonconvex, "logistic regression with a nonconvex regulariser")
register("ripples", Ripples, "a rippled bowl: nonconvex, with known noise and unlikeness, for measuring rates")
