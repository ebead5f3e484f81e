"""What a method is: hyperparameters, what it remembers, and one step written as its equation."""

from __future__ import annotations

import math
import warnings
from collections.abc import Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any, ClassVar, Literal, Protocol

from peerdescent import schedules
from peerdescent.errors import InputError
from peerdescent.transforms import Transform

Start = Literal["zero", "x"]
Step = Generator[Any, Any, dict[str, Any]]


class Network(Protocol):
    """What a step may ask of the graph; each call but the last puts one vector on every edge."""

    def laplacian(self, a: Any) -> Any:
        """L·a."""
        ...

    def mix(self, a: Any) -> Any:
        """W·a."""
        ...

    def disagreement(self, a: Any) -> Any:
        """(I−W)·a: the same message as `mix`, without the rounding of a difference of large numbers."""
        ...

    def mean(self, a: Any) -> Any:
        """The mean of all rows, in every row: what a centre would compute."""
        ...


@dataclass(frozen=True)
class Algorithm:
    """A decentralized method: an immutable value, checked on construction.

    A subclass names its step sizes in `rates`, what it keeps besides x in `memory`, and writes its equation
    in `step`. Nothing else is needed to run it in the simulator, on the command line and in the
    conformance checks.
    """

    transform: Transform = field(default=Transform(), kw_only=True)

    rates: ClassVar[tuple[str, ...]] = ()
    """The fields that are numbers or schedules."""
    momenta: ClassVar[tuple[str, ...]] = ()
    """Those of the rates that are momenta, in [0, 1): what matters of them is 1 − β."""
    times_eta: ClassVar[tuple[str, ...]] = ()
    """Those of the rates that act multiplied by eta only: their products with it decide stability."""
    common_start: ClassVar[bool] = False
    """Whether all agents must start from one point, the mean of their starts."""

    def __post_init__(self) -> None:
        for name in self.rates:
            rate = schedules.parse(getattr(self, name), name)
            value = schedules.at(rate, 0)
            if not (math.isfinite(value) and value >= 0):
                raise InputError(f"{name} = {rate} is not a step size: expected a number that is not negative.")
            object.__setattr__(self, name, rate)

    def memory(self) -> Mapping[str, Start]:
        """The arrays kept besides x, each starting at zero or as a copy of the starting x."""
        return {}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The numbers that `step` sees at iteration k = 0, 1, …"""
        return {name: schedules.at(getattr(self, name), k) for name in self.rates}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """One iteration: yields the point where the gradient is wanted, receives it, returns the new state.

        Messages named before the `yield` travel while the gradient is computed. The step is arithmetic
        only: it must not ask for values, so that it can be recorded and fused.

        Args:
            s: the state, `s.x` and what `memory` names, each n×p.
            net: L·a, W·a, (I−W)·a and the mean over the agents.
            h: the numbers of `hyperparameters`.
        """
        raise NotImplementedError(f"{type(self).__name__} does not define step")

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """An iteration without messages (`communication_period` > 1), where L = 0 and W = I: the same step unless overridden."""
        return self.step(s, net, h)

    def preprocess_gradient(self, g: Any, net: Network) -> Any:
        """The gradient as `step` receives it: transformed, agent by agent."""
        return self.transform(g)

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """Whether W serves as it is, given its smallest eigenvalue, or (I+W)/2 must be used."""
        return "as-is"

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """Arrays whose mean over the agents stays zero for ever, by the name of the law."""
        return {}

    def parameters(self) -> dict[str, Any]:
        """The fields as plain numbers and texts, as they stand in an experiment file."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "transform"}
        return {name: value if isinstance(value, (int, float, str)) else str(value) for name, value in own.items()}


def varied(algorithm: Algorithm, **values: Any) -> Algorithm:
    """The method with some values replaced, without the warnings that construction gives for unusual values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return replace(algorithm, **values)
