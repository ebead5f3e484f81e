"""The problems by name, with the options that an experiment may set."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from peerdescent.checks import did_you_mean
from peerdescent.errors import InputError
from peerdescent.problems.base import Problem
from peerdescent.problems.logistic import logistic_nonconvex
from peerdescent.problems.mnist_cnn import MnistCNN
from peerdescent.problems.mnist_nn import MnistNN
from peerdescent.problems.quadratic import quadratic
from peerdescent.problems.ripples import Ripples

FROM_EXPERIMENT = ("agents", "partition")
"""Options that stand elsewhere in an experiment: the graph's size and `partition`."""


@dataclass(frozen=True)
class Entry:
    """How a named problem is made."""

    make: Callable[..., Problem]
    summary: str

    def options(self) -> dict[str, Any]:
        """What can be set, with the defaults."""
        signature = inspect.signature(self.make).parameters.values()
        return {p.name: p.default for p in signature if p.name not in FROM_EXPERIMENT}


_PROBLEMS: dict[str, Entry] = {}
PROBLEMS: Mapping[str, Entry] = MappingProxyType(_PROBLEMS)
"""Every registered problem."""


def register(name: str, make: Callable[..., Problem], summary: str = "") -> None:
    """Offer a problem under a name; `make` takes agents=, partition= and its own options."""
    _PROBLEMS[name] = Entry(make, summary or (make.__doc__ or "").strip().split("\n")[0])


def make(name: str, agents: int, partition: str = "iid", **options: Any) -> Problem:
    """The problem of that name for n agents.

    >>> make("quadratic", agents=3, dimension=5).dimension
    5
    """
    if name not in _PROBLEMS:
        raise InputError(
            f"there is no problem {name!r}{did_you_mean(name, _PROBLEMS)}: see `peerdescent list problems`."
        )
    entry = _PROBLEMS[name]
    defaults = entry.options()
    for key, value in options.items():
        if key not in defaults:
            raise InputError(f"{name} has no option {key!r}: it has {', '.join(defaults)}.")
        options[key] = _like(value, defaults[key], f"problem.{key}")
    accepted = inspect.signature(entry.make).parameters
    if "partition" in accepted:
        options["partition"] = partition
    elif partition != "iid":
        raise InputError(f"{name} has no samples to split: leave out partition = {partition!r}.")
    return entry.make(agents=agents, **options)


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


register("mnist-nn", MnistNN, "400-50-10 sigmoid network on 5,000 MNIST digits, the paper's first experiment")
register("mnist-cnn", MnistCNN, "convolutional network on all of MNIST, the paper's second experiment")
register("quadratic", quadratic, "random quadratic costs with a known optimum")
register("logistic-nonconvex", logistic_nonconvex, "logistic regression with a nonconvex regulariser")
register("ripples", Ripples, "a rippled bowl: nonconvex, with known noise and unlikeness, for measuring rates")
