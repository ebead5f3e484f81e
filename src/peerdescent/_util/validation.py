"""Input checks that several packages share, so that all messages have the same form."""

from __future__ import annotations

import difflib
import operator
import os
from collections.abc import Iterable
from typing import Any

from peerdescent.errors import InputError


def seconds_from_environment(variable: str, default: float) -> float:
    """Return the number of seconds in an environment variable, or `default` if the variable is not set."""
    text = os.environ.get(variable, "")
    try:
        return float(text) if text else default
    except ValueError:
        raise InputError(f"{variable} = {text!r}: expected a number of seconds.") from None


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
    message = f"{name} is {value!r}, expected an integer that is {wanted}."
    if isinstance(value, bool):  # bool is a subclass of int, but a boolean is never a count
        raise InputError(message)
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(message) from None
    if number < low or (high is not None and number >= high):
        raise InputError(message)
    return number


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return " (did you mean …?)" for a misspelt name, or "" if no known name is close.

    >>> did_you_mean("metropols", ["metropolis", "lazy"])
    " (did you mean 'metropolis'?)"
    """
    near = difflib.get_close_matches(name.lower(), known, n=3)
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
