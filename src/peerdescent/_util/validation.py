"""Input checks that several packages share, so that all messages have the same form."""

from __future__ import annotations

import difflib
import math
import operator
import os
from collections.abc import Iterable
from typing import Any

from peerdescent.errors import InputError


def seconds_from_environment(variable: str, default: float) -> float:
    """Return the number of seconds in an environment variable, or `default` if the variable is not set."""
    text = os.environ.get(variable, "")
    try:
        seconds = float(text) if text else default
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InputError(f"{variable} = {text!r}: expected a number of seconds, at least 0.")
    return seconds


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int if it is an integer with low <= value (< high); raise InputError otherwise.

    Args:
        name: the name of the input in the message.
        value: the value to check; NumPy integers are accepted, booleans and floats are not.
        low: the smallest value allowed.
        high: the upper limit, exclusive; None for no limit.

    >>> check_integer("agents", 10, low=1)
    10
    >>> check_integer("agents", 0, low=1)
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: agents is 0, expected an integer that is at least 1.
    """
    wanted = f"at least {low}" + ("" if high is None else f" and less than {high}")
    message = f"{name} is {described(value)}, expected an integer that is {wanted}."
    if isinstance(value, bool):  # bool is a subclass of int, but a boolean is never a count
        raise InputError(message)
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(message) from None
    if number < low or (high is not None and number >= high):
        raise InputError(message)
    return number


def check_number(name: str, value: Any, low: float = -math.inf, high: float = math.inf) -> float:
    """Return `value` as a float if it is a finite number with low <= value <= high; raise InputError otherwise.

    >>> check_number("noise", 0.5, low=0)
    0.5
    >>> check_number("noise", None, low=0)
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: noise is None, expected a finite number that is at least 0.
    """
    try:
        if isinstance(value, str | bytes | bool):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):  # RuntimeError: a tensor of several numbers
        number = math.nan
    if not (math.isfinite(number) and low <= number <= high):
        limits = [f"at least {low:g}"] * math.isfinite(low) + [f"at most {high:g}"] * math.isfinite(high)
        wanted = f" that is {' and '.join(limits)}" if limits else ""
        raise InputError(f"{name} is {described(value)}, expected a finite number{wanted}.")
    return number


def check_choice(name: str, value: Any, choices: Iterable[str]) -> str:
    """Return `value` if it is one of these texts; raise InputError otherwise.

    >>> check_choice("sizes", "odd", ("even", "uneven"))
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: sizes = 'odd': expected one of even, uneven.
    """
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise InputError(f"{name} = {described(value)}: expected one of {', '.join(known)}.")
    return value


def check_memory(what: str, numbers: int) -> None:
    """Refuse arrays of so many float64 numbers if this machine cannot hold them.

    >>> check_memory("10 agents and dimension 1,000,000,000,000", 10**13)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: 10 agents and dimension 1,000,000,000,000 need 80,000 GB of memory, ...
    """
    available = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 8 * numbers > available:
        needed, present = f"{8 * numbers // 10**9:,}", f"{available // 10**9:,}"
        raise InputError(
            f"{shortened(what)} need {shortened(needed)} GB of memory, and this machine has {present}; choose smaller "
            "numbers."
        )


def shortened(text: str, length: int = 100) -> str:
    """Return a text that fits into a sentence, its middle left out if it is long.

    >>> shortened("0123456789", 5)
    '01…89'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for a misspelt name, or "" if no known name is close.

    >>> did_you_mean("metropols", ["metropolis", "lazy"])
    " (did you mean 'metropolis'?)"
    """
    near = difflib.get_close_matches(str(name).lower(), known, n=3)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""


def described(value: Any) -> str:
    """Return a value in words for an error message: short values as they are, large ones by type and shape.

    >>> described(None), described("ring"), described([1, 2])
    ('None', "'ring'", '[1, 2]')
    >>> import numpy
    >>> described(numpy.zeros((3, 4))), described(range(10**9)), described("x" * 1000)
    ('an ndarray of shape (3, 4)', 'a range', 'a str')
    """
    kind = type(value).__name__
    article = "an" if kind[:1].lower() in "aeiou" or kind == "ndarray" else "a"
    shape = getattr(value, "shape", None)
    if shape is not None and not isinstance(value, type):
        return f"{article} {kind} of shape {tuple(shape)}"
    if value is None or isinstance(value, str | bytes | bool | int | float | complex | list | tuple | dict):
        text = repr(value)
        return text if len(text) <= 60 else f"{article} {kind}"
    return f"{article} {kind}"
