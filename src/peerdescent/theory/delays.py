"""Messages that arrive rounds late: how late they may be."""

from __future__ import annotations

from typing import Any

from peerdescent.algorithms import Algorithm
from peerdescent.theory.stability import stability

LATEST = 50
"""The longest delay that is tried."""


def largest_delay(algorithm: Algorithm, graph: object, **given: Any) -> int | None:
    """The number of rounds by which messages may be late so that a method still settles, at most 50.

    Late messages make L·a_{k−d} out of L·a_k, of the neighbours' rows and the agent's own alike; the messages on their
    way belong to the state, whose recursion is exact. None if the method does not settle even without a delay.

    Args:
        algorithm: the method.
        graph: the communication graph.
        given: further arguments of `stability`.

    >>> from peerdescent.algorithms import make
    >>> largest_delay(make("d-sgd-1"), "complete:4"), largest_delay(make("d-sgd-1"), "complete:4", mixing="lazy")
    (0, 2)
    """
    for delay in range(LATEST + 1):
        if not stability(algorithm, graph, delay=delay, **given).settles:
            return delay - 1 if delay else None
    return LATEST
