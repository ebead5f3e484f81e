"""How a hyperparameter changes over the iterations k = 0, 1, 2, …

A hyperparameter is a number or a schedule; as text (in TOML and on the command line) a schedule reads
``power:BASE:EXPONENT`` or ``inverse:BASE:RATE[:POWER]``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from peerdescent.errors import InputError


@runtime_checkable
class Schedule(Protocol):
    """Anything that gives a number for each iteration."""

    def __call__(self, k: int) -> float:
        """The value at iteration k = 0, 1, …"""
        ...


Rate = float | Schedule


@dataclass(frozen=True)
class Power:
    """base·(k+1)^exponent: the paper's η/k^ε and αk^ε, which count from one.

    >>> Power(0.08, -0.5)(3)
    0.04
    """

    base: float
    exponent: float

    def __call__(self, k: int) -> float:
        try:
            return float(self.base * (k + 1.0) ** self.exponent)
        except OverflowError:
            return math.inf

    def __str__(self) -> str:
        return f"power:{self.base!r}:{self.exponent!r}"


@dataclass(frozen=True)
class Inverse:
    """base/(rate·k + 1)^power: the decay of D-SGD-2.

    >>> Inverse(0.1, 1.0)(3)
    0.025
    """

    base: float
    rate: float
    power: float = 1.0

    def __post_init__(self) -> None:
        if self.rate < 0:  # the denominator would reach zero
            raise InputError(f"{self}: expected a rate that is not negative.")

    def __call__(self, k: int) -> float:
        return float(self.base / (self.rate * k + 1) ** self.power)

    def __str__(self) -> str:
        return f"inverse:{self.base!r}:{self.rate!r}:{self.power!r}"


FORMS = {"power": (Power, (2,)), "inverse": (Inverse, (2, 3))}
EXPECTED = "a number, power:BASE:EXPONENT or inverse:BASE:RATE[:POWER]"


def parse(value: object, name: str) -> Rate:
    """A number, a schedule or its text as a rate; `name` is the hyperparameter, for the message.

    >>> parse("0.5", "eta")
    0.5
    >>> parse("inverse:0.2:1e-5:0.3", "beta")
    Inverse(base=0.2, rate=1e-05, power=0.3)
    """
    if isinstance(value, Schedule) and not isinstance(value, (int, float)):
        return value
    form, _, rest = str(value).partition(":")
    try:
        if form not in FORMS:
            return _finite(float(str(value)))
        kind, counts = FORMS[form]
        numbers = [_finite(float(part)) for part in rest.split(":")]
        if len(numbers) in counts:
            made: Rate = kind(*numbers)
            return made
    except InputError:
        raise
    except ValueError:
        pass
    raise InputError(f"{name} = {value!r} is not a rate: expected {EXPECTED}.")


def at(rate: Rate, k: int) -> float:
    """The value of a number or schedule at iteration k."""
    return rate(k) if callable(rate) else float(rate)


def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number
