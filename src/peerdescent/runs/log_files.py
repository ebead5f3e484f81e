"""The files of loggers in a run folder: which of them are ours, and how they are removed.

metrics.csv    a table of all numbers
tensorboard/   event files, marked by their suffix
wandb/         runs whose id begins with ours, as Weights & Biases lays them out
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

CSV_FILE, TENSORBOARD_FOLDER, WANDB_FOLDER = "metrics.csv", "tensorboard", "wandb"
EVENTS_SUFFIX = ".peerdescent"
EVENTS_NAME = re.compile(r"events\.out\.tfevents\..*\.peerdescent")
WANDB_RUN = re.compile(r"(offline-)?run-\d{8}_\d{6}-(?P<id>pd[0-9a-f]{12})")
_WANDB_LINKS = ("latest-run", "debug.log", "debug-internal.log")
_WANDB_FILES = {
    "": re.compile(r"run-pd[0-9a-f]{12}\.wandb(\.synced)?"),
    "files": re.compile(r"(requirements\.txt|wandb-(metadata|summary)\.json|config\.yaml|output\.log|conda.*\.yaml)"),
    "logs": re.compile(r"debug.*\.log"),
    "tmp/code": re.compile(r"(?!)"),
    "tmp": re.compile(r"(?!)"),
}
"""By folder of a run, the files that wandb writes for us, which sends no media and no code."""


def logs_in(folder: Path) -> list[str]:
    """The loggers that have written into a run folder."""
    found = {
        "csv": os.path.isfile(folder / CSV_FILE),  # False for a name that no file can have
        "tensorboard": any(_matching(folder / TENSORBOARD_FOLDER, EVENTS_NAME)),
        "wandb": any(_matching(folder / WANDB_FOLDER, WANDB_RUN)),
    }
    return [name for name, there in found.items() if there]


def remove_logs(folder: Path) -> None:
    """Remove what loggers have written into a run folder, apart from the table; whatever else is there stays."""
    _unlink(_matching(folder / TENSORBOARD_FOLDER, EVENTS_NAME))
    _remove_if_empty(folder / TENSORBOARD_FOLDER)
    wandb = folder / WANDB_FOLDER
    for run in _matching(wandb, WANDB_RUN):
        remove_wandb_run(run)
    if wandb.is_dir() and not wandb.is_symlink():
        _unlink(path for name in _WANDB_LINKS if (path := wandb / name).is_symlink() and not path.exists())
    _remove_if_empty(wandb)


def wandb_runs(folder: Path) -> list[Path]:
    """The runs in a folder `wandb`, the oldest first."""
    return sorted(_matching(folder, WANDB_RUN), key=lambda path: path.name.rpartition("run-")[2])


def remove_wandb_run(run: Path) -> None:
    """Remove one run of Weights & Biases, file by file."""
    for place, pattern in _WANDB_FILES.items():
        inner = run / place if place else run
        if place:
            _unlink(_matching(inner, pattern))
            _remove_if_empty(inner)
        else:
            _unlink(_matching(run, pattern))
    _remove_if_empty(run)


def _matching(folder: Path, pattern: re.Pattern[str]) -> Iterator[Path]:
    if os.path.isdir(folder) and not os.path.islink(folder):
        yield from sorted(path for path in folder.iterdir() if pattern.fullmatch(path.name))


def _unlink(paths: Iterable[Path]) -> None:
    for path in list(paths):
        with contextlib.suppress(FileNotFoundError):
            if path.is_symlink() or not path.is_dir():
                path.unlink()


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # there is something else in it, or it is a link, or it is gone
        folder.rmdir()
