"""The columns of metrics that tables, figures and pages show, and what they are called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from peerdescent.runs.metrics import COLUMNS

LABELS = {"loss": "risk", "accuracy": "test accuracy", "test_loss": "test loss"}
NOT_DRAWN = ("agent_", "ema_")
"""How the columns of single agents and of the moving average begin."""


def added_columns(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The columns of numbers that not every run has: the user's own and those of the moving average.

    >>> added_columns([{"loss": 1.0, "f1": None, "notes": []}, {"f1": 0.5, "ema_loss": 1, "agent_f1": [0]}])
    ['f1', 'ema_loss']
    """
    known = dict.fromkeys(
        name
        for row in rows
        for name, value in row.items()
        if name not in COLUMNS and isinstance(value, int | float) and not isinstance(value, bool)
    )
    return list(known)


def label(column: str) -> str:
    """What a column is called.

    >>> label("test_loss"), label("f1"), label("ema_loss")
    ('test loss', 'f1', 'risk of the moving average')
    """
    if column.startswith("ema_"):
        return f"{label(column.removeprefix('ema_'))} of the moving average"
    return LABELS.get(column, column)
