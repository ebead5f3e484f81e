"""Early stopping: a pure function of the rows recorded so far, so that a resumed run decides alike."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from peerdescent._util.numbers import finite_or_none
from peerdescent._util.validation import did_you_mean
from peerdescent.errors import InputError
from peerdescent.runs.metrics import Row
from peerdescent.training.settings import Settings

LARGER_IS_BETTER = ("accuracy", "ema_accuracy")
STOPPED_EARLY = "stopped early"
"""The status in the summary of such a run."""


def monitored(settings: Settings) -> tuple[str, bool]:
    """The column that is monitored, and whether more of it is better.

    >>> monitored(Settings(patience=5)), monitored(Settings(patience=5, monitor="f1:max"))
    (('loss', False), ('f1', True))
    """
    name, colon, end = (settings.monitor or "loss").rpartition(":")
    if colon and end in ("max", "min"):
        return name, end == "max"
    name = settings.monitor or "loss"
    return name, name in LARGER_IS_BETTER


def check_monitor(settings: Settings, columns: Collection[str]) -> None:
    """Refuse to monitor a column that the evaluations do not have."""
    name, _ = monitored(settings)
    if settings.patience is not None and name not in columns:
        near = did_you_mean(name, list(columns))
        raise InputError(f"monitor = {name!r}: there is no such column{near}; it is one of {', '.join(columns)}.")


def reason_to_stop(rows: Sequence[Row], settings: Settings) -> str:
    """Why the run is to end after these evaluations; empty if it is not.

    >>> rows = [{"iteration": 10 * k, "loss": loss} for k, loss in enumerate([3.0, 1.0, 2.0, 1.0])]
    >>> reason_to_stop(rows, Settings(patience=2))
    'stopped early at iteration 30: loss has not improved for 2 evaluations, its best is 1 at iteration 10'
    >>> reason_to_stop(rows[:3], Settings(patience=2))
    ''
    """
    if settings.patience is None or not rows:
        return ""
    name, largest = monitored(settings)
    if finite_or_none(rows[0].get(name)) is None:
        raise InputError(f"monitor = {name!r}: the first evaluation has no such number; monitor another column.")
    best, place = math.inf, 0
    for number, row in enumerate(rows):
        value = finite_or_none(row.get(name))
        if value is not None and (-value if largest else value) < best:
            best, place = -value if largest else value, number
    if len(rows) - 1 - place < settings.patience:
        return ""
    count = f"{settings.patience} evaluation{'s' * (settings.patience > 1)}"
    shown = f"{-best if largest else best:.4g}"
    return (
        f"{STOPPED_EARLY} at iteration {rows[-1]['iteration']}: {name} has not improved for {count}, its best is "
        f"{shown} at iteration {rows[place]['iteration']}"
    )
