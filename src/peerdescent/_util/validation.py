"""Input checks that several packages share, so that all messages have the same form."""

from __future__ import annotations

import difflib
import math
import operator
import os
from collections.abc import Iterable
from typing import Any

from peerdescent.errors import InputError

PER_CORE, LEAST_LIMIT = 8, 64
"""How many threads or processes per core are allowed, and how many on any machine."""


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
    try:
        number = low - 1 if isinstance(value, bool) else operator.index(value)  # a boolean is never a count
    except TypeError:
        number = low - 1
    if number < low or (high is not None and number >= high):
        wanted = f"at least {low}" + ("" if high is None else f" and less than {high}")
        raise InputError(f"{name} is {described(value)}, expected an integer that is {wanted}.")
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


def shortened(text: str, length: int = 100) -> str:
    """Return a text that fits into a sentence, its middle left out if it is long.

    >>> shortened("0123456789", 5)
    '01…89'
    """
    half = (length - 1) // 2
    return text if len(text) <= length else f"{text[:half]}…{text[-half:]}"


def check_for_machine(name: str, count: int) -> None:
    """Refuse a number of threads or processes that no machine of this size can carry.

    >>> check_for_machine("threads", 10**6)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: threads is 1000000, expected at most ... on this machine with ... CPU core...
    """
    cores = os.cpu_count() or 1
    limit = max(LEAST_LIMIT, PER_CORE * cores)
    if count > limit:
        plural = "s" * (cores != 1)
        raise InputError(f"{name} is {count}, expected at most {limit} on this machine with {cores} CPU core{plural}.")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for a misspelt name, or "" if no known name is close.

    >>> did_you_mean("metropols", ["metropolis", "lazy"])
    " (did you mean 'metropolis'?)"
    """
    near = difflib.get_close_matches(name.lower(), known, n=3) if isinstance(name, str) else []
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
        try:
            text = repr(value)
        except Exception:  # a number of thousands of digits, or an object of the user's in a list
            return f"{article} {kind}"
        return text if len(text) <= 60 else f"{article} {kind}"
    return f"{article} {kind}"
