"""Checks that all topologies share, so that their messages have the same form."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import SupportsFloat

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer, described
from peerdescent.errors import InputError

MOST_EDGES = 5_000_000  # about a gigabyte of tuples; a larger number is most likely a typing error


def real(topology: str, name: str, value: SupportsFloat, most: float = math.inf, zero: bool = False) -> float:
    """Return `value` as a float if it is finite, above 0 (or at least 0 with `zero`) and at most `most`.

    >>> real("er", "P", 0.4, most=1)
    0.4
    """
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not (math.isfinite(number) and 0 <= number <= most and (zero or number > 0)):
        wanted = (
            "a positive number" if most == math.inf else f"{'at least' if zero else 'above'} 0 and at most {most:g}"
        )
        raise InputError(f"graph {topology}: {name} must be {wanted}, not {described(value)}.")
    return number


def size(topology: str, n: int, edges: float) -> None:
    """Raise InputError for a graph that is too large for memory, before it is built.

    >>> size("ring", 10, 10)
    """
    if max(n, edges) > MOST_EDGES:
        raise InputError(f"graph {topology}: that is more than {MOST_EDGES:,} agents or edges; choose smaller numbers.")


def agents(given: Iterable[int], n: int) -> NDArray[np.int64]:
    """The numbers of some of n agents in increasing order, each once.

    >>> agents([3, 0, 3], 4).tolist()
    [0, 3]
    """
    try:
        return np.unique([check_integer("an agent", agent, 0, n) for agent in given]).astype(np.int64)
    except TypeError:
        raise InputError(f"agents is {described(given)}: expected the numbers of some agents.") from None
