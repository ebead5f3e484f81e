"""What a run folder consists of, and how it is prepared for a run: locked first, then checked, then cleared.

Clearing removes files that the library writes, by name; whatever else is there stays. Links are not followed.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import warnings
from collections.abc import Iterator
from pathlib import Path

from peerdescent._util import toml
from peerdescent._util.files import FULL_DISK, is_temporary, make_folder, read_file, read_text, remove_temporary_files
from peerdescent.errors import InputError, RecordError
from peerdescent.runs.lock import LOCK, FolderLock, held_by, is_locked
from peerdescent.runs.log_files import CSV_FILE, remove_logs

ENVIRONMENT = "environment.json"
"""The first file to be written; it identifies a run folder, since other programs may write an experiment.toml too."""
EXPERIMENT, METRICS, SUMMARY = "experiment.toml", "metrics.jsonl", "summary.json"
CLOCK = "clock.json"
COMPARISON, TUNING, SWEEP = "comparison.toml", "tuning.toml", "sweep.toml"
CHECKPOINTS, FIGURES = "checkpoints", "figures"
MANIFEST = "manifest.json"
CHECKPOINT_NAME = re.compile(r"\d{12}(\.safetensors)?")
PART_NAME = re.compile(r"agents-(\d+)-(\d+)\.safetensors")
_FILES = ("table.md", "table.csv", CLOCK, CSV_FILE, METRICS, EXPERIMENT)
_FILES_OF_A_TUNING = ("tuned.toml", "results.json", "README.md", "trials.jsonl")
_FIGURES = tuple(f"{name}.{kind}" for name in ("comparison", "topology", "tuned", "sweep") for kind in ("png", "pdf"))
_RUNS_OF_A_TUNING = ("trials", "own", "tuned")
_DEPTH = 5
"""How far the runs of a tuning are below its folder."""
_DEPTH_OF_A_SWEEP = 2
"""How far the runs of a sweep are below the folder of their method: grid point, seed."""


def is_leftover(path: Path) -> bool:
    """Whether a run that was killed before it wrote its environment may have left this file."""
    return path.name == LOCK or is_temporary(path)


def is_run_folder(path: Path) -> bool:
    """Whether the library has written into this folder before."""
    try:
        return "peerdescent" in json.loads(read_file(path / ENVIRONMENT))
    except (ValueError, TypeError, RecursionError):
        return False


def prepare_folder(path: Path, resume: bool, overwrite: bool) -> FolderLock:
    """Create and lock the folder. One that holds files is refused, unless its run is resumed or overwritten.

    Returns the lock, which is to be closed when all is written.
    """
    try:
        _check(path, resume, overwrite)
        make_folder(path)
        lock = FolderLock(path)
        try:
            _check(path, resume, overwrite)  # another process may have used the folder meanwhile
            _check_kinds(path)
            if overwrite and not resume and is_run_folder(path):
                _overwrite(path)
            _remove_temporary_files(path)
        except BaseException:
            lock.close()
            raise
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        if isinstance(error, InputError):
            raise
        if isinstance(error, OSError) and error.errno in FULL_DISK:
            raise RecordError(error.errno, error.strerror, str(path)) from error  # no fault of the input
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot write to {path}: {reason}; choose another --out.") from error
    return lock


def _check(path: Path, resume: bool, overwrite: bool) -> None:
    """Refuse a folder with files in it that is not to be resumed or overwritten, or is none of ours."""
    if not os.path.lexists(path):
        return
    if not path.is_dir():
        raise InputError(f"{path} is not a folder and is left unchanged: choose another --out.")
    if all(is_leftover(item) for item in path.iterdir()):
        return
    if not is_run_folder(path):
        raise InputError(f"{path} is not empty, is not a run folder and is left unchanged: choose another --out.")
    if not (resume or overwrite):
        busy = is_locked(path)
        raise InputError(
            held_by(path) if busy else f"{path} is not empty: choose another --out, or add --resume or --overwrite."
        )


def _overwrite(path: Path) -> None:
    """Remove what the library has written into a folder that is locked; the folder itself stays a run folder."""
    inner = list(_runs_below(path))
    for folder in inner:
        if is_locked(folder):
            raise InputError(held_by(folder))
    for folder in inner:
        _check_kinds(folder)
    for folder in (path, *inner):
        _check_checkpoints(folder)
    for folder in inner:
        with FolderLock(folder) as lock:
            _clear(folder)
            _give_up(folder, lock, path)
    _clear(path)
    _unlink(path / COMPARISON, path / TUNING, path / SWEEP)  # last: they tell which runs below are ours
    kept = _others(path, inner)
    if kept:
        names = ", ".join(map(str, kept[:3])) + (", …" if len(kept) > 3 else "")
        warnings.warn(f"kept in {path}, since no run wrote it: {names}", stacklevel=4)


def _clear(folder: Path) -> None:
    """Remove the files of one run; killed half way, it can still be overwritten, or resumed from what is left."""
    _unlink(folder / SUMMARY)
    remove_checkpoints(folder)
    remove_logs(folder)
    tuning = _FILES_OF_A_TUNING if os.path.lexists(folder / TUNING) else ()
    _unlink(*(folder / name for name in (*tuning, *_FILES)))
    if not (folder / FIGURES).is_symlink():
        _unlink(*(folder / FIGURES / name for name in _FIGURES))
        _remove_if_empty(folder / FIGURES)


def _give_up(folder: Path, lock: FolderLock, top: Path) -> None:
    """Remove the folder of a cleared run, and those above it up to `top`, unless there is something else in them."""
    _remove_temporary_files(folder)
    if all(item.name in (ENVIRONMENT, LOCK) for item in folder.iterdir()):
        _unlink(folder / ENVIRONMENT)
        lock.remove()
        while folder != top:
            _remove_if_empty(folder)
            folder = folder.parent


def _remove_temporary_files(folder: Path) -> None:
    """Those of this run, not of runs below it, which have locks of their own."""
    for place in (folder, folder / FIGURES, folder / CHECKPOINTS):
        if not place.is_symlink() or place == folder:
            remove_temporary_files(place, subfolders=place.name == CHECKPOINTS)


def remove_checkpoints(folder: Path) -> None:
    """Remove all checkpoints of a run folder that is locked; a link to them is removed, but not what it leads to."""
    saved = folder / CHECKPOINTS
    if saved.is_symlink():
        return _unlink(saved)
    for path in checkpoints_in(saved):
        remove_checkpoint(path)
    if saved.is_dir():
        remove_temporary_files(saved)
        _remove_if_empty(saved)
    return None


def checkpoints_in(folder: Path) -> list[Path]:
    """What may be a checkpoint in a folder of checkpoints, the newest first."""
    entries = [path for path in folder.glob("*") if CHECKPOINT_NAME.fullmatch(path.name)]
    return sorted(entries, key=lambda path: path.name, reverse=True)


def remove_checkpoint(path: Path) -> None:
    """Remove a checkpoint; its manifest goes first, so that a half removed one does not count."""
    if path.is_symlink() or not path.is_dir():
        return _unlink(path)
    _unlink(path / MANIFEST)
    with contextlib.suppress(FileNotFoundError):  # the processes of a run remove it together
        _unlink(*(part for part in path.iterdir() if PART_NAME.fullmatch(part.name)))
        remove_temporary_files(path)
        _remove_if_empty(path)
    return None


def _runs_below(path: Path) -> Iterator[Path]:
    """The run folders that a comparison or a tuning has made below its own."""
    for name in _methods_of(path / COMPARISON):
        _check(path / name, resume=False, overwrite=True)
        yield from _ours(path / name, 0)
    for name in _methods_of(path / SWEEP):
        yield from _ours(path / name, _DEPTH_OF_A_SWEEP)
    if os.path.lexists(path / TUNING):
        for name in _RUNS_OF_A_TUNING:
            yield from _ours(path / name, _DEPTH)


def _methods_of(file: Path) -> list[str]:
    """The methods that a comparison or a sweep lists, each of which has a folder."""
    if not os.path.lexists(file):
        return []
    keys = toml.loads(read_text(file, file.stem), str(file))
    listed = keys.get("algorithms", [keys.get("algorithm")])
    names = [name for name in listed if isinstance(name, str)] if isinstance(listed, list) else []
    return [name for name in names if name not in ("", ".", "..") and Path(name).name == name]


def _ours(folder: Path, depth: int) -> Iterator[Path]:
    if folder.is_symlink() or not folder.is_dir():
        return
    if is_run_folder(folder):
        yield folder
    elif depth:
        for item in sorted(folder.iterdir()):
            yield from _ours(item, depth - 1)


def _check_kinds(folder: Path) -> None:
    """Refuse a folder where one is in place of a file or the other way round, before anything is written or removed."""
    if os.path.lexists(folder / FIGURES) and not (folder / FIGURES).is_dir():
        raise InputError(f"{folder / FIGURES} is not a folder: move it, or choose another --out.")
    files = [folder / name for name in (SUMMARY, *_FILES, *_FILES_OF_A_TUNING, COMPARISON, TUNING, SWEEP)]
    _check_files([*files, *(folder / FIGURES / name for name in _FIGURES)])


def _check_checkpoints(folder: Path) -> None:
    """Refuse to remove checkpoints with a folder in place of one of their files, before anything is removed."""
    files: list[Path] = []
    for saved in checkpoints_in(folder / CHECKPOINTS):
        parts = saved.iterdir() if saved.is_dir() and not saved.is_symlink() else ()
        files += [saved] * (saved.suffix != "")
        files += [part for part in parts if part.name == MANIFEST or PART_NAME.fullmatch(part.name)]
    _check_files(files)


def _check_files(files: list[Path]) -> None:
    for path in files:
        if path.is_dir() and not path.is_symlink():
            raise InputError(f"{path} is a folder where a file is expected: move it, or choose another --out.")


def _others(path: Path, inner: list[Path]) -> list[Path]:
    """What is left in a cleared folder, and in those of its runs, besides what says that they are run folders."""
    below = {folder for one in inner for folder in (one, *one.parents)}
    found: list[Path] = []
    for folder in dict.fromkeys([path, *inner]):
        if folder.is_dir():
            left = [item for item in sorted(folder.iterdir()) if item.name not in (ENVIRONMENT, LOCK)]
            found += [item.relative_to(path) for item in left if item not in below]
    return found


def _unlink(*paths: Path) -> None:
    for path in paths:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            path.unlink()


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):  # there is something else in it, or it is a link, or it is gone
        folder.rmdir()
