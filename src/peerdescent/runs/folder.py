"""A run folder: plain files that anyone can read.

experiment.toml   what was run, with every setting explicit
environment.json  the machine and the versions
metrics.jsonl     one JSON line per evaluation, appended
checkpoints/      the latest states, as safetensors
summary.json      how the run ended
clock.json        simulated seconds in a network, if `clock` was asked for them
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from peerdescent._util import toml
from peerdescent._util.files import MEBIBYTE, naming, read_file, read_text, write_atomically
from peerdescent._util.numbers import jsonable
from peerdescent._version import __version__
from peerdescent.errors import InputError, RecordError
from peerdescent.runs.contents import CHECKPOINTS, ENVIRONMENT, EXPERIMENT, METRICS, SUMMARY, prepare_folder
from peerdescent.runs.lock import is_locked
from peerdescent.runs.metrics import Metrics, Row, parse_rows

MOST_METRICS = 4096 * MEBIBYTE
"""Bytes: a line per evaluation may hold numbers of thousands of agents."""


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Writes that fail in here are reported in one sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise RecordError(error.errno, error.strerror or str(error), error.filename) from error


def write_environment(path: Path) -> None:
    """Write the machine and the versions, which also identifies the folder as a run folder."""
    with recording():
        write_atomically(path / ENVIRONMENT, json.dumps(environment(), indent=2).encode())


class RunFolder:
    """The files of one run, locked while this object is open."""

    def __init__(self, path: str | os.PathLike[str], resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        self._lock = prepare_folder(self.path, resume, overwrite)
        self._metrics = self.path / METRICS

    def close(self) -> None:
        """Release the lock."""
        self._lock.close()

    def describe(self, experiment: dict[str, Any]) -> None:
        """Write the experiment and the environment, and remove the summary of an earlier attempt."""
        with recording():
            (self.path / SUMMARY).unlink(missing_ok=True)
            write_environment(self.path)
            write_atomically(self.path / EXPERIMENT, toml.dumps(experiment))

    def experiment(self) -> dict[str, Any] | None:
        """The experiment in the folder, if there is one."""
        return read_experiment(self.path) if os.path.lexists(self.path / EXPERIMENT) else None

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / CHECKPOINTS

    def append(self, row: Row) -> None:
        """Append a line of metrics; it is on disk when this returns."""
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
        with recording(), naming(self._metrics), open(os.open(self._metrics, flags, 0o666), "ab") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def keep(self, rows: Sequence[Row]) -> None:
        """Make these all the rows there are."""
        with recording():
            write_atomically(self._metrics, b"".join(map(_line, rows)))

    def rewind(self, iteration: int) -> None:
        """Drop the rows after an iteration, and an incomplete last line."""
        self.keep([row for row in read_metrics(self.path) if row["iteration"] <= iteration])

    def finish(self, summary: Row) -> None:
        """Write how the run ended: the last numbers; `status` "stopped" if it was stopped at `iteration`."""
        with recording():
            write_atomically(self.path / SUMMARY, json.dumps(jsonable(summary), indent=2).encode())


def digest_of_rows(rows: Iterable[Row]) -> str:
    """Tells whether rows are as they were.

    >>> digest_of_rows([{"loss": 0.1}]) == digest_of_rows([{"loss": 0.2}])
    False
    """
    digest = hashlib.sha256()
    for row in rows:
        digest.update(_line(row))
    return digest.hexdigest()


def _line(row: Row) -> bytes:
    return json.dumps(jsonable(row)).encode() + b"\n"


def is_running(path: Path) -> bool:
    """Whether a living process is writing to this folder; nothing is created or changed."""
    return is_locked(path)


def read_metrics(path: Path, required: Sequence[str] = ("iteration",)) -> Metrics:
    """The metrics of a run folder, up to an incomplete last line, which a killed run may leave.

    Raises:
        InputError: a line is damaged, or lacks a required column.
    """
    file = path / METRICS
    if not os.path.lexists(file):
        return Metrics()
    return parse_rows(read_file(file, "metrics", MOST_METRICS), str(file), required)


def read_summary(path: Path) -> Row:
    """How the run of a folder ended.

    Raises:
        InputError: there is no summary, or it is damaged.
    """
    summary = _read_json(path / SUMMARY, "summary")
    kinds: dict[str, type] = {"notes": list, "diverged": bool, "status": str, "iteration": int}
    for key, kind in kinds.items():
        if not isinstance(summary.get(key, kind()), kind):
            raise InputError(
                f"{path / SUMMARY}: {key} = {repr(summary[key])[:40]} is not a {kind.__name__}; "
                "restore or remove the file."
            )
    return summary


def read_environment(path: Path) -> Row:
    """The machine and the versions of a run.

    Raises:
        InputError: the file is missing or damaged.
    """
    return _read_json(path / ENVIRONMENT, "environment")


def _read_json(path: Path, what: str) -> Row:
    text = read_text(path, what)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise InputError(f"{path} is damaged: expected a JSON object; restore or remove the file.")
    return content


def read_experiment(path: Path) -> dict[str, Any]:
    """The experiment of a run folder."""
    return toml.loads(read_text(path / EXPERIMENT, "experiment"), str(path / EXPERIMENT))


def environment() -> dict[str, Any]:
    """The machine and the versions that a result depends on."""
    return {
        "peerdescent": __version__,
        "python": platform.python_version(),
        "torch": _version("torch"),
        "numpy": _version("numpy"),
        "system": platform.platform(),
        "machine": platform.machine(),
        "processors": os.cpu_count(),
        "command": sys.argv,
    }


def _version(package: str) -> str:
    """The installed version, read without importing the package."""
    try:
        return version(package)
    except PackageNotFoundError:
        return "unknown"
