"""Numbers that JSON can hold: it has no NaN and no infinity, so both become null."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any


def finite_or_none(value: Any) -> Any:
    """The number itself if it is finite, else None.

    >>> finite_or_none(0.5), finite_or_none(float("inf")), finite_or_none(None)
    (0.5, None, None)
    """
    return value if value is not None and math.isfinite(value) else None


def jsonable(value: Any) -> Any:
    """The value with every NaN and infinity replaced by None, at any depth; tuples become lists.

    >>> jsonable({"loss": float("nan"), "agent_loss": (1.0, float("inf")), "note": "short"})
    {'loss': None, 'agent_loss': [1.0, None], 'note': 'short'}
    """
    if isinstance(value, float):
        return finite_or_none(value)
    if isinstance(value, Mapping):
        return {key: jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    return value
