"""The search space of a method: one dimension per parameter, on a suitable scale."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peerdescent import schedules
from peerdescent.algorithms import Algorithm, varied
from peerdescent.errors import InputError
from peerdescent.schedules import Cosine, Inverse, Power, Rate, Step, Warmup

FACTOR = 30.0
"""The first round searches step sizes up to this factor above and below the own value."""
DECAY = "decay"
"""The factor of the decay rates of all schedules of a method; the two schedules of D-SGD-2 share one ε."""
DIGITS = 4
"""Values are rounded to this many digits, so that printed values are the values that ran."""
GAMMAS, EPSILONS, MOST_MOMENTUM = (0.3, 1.0), (0.0, 0.5), 0.999
FIELDS = ("gamma", "epsilon", "weight_decay", "momentum")
"""The tuned parameters that are plain numbers, unless a method has them as rates."""
THETAS = (0.001, 1.0)
"""The weight of the newest direction in an average; 1 averages nothing."""
Numbers = NDArray[np.float64]
Point = Mapping[str, float]
"""A value for every dimension of a space, by name."""


@dataclass(frozen=True)
class Dimension:
    """One parameter, its own value, and its scale.

    The scale is the logarithm for step sizes, −ln(1 − β) for momenta, and the value itself for γ and ε.

    >>> momentum = Dimension("beta", 0.9, "momentum")
    >>> round(momentum.value(momentum.coordinate(0.9) + math.log(10)), 6)
    0.99
    """

    name: str
    own: float
    scale: Literal["log", "momentum", "linear"] = "log"
    limits: tuple[float, float] = (0.0, math.inf)

    def coordinate(self, value: float) -> float:
        """Return a value on the scale."""
        if self.scale == "linear":
            return value
        return math.log(value) if self.scale == "log" else -math.log(1 - value)

    def value(self, coordinate: float) -> float:
        """Return the value of a coordinate, within the limits and rounded."""
        if self.scale != "linear":
            coordinate = math.exp(coordinate) if self.scale == "log" else 1 - math.exp(-coordinate)
        low, high = self.limits
        return rounded(min(max(coordinate, low), high))

    @property
    def width(self) -> float:
        """The distance to either side that the first round searches."""
        return self.limits[1] - self.limits[0] if self.scale == "linear" else math.log(FACTOR)

    def side(self, centre: float, part: float) -> tuple[float, float]:
        """Return the ends, as coordinates, of the interval of `part` times the width to either side of a value."""
        low, high = self.limits
        ends = [self.coordinate(centre) - part * self.width, self.coordinate(centre) + part * self.width]
        if self.scale != "log":
            ends[0] = max(ends[0], self.coordinate(low))
        return ends[0], min(ends[1], self.coordinate(high))


@dataclass(frozen=True)
class Space:
    """The tuned parameters of a method: step sizes, momenta, decay rates, γ, ε, weight decay; all others stay fixed.

    >>> from peerdescent.algorithms import make
    >>> [d.name for d in Space.of("dsgpa-t-pb", make("dsgpa-t-pb")).dimensions]
    ['eta', 'alpha', 'beta', 'gamma', 'epsilon']
    >>> Space.of("d-sgd-2", make("d-sgd-2")).own
    {'alpha': 0.1, 'beta': 0.2, 'decay': 1.0}
    """

    method: Algorithm
    dimensions: tuple[Dimension, ...]

    @classmethod
    def of(cls, name: str, method: Algorithm) -> Space:
        """Return the space around the own values of a method; step sizes of 0 and custom schedules stay fixed."""
        found: list[Dimension] = []
        for rate in method.rates:
            value = schedules.base(getattr(method, rate))
            momentum = rate in method.momenta
            if value is not None and momentum and value < 1:
                found.append(Dimension(rate, value, "momentum", (0.0, MOST_MOMENTUM)))
            elif value is not None and value > 0 and not momentum:
                found.append(Dimension(rate, value, limits=(0.0, 1.0 if rate in method.shares else math.inf)))
        if any(_changes(getattr(method, rate)) for rate in method.rates):
            found.append(Dimension(DECAY, 1.0))
        if getattr(method, "gamma", 1.0) < 1:
            found.append(Dimension("gamma", method.gamma, "linear", GAMMAS))  # type: ignore[attr-defined]
        if getattr(method, "epsilon", 0.0) > 0:
            found.append(Dimension("epsilon", method.epsilon, "linear", EPSILONS))  # type: ignore[attr-defined]
        if "momentum" not in method.rates and getattr(method, "momentum", 1.0) < 1:
            found.append(Dimension("momentum", method.momentum, limits=THETAS))  # type: ignore[attr-defined]
        if getattr(method, "weight_decay", 0.0) > 0:
            found.append(Dimension("weight_decay", method.weight_decay))  # type: ignore[attr-defined]
        if not found:
            raise InputError(f"{name} has nothing to tune: it has no positive step size and no power.")
        return cls(method, tuple(found))

    @property
    def own(self) -> dict[str, float]:
        """The own values of the method as a point."""
        return {d.name: d.own for d in self.dimensions}

    def near(self, centre: Point, part: float, cube: Numbers) -> dict[str, float]:
        """Map a point `cube` of the unit cube to a point of the box around a centre.

        For α and β in DSGPA, the products ηα and ηβ are searched: a change of η alone does not affect stability.
        """
        point: dict[str, float] = {}
        for d, u in zip(self.dimensions, cube, strict=True):
            low, high = d.side(centre[d.name], part)
            point[d.name] = d.value(low + float(u) * (high - low))
        for name in self.method.times_eta:
            if name in point and "eta" in point:
                point[name] = rounded(point[name] * centre["eta"] / point["eta"])
        return point

    def at(self, point: Point) -> Algorithm:
        """Return the method with the values of a point.

        >>> from peerdescent.algorithms import make
        >>> space = Space.of("d-sgd-2", make("d-sgd-2"))
        >>> str(space.at({"alpha": 0.5, "beta": 0.2, "decay": 10.0}).alpha)
        'inverse:0.5:0.0001:1.0'
        """
        decay = point.get(DECAY, 1.0)
        values: dict[str, Any] = {
            rate: _changed(getattr(self.method, rate), point.get(rate), decay) for rate in self.method.rates
        }
        values.update({name: point[name] for name in FIELDS if name in point and name not in self.method.rates})
        return varied(self.method, **values)

    def options(self, point: Point) -> dict[str, Any]:
        """Return the values of a point for the `set` table of an experiment."""
        parameters = self.at(point).parameters()
        rates: Sequence[str] = self.method.rates
        return {key: parameters[key] for key in (*rates, *point) if key in parameters}


def _changes(rate: Rate) -> bool:
    """Whether a schedule has a pace that can be searched; the lengths of cosines, steps and warm-ups stay."""
    rate = rate.rest if isinstance(rate, Warmup) else rate
    return (isinstance(rate, Inverse) and rate.rate > 0) or (isinstance(rate, Power) and rate.exponent != 0)


def _changed(rate: Rate, base: float | None, decay: float) -> Rate:
    """Return a rate with another initial value that decays `decay` times as fast."""
    if isinstance(rate, Inverse):
        return replace(rate, base=rate.base if base is None else base, rate=_times(rate.rate, decay))
    if isinstance(rate, Power):
        return replace(rate, base=rate.base if base is None else base, exponent=_times(rate.exponent, decay))
    if isinstance(rate, Warmup):
        return replace(rate, rest=_changed(rate.rest, base, decay))
    if isinstance(rate, Cosine) and base is not None:  # the floor keeps its share of the base
        return replace(rate, base=base, floor=min(base, _times(rate.floor, base / rate.base)))
    if isinstance(rate, Step) and base is not None:
        return replace(rate, base=base)
    if isinstance(rate, (Cosine, Step)):
        return rate
    return rate if base is None else base


def _times(value: float, factor: float) -> float:
    return value if factor == 1 else rounded(value * factor)


def rounded(value: float) -> float:
    """The value with a few digits.

    >>> rounded(1 / 3)
    0.3333
    """
    return float(f"{value:.{DIGITS}g}")
