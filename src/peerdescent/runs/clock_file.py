"""clock.json: the simulated seconds of a run's evaluations, next to its metrics, which stay as the run wrote them."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peerdescent._util.files import read_text, write_atomically
from peerdescent._util.numbers import finite_or_none
from peerdescent.errors import InputError
from peerdescent.runs.contents import CLOCK
from peerdescent.runs.folder import recording
from peerdescent.runs.lock import FolderLock
from peerdescent.runs.metrics import Metrics

COLUMN = "simulated_seconds"


def write_clock(folder: Path, network: str, model: Mapping[str, Any], metrics: Metrics) -> None:
    """Write the simulated seconds of these rows, while no run writes into the folder.

    Args:
        folder: the run folder.
        network: the name of the network.
        model: its keys.
        metrics: rows with simulated seconds.
    """
    times = [[row["iteration"], row[COLUMN]] for row in metrics]
    content = {"network": network, "model": model, COLUMN: times}
    with recording(), FolderLock(folder):
        write_atomically(folder / CLOCK, json.dumps({**content, "sha256": _digest(content)}).encode())


def with_clock(metrics: Metrics, folder: Path) -> Metrics:
    """The metrics of a run folder with a column of simulated seconds, if it has a clock.

    Rows that are newer than the clock have none.

    Raises:
        InputError: the clock is damaged.
    """
    if not os.path.lexists(folder / CLOCK):
        return metrics
    times = _times(folder / CLOCK)
    return Metrics([{**row, COLUMN: times.get(row["iteration"])} for row in metrics])


def _times(path: Path) -> dict[int, float]:
    """The simulated seconds by iteration."""
    text = read_text(path, "clock")
    try:
        content = json.loads(text)
        digest = content.pop("sha256")
        times = {int(k): float(seconds) for k, seconds in content[COLUMN]}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        digest, content, times = "", {}, {}
    if digest != _digest(content) or any(finite_or_none(seconds) is None for seconds in times.values()):
        raise InputError(f"{path} is damaged: remove it, or write it anew with `peerdescent clock`.")
    return times


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
