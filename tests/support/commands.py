"""Commands and processes as tests see them: how they ended, what they recorded, who is alive."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest

PATIENCE = 300
"""Seconds after which something is taken to hang; nothing here comes near."""


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """The lines on stderr but for notes, which may stand beside an error."""
        return [line for line in self.err.splitlines() if not line.startswith("note: ")]


Command = Callable[..., Said]


def rows(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics but for the time they took."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return without_seconds([json.loads(line) for line in lines])


def without_seconds(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the times, which are different every time."""
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in table]


def members(session: int) -> list[int]:
    """The living processes of a session, for commands that are started in one of their own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(number) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def until(done: Callable[[], object], said: Callable[[], str] = str) -> None:
    """Return when something is done; what hangs fails, with what was said until then."""
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            pytest.fail(f"it hangs\n{said()}")
        time.sleep(0.05)
