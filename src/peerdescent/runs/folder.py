"""A run folder: plain files that anyone can read.

experiment.toml   what was run, with every setting explicit
environment.json  the machine and the versions
metrics.jsonl     one JSON line per evaluation, appended
checkpoints/      the latest states, as safetensors
summary.json      how the run ended
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import IO, Any

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from peerdescent._util import toml
from peerdescent._util.files import TEMPORARY, remove_temporary_files, write_atomically
from peerdescent._util.numbers import jsonable
from peerdescent._version import __version__
from peerdescent.errors import InputError
from peerdescent.runs.metrics import Metrics, Row

ENVIRONMENT = "environment.json"
"""The first file to be written; it identifies a run folder, since other programs may write an experiment.toml too."""
CHECKPOINTS = "checkpoints"
LOCK = ".lock"
LEFTOVERS = (".writable", LOCK)
"""What a run leaves behind if it is killed before it has written its environment."""


def is_leftover(path: Path) -> bool:
    """Whether a run that was killed before it wrote its environment may have left this file."""
    return path.name in LEFTOVERS or path.suffix == TEMPORARY


def prepare_folder(path: Path, resume: bool, overwrite: bool) -> None:
    """Create the folder. One that holds files is refused, unless its run is resumed or overwritten."""
    try:
        occupied = path.exists() and (not path.is_dir() or any(not is_leftover(p) for p in path.iterdir()))
        if occupied and not (resume or overwrite):
            raise InputError(f"{path} is not empty: choose another --out, or add --resume or --overwrite.")
        if occupied and not _is_run_folder(path):
            raise InputError(f"{path} is not a run folder and is left unchanged: choose another --out.")
        if occupied and overwrite and not resume:
            shutil.rmtree(path)
        path.mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"cannot write to {path}: {error.strerror or error}.") from error


def write_environment(path: Path) -> None:
    """Write the machine and the versions, which also identifies the folder as a run folder."""
    write_atomically(path / ENVIRONMENT, json.dumps(environment(), indent=2).encode())


def _is_run_folder(path: Path) -> bool:
    try:
        return "peerdescent" in json.loads((path / ENVIRONMENT).read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError):
        return False


def _acquire_lock(path: Path) -> IO[str] | None:
    """Lock the folder; the system releases the lock when the process ends, however it ends."""
    if fcntl is None:
        return None
    file = open(path / LOCK, "w", encoding="utf-8")  # noqa: SIM115 (open for as long as the folder is written)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise InputError(f"another process is writing to {path}: wait for it, or choose another --out.") from None
    return file


class RunFolder:
    """The files of one run, locked while this object is open."""

    def __init__(self, path: str | os.PathLike[str], resume: bool = False, overwrite: bool = False) -> None:
        self.path = Path(path)
        prepare_folder(self.path, resume, overwrite)
        self._lock = _acquire_lock(self.path)
        remove_temporary_files(self.path)
        self._metrics = self.path / "metrics.jsonl"

    def close(self) -> None:
        """Release the lock."""
        if self._lock is not None:
            self._lock.close()

    def describe(self, experiment: dict[str, Any]) -> None:
        """Write the experiment and the environment, and remove the summary of an earlier attempt."""
        (self.path / "summary.json").unlink(missing_ok=True)
        write_environment(self.path)
        write_atomically(self.path / "experiment.toml", toml.dumps(experiment))

    def experiment(self) -> dict[str, Any] | None:
        """The experiment in the folder, if there is one."""
        return read_experiment(self.path) if (self.path / "experiment.toml").is_file() else None

    @property
    def checkpoints(self) -> Path:
        """The folder of the checkpoints."""
        return self.path / CHECKPOINTS

    def append(self, row: Row) -> None:
        """Append a line of metrics; it is on disk when this returns."""
        with open(self._metrics, "a", encoding="utf-8") as file:
            file.write(_line(row))
            file.flush()
            os.fsync(file.fileno())

    def last_iteration(self) -> int:
        """The iteration of the last recorded row; −1 without any."""
        rows = read_metrics(self.path)
        return int(rows[-1]["iteration"]) if len(rows) else -1

    def rewind(self, iteration: int) -> Metrics:
        """Drop the rows after an iteration, and an incomplete last line; returns the rows that are kept."""
        kept = [row for row in read_metrics(self.path) if row["iteration"] <= iteration]
        write_atomically(self._metrics, "".join(map(_line, kept)).encode())
        return Metrics(kept)

    def finish(self, summary: Row) -> None:
        """Write how the run ended."""
        write_atomically(self.path / "summary.json", json.dumps(jsonable(summary), indent=2).encode())


def _line(row: Row) -> str:
    return json.dumps(jsonable(row)) + "\n"


def read_metrics(path: Path) -> Metrics:
    """The metrics of a run folder, up to the first incomplete line, which a killed run may leave."""
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


def read_summary(path: Path) -> Row:
    """How the run of a folder ended; raises OSError or ValueError if the file is absent or damaged."""
    summary: Row = json.loads((path / "summary.json").read_text(encoding="utf-8"))
    return summary


def read_experiment(path: Path) -> dict[str, Any]:
    """The experiment of a run folder."""
    return toml.loads((path / "experiment.toml").read_text(encoding="utf-8"), str(path / "experiment.toml"))


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
