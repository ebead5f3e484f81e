"""The run folder: plain files that anyone can read.

experiment.toml   what was run, every choice made explicit
environment.json  on which machine and with which versions
metrics.jsonl     one JSON line per evaluation, appended
checkpoints/      the last states, as safetensors
summary.json      how it ended
"""

from __future__ import annotations

import json
import math
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch

try:
    import fcntl
except ImportError:  # Windows has no such locks
    fcntl = None  # type: ignore[assignment]

from peerdescent._util import toml
from peerdescent._util.files import TEMPORARY, remove_temporary_files, write_atomically
from peerdescent._version import __version__
from peerdescent.errors import InputError
from peerdescent.runs.metrics import Metrics, Row

MARK = "environment.json"
"""The file that shows that a folder was made by us, the first to be written; people name theirs experiment.toml too."""
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
LEFTOVERS = (".writable", LOCK)
"""What a run can leave that was killed before it could write its mark."""


def is_leftover(path: Path) -> bool:
    """Whether a run that was killed before it wrote its mark may have left this file."""
    return path.name in LEFTOVERS or path.suffix == TEMPORARY


def claim(path: Path, resume: bool, overwrite: bool) -> None:
    """Make the folder, or refuse one that holds something, unless it is to be continued or replaced."""
    try:
        occupied = path.exists() and (not path.is_dir() or any(not is_leftover(p) for p in path.iterdir()))
        if occupied and not (resume or overwrite):
            raise InputError(f"{path} is not empty: choose another --out, or say --resume or --overwrite.")
        if occupied and not _is_ours(path):
            raise InputError(f"{path} does not look like a run folder and is left alone: choose another --out.")
        if occupied and overwrite and not resume:
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write into {path}: {error.strerror or error}.") from error


def _locked(path: Path) -> IO[str] | None:
    """A lock that the system takes back when the process ends, however it ends."""
    if fcntl is None:
        return None
    file = open(path / LOCK, "w", encoding="utf-8")  # noqa: SIM115 (it stays open as long as the folder is written)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(f"another process is writing into {path}: wait for it, or choose another --out.") from None
    return file


def _is_ours(path: Path) -> bool:
    try:
        return "peerdescent" in json.loads((path / MARK).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def mark(path: Path) -> None:
    """Write on which machine the folder was made, which shows that it is ours."""
    write_atomically(path / MARK, json.dumps(environment(), indent=2).encode())


class RunFolder:
    """One run's files."""

    def __init__(self, path: str | os.PathLike[str], resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        claim(self.path, resume, overwrite)
        self._lock = _locked(self.path)
        remove_temporary_files(self.path)
        self._lines = self.path / "metrics.jsonl"

    def close(self) -> None:
        """Let others write here."""
        if self._lock is not None:
            self._lock.close()

    def describe(self, experiment: dict[str, Any]) -> None:
        """Write what is run, and where; how an earlier run ended is no longer true."""
        (self.path / "summary.json").unlink(missing_ok=True)
        mark(self.path)
        write_atomically(self.path / "experiment.toml", toml.dumps(experiment))

    def experiment(self) -> dict[str, Any] | None:
        """What the folder says was run, if it says so."""
        return read_experiment(self.path) if (self.path / "experiment.toml").is_file() else None

    @property
    def checkpoints(self) -> Path:
        """Where states are kept."""
        return self.path / CHECKPOINTS

    def append(self, row: Row) -> None:
        """One more line of metrics; it is on the disk when this returns."""
        with open(self._lines, "a", encoding="utf-8") as file:
            file.write(json.dumps(_plain(row)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def last_iteration(self) -> int:
        """How far the recorded metrics go; −1 without any."""
        rows = read_metrics(self.path)
        return int(rows[-1]["iteration"]) if len(rows) else -1

    def rewind(self, iteration: int) -> Metrics:
        """Drop the lines after an iteration (and a torn last line); returns those that stay."""
        kept = [row for row in read_metrics(self.path) if row["iteration"] <= iteration]
        text = "".join(json.dumps(_plain(row)) + "\n" for row in kept)
        write_atomically(self._lines, text.encode())
        return Metrics(kept)

    def finish(self, summary: Row) -> None:
        """Say how it ended."""
        write_atomically(self.path / "summary.json", json.dumps(_plain(summary), indent=2).encode())


def read_metrics(path: Path) -> Metrics:
    """The table of a run folder; a torn last line, left by a killed run, is passed over."""
    rows = []
    try:
        lines = (path / "metrics.jsonl").read_text(encoding="utf-8", errors="replace").splitlines()
    except FileNotFoundError:
        return Metrics()
    for line in lines:
        try:
            rows.append(json.loads(line))
        except ValueError:
            break
    return Metrics(rows)


def read_experiment(path: Path) -> dict[str, Any]:
    """What a run folder says was run."""
    return toml.loads((path / "experiment.toml").read_text(encoding="utf-8"), str(path / "experiment.toml"))


def read_summary(path: Path) -> Row:
    """How a run ended, as its folder says; empty while it goes on."""
    try:
        summary = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return summary if isinstance(summary, dict) else {}


def environment() -> dict[str, Any]:
    """The machine and the versions that a result depends on."""
    return {
        "peerdescent": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "command": sys.argv,
    }


def _plain(row: Row) -> Row:
    """JSON has no NaN or infinity: they are written as null."""
    return {key: _finite(value) for key, value in row.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return value
