"""How a hyperparameter changes over the iterations k = 0, 1, 2, …

A hyperparameter is a number or a schedule. As text (in TOML and on the command line) a schedule is one of:

    power:BASE:EXPONENT                 BASE·(k+1)^EXPONENT
    inverse:BASE:RATE[:POWER]           BASE/(RATE·k+1)^POWER
    cosine:BASE:ITERATIONS[:FLOOR]      half a cosine from BASE down to FLOOR
    step:BASE:FACTOR:K1[:K2…]           BASE, times FACTOR from each K on
    warmup:ITERATIONS:REST              a linear ramp up to REST, a number or any other schedule
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from peerdescent._util.schema import LARGEST
from peerdescent._util.validation import check_integer, check_number, described
from peerdescent.errors import InputError


@runtime_checkable
class Schedule(Protocol):
    """Anything that gives a number for each iteration."""

    def __call__(self, k: int) -> float:
        """The value at iteration k = 0, 1, …"""
        ...


Rate = float | Schedule


def _check_numbers(kind: str, **numbers: object) -> None:
    for name, number in numbers.items():
        check_number(f"the {name} of a {kind} schedule", number)


@dataclass(frozen=True)
class Power:
    """base·(k+1)^exponent: the paper's η/k^ε and αk^ε, which count from one.

    >>> Power(0.08, -0.5)(3)
    0.04
    """

    base: float
    exponent: float

    def __post_init__(self) -> None:
        _check_numbers("power", base=self.base, exponent=self.exponent)

    def __call__(self, k: int) -> float:
        try:
            return float(self.base * (k + 1.0) ** self.exponent)
        except OverflowError:
            return math.inf

    def __str__(self) -> str:
        return f"power:{float(self.base)}:{float(self.exponent)}"


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
        _check_numbers("inverse", base=self.base, rate=self.rate, power=self.power)
        if self.rate < 0:  # the denominator would reach zero
            raise InputError(f"{self}: expected a rate that is not negative.")

    def __call__(self, k: int) -> float:
        try:
            return float(self.base / (self.rate * k + 1) ** self.power)
        except OverflowError:
            return 0.0
        except ZeroDivisionError:
            return math.inf

    def __str__(self) -> str:
        return f"inverse:{float(self.base)}:{float(self.rate)}:{float(self.power)}"


@dataclass(frozen=True)
class Cosine:
    """floor + (base − floor)(1 + cos(πk/iterations))/2, and floor from k = iterations on.

    >>> Cosine(0.1, 100)(50).__round__(6), Cosine(0.1, 100, 0.01)(1000)
    (0.05, 0.01)
    """

    base: float
    iterations: int
    floor: float = 0.0

    def __post_init__(self) -> None:
        check_integer("the length of a cosine schedule", self.iterations, 1, LARGEST)
        _check_numbers("cosine", base=self.base, floor=self.floor)
        if not 0 <= self.floor <= self.base:
            raise InputError(f"{self}: expected a floor between 0 and the base.")

    def __call__(self, k: int) -> float:
        if k >= self.iterations:
            return float(self.floor)
        return float(self.floor + (self.base - self.floor) * (1 + math.cos(math.pi * k / self.iterations)) / 2)

    def __str__(self) -> str:
        return f"cosine:{float(self.base)}:{self.iterations}:{float(self.floor)}"


@dataclass(frozen=True)
class Step:
    """base, multiplied by factor from each milestone on.

    >>> [round(Step(0.1, 0.5, (10, 20))(k), 6) for k in (9, 10, 20)]
    [0.1, 0.05, 0.025]
    """

    base: float
    factor: float
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        _check_numbers("step", base=self.base, factor=self.factor)
        if not isinstance(self.milestones, Iterable) or isinstance(self.milestones, str):
            raise InputError(f"the milestones of a step schedule are {described(self.milestones)}: expected numbers.")
        milestones = tuple(check_integer("a milestone of a step schedule", k, 0, LARGEST) for k in self.milestones)
        object.__setattr__(self, "milestones", milestones)
        if not self.milestones or any(b <= a for a, b in zip((0, *self.milestones), self.milestones, strict=False)):
            raise InputError(f"{self}: expected iterations above 0, in increasing order, after the factor.")
        if self.factor < 0:
            raise InputError(f"{self}: expected a factor that is not negative.")

    def __call__(self, k: int) -> float:
        try:
            return float(self.base * float(self.factor) ** sum(k >= milestone for milestone in self.milestones))
        except OverflowError:
            return math.inf

    def __str__(self) -> str:
        return f"step:{float(self.base)}:{float(self.factor)}:{':'.join(map(str, self.milestones))}"


@dataclass(frozen=True)
class Warmup:
    """rest(k)·min(1, (k+1)/iterations): a linear ramp, then the schedule `rest`.

    >>> warmup = Warmup(4, 0.2)
    >>> [round(warmup(k), 6) for k in (0, 1, 3, 100)]
    [0.05, 0.1, 0.2, 0.2]
    """

    iterations: int
    rest: Rate

    def __post_init__(self) -> None:
        check_integer("the length of a warm-up", self.iterations, 1, LARGEST)
        object.__setattr__(self, "rest", parse(self.rest, "what follows a warm-up"))
        if isinstance(self.rest, Warmup):
            raise InputError("a warm-up cannot contain another warm-up: give one length.")

    def __call__(self, k: int) -> float:
        return at(self.rest, k) * min(1.0, (k + 1) / self.iterations)

    def __str__(self) -> str:
        return f"warmup:{self.iterations}:{text(self.rest)}"


EXPECTED = (
    "a number, power:BASE:EXPONENT, inverse:BASE:RATE[:POWER], cosine:BASE:ITERATIONS[:FLOOR], "
    "step:BASE:FACTOR:K1[:K2…] or warmup:ITERATIONS:REST"
)
PYTHON = "python"
"""The prefix under which a Python function is written down; it cannot be read back."""


def parse(value: object, name: str) -> Rate:
    """Convert a number, a schedule or its text into a rate; `name` is the hyperparameter, for the message.

    >>> parse("0.5", "eta")
    0.5
    >>> parse("warmup:100:cosine:0.1:3000", "eta")
    Warmup(iterations=100, rest=Cosine(base=0.1, iterations=3000, floor=0.0))
    """
    if isinstance(value, Schedule) and not isinstance(value, (int, float)):
        return value
    try:
        written = str(value)
    except Exception as error:  # an object of the user's
        raise InputError(f"{name} is {described(value)}: expected {EXPECTED}.") from error
    if written.startswith(f"{PYTHON}:"):
        raise InputError(
            f"{name} = {value!r} is a Python function, which a text cannot hold: pass the function itself, "
            f"or use {EXPECTED}."
        )
    form, _, rest = written.partition(":")
    try:
        if form in FORMS:
            return FORMS[form](rest)
        return _number(str(value))
    except InputError as error:
        raise InputError(f"{name} = {described(value)} is not a rate: {error}") from None
    except (TypeError, ValueError):
        raise InputError(f"{name} = {described(value)} is not a rate: expected {EXPECTED}.") from None


def at(rate: Rate, k: int) -> float:
    """The value of a number or schedule at iteration k."""
    return rate(k) if callable(rate) else float(rate)


def text(rate: Rate) -> str:
    """A rate as text: what `parse` reads, or the name of a Python function, the same in every process.

    >>> text(Inverse(0.1, 0.5)), text(0.1), text(math.sqrt)
    ('inverse:0.1:0.5:1.0', '0.1', 'python:math.sqrt')
    """
    if isinstance(rate, KNOWN):
        return str(rate)
    if not callable(rate):
        return repr(float(rate))
    function = getattr(rate, "func", rate)  # functools.partial
    kind = type(function)
    if hasattr(function, "__qualname__"):
        name = function.__qualname__
    else:  # an instance of a class: its repr, unless that holds an address
        name = kind.__qualname__ if " at 0x" in repr(function) else repr(function)
    return f"{PYTHON}:{getattr(function, '__module__', None) or kind.__module__}.{name}"


def base(rate: Rate) -> float | None:
    """The number that scales a rate: a constant itself, a schedule's base; None for a Python function.

    >>> base(0.1), base(Warmup(10, Cosine(0.2, 100)))
    (0.1, 0.2)
    """
    if isinstance(rate, Warmup):
        return base(rate.rest)
    if isinstance(rate, (Power, Inverse, Cosine, Step)):
        return rate.base
    return None if callable(rate) else float(rate)


def warmup_ends(rate: Rate) -> int:
    """The first iteration at which a rate has its full value; 0 without a warm-up."""
    return rate.iterations - 1 if isinstance(rate, Warmup) else 0


def nominal(rate: Rate) -> float:
    """The value at iteration 0, or at the end of the warm-up."""
    return at(rate, warmup_ends(rate))


def _number(part: str) -> float:
    number = float(part)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _power(rest: str) -> Power:
    return Power(*map(_number, rest.split(":")))


def _inverse(rest: str) -> Inverse:
    return Inverse(*map(_number, rest.split(":")))


def _cosine(rest: str) -> Cosine:
    scale, length, *floor = rest.split(":")
    return Cosine(_number(scale), int(length), *map(_number, floor))


def _step(rest: str) -> Step:
    scale, factor, *milestones = rest.split(":")
    return Step(_number(scale), _number(factor), tuple(map(int, milestones)))


def _warmup(rest: str) -> Warmup:
    length, _, after = rest.partition(":")
    if after.startswith("warmup:"):
        raise InputError("a warm-up cannot contain another warm-up: give one length.")
    return Warmup(int(length), parse(after, "what follows a warm-up"))


KNOWN = (Power, Inverse, Cosine, Step, Warmup)
"""The schedules that have a text."""
FORMS: dict[str, Callable[[str], Schedule]] = {
    "power": _power,
    "inverse": _inverse,
    "cosine": _cosine,
    "step": _step,
    "warmup": _warmup,
}
