"""Edges in one text, `I-J` or `I-J=W` separated by commas, as graphs and weights are written."""

from __future__ import annotations

import re
from collections.abc import Iterator

from peerdescent.errors import InputError

_EDGE = re.compile(r"\s*([0-9]{1,18})\s*-\s*([0-9]{1,18})\s*(?:=(.*))?", re.DOTALL)


def split_edges(text: str) -> Iterator[tuple[int, int, str | None]]:
    """The edges of a text, with the texts of their weights.

    >>> list(split_edges("0-1=0.5,2-1"))
    [(0, 1, '0.5'), (2, 1, None)]
    """
    for item in text.split(","):
        found = _EDGE.fullmatch(item)
        if found is None:
            raise InputError(f"expected I-J or I-J=W with agents from 0, not {item.strip()[:60]!r}.")
        yield int(found[1]), int(found[2]), found[3]
