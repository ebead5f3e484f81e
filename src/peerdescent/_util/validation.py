"""Checks that many inputs share, so that every message has the same form."""

from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Iterable
from typing import Any

from peerdescent.errors import InputError


def seconds_from_environment(variable: str, default: float) -> float:
    """What an environment variable says, in seconds; `default` if it is not set."""
    text = os.environ.get(variable, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise InputError(f"{variable} = {text!r}: expected a number of seconds.") from None


def whole(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Return `value` as an int if it is a whole number with low <= value (< high), else raise InputError.

    Args:
        name: what the caller calls this input, for the message.
        value: what the caller gave; NumPy integers are welcome, booleans and floats are not.
        low: the smallest value allowed.
        high: the first value no longer allowed; None for no upper limit.

    >>> whole("agents", 10, low=1)
    10
    >>> whole("agents", 0, low=1)
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: agents is 0, expected a whole number that is at least 1.
    """
    wanted = f"at least {low}" + ("" if high is None else f" and less than {high}")
    message = f"{name} is {value!r}, expected a whole number that is {wanted}."
    if isinstance(value, bool):  # bool is an int in Python, but never meant as a number here
        raise InputError(message)
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(message) from None
    if number < low or (high is not None and number >= high):
        raise InputError(message)
    return number


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The words " (did you mean …?)" for a mistyped name, or nothing when no known name is near.

    >>> did_you_mean("metropols", ["metropolis", "lazy"])
    " (did you mean 'metropolis'?)"
    """
    near = difflib.get_close_matches(name.lower(), known, n=3)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
