"""Input checks that several packages share, so that all messages have the same form."""

from __future__ import annotations

import difflib
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
    near = difflib.get_close_matches(name.lower(), known, n=3)
    return f" (did you mean {' or '.join(map(repr, near))}?)" if near else ""
