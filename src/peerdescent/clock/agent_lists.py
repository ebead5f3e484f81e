"""Agents and links as a file names them: "0-15", "0,3,7-9", [0, 3]; the link "0-3", or one direction of it, "0>3"."""

from __future__ import annotations

import re
from typing import Any

from peerdescent._util.validation import described
from peerdescent.errors import InputError

Agents = tuple[int, ...]
Pair = tuple[int, int]
"""Sender and receiver."""
MOST = 100_000
"""More agents than a list may name."""
_PART = re.compile(r"\s*(\d{1,6})\s*(?:-\s*(\d{1,6})\s*)?")
_LINK = re.compile(r"\s*(\d{1,6})\s*([->])\s*(\d{1,6})\s*")


def agents_of(value: Any, where: str) -> Agents:
    """The agents that a text or a list names, in order.

    >>> agents_of("0-2,7", "sites.a"), agents_of([3, 1], "sites.a")
    ((0, 1, 2, 7), (1, 3))
    >>> agents_of("a", "sites.a")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: sites.a = 'a': expected agents such as "0-15", "0,3,7-9" or [0, 3].
    """
    wrong = InputError(f'{where} = {described(value)}: expected agents such as "0-15", "0,3,7-9" or [0, 3].')
    if isinstance(value, list):
        if not value or not all(isinstance(agent, int) and not isinstance(agent, bool) for agent in value):
            raise wrong
        found = set(value)
    elif isinstance(value, str):
        parts = [_PART.fullmatch(part) for part in value.split(",")]
        ends = [(int(part[1]), int(part[2] or part[1])) for part in parts if part is not None]
        if len(ends) < len(parts) or any(first > last or last - first > MOST for first, last in ends):
            raise wrong
        found = {agent for first, last in ends for agent in range(first, last + 1)}
    else:
        raise wrong
    if min(found) < 0 or len(found) > MOST:
        raise wrong
    return tuple(sorted(found))


def pair_of(text: str, where: str) -> tuple[Pair, ...]:
    """The directions of a link that a text names: both of "0-3", one of "0>3".

    >>> pair_of("0-3", "links"), pair_of("0>3", "links")
    (((0, 3), (3, 0)), ((0, 3),))
    """
    found = _LINK.fullmatch(text)
    if found is None or int(found[1]) == int(found[3]):
        raise InputError(
            f'{where} has {described(text)}: expected two agents such as "0-3", or "0>3" for one direction.'
        )
    pair = int(found[1]), int(found[3])
    return (pair, pair[::-1]) if found[2] == "-" else (pair,)
