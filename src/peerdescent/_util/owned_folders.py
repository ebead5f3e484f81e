"""Temporary folders that outlive no run: each has an owner, and those of dead owners are removed at the next start.

The owner holds a lock on a file in the folder. The system releases it when the process ends, however it ends, so no
process has to be looked up by its number, which may have been given to another one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
import weakref
from pathlib import Path

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

PREFIX = "peerdescent-"
OWNER = "owner"
"""The file in each folder on which its owner holds a lock."""
SECONDS_TO_LOCK = 60.0
"""An empty folder without an owner may be one that is being made, unless it is older."""


class OwnedFolder:
    """A folder that only this user can open, removed by `remove`, at exit, or at the next start after a crash.

    Args:
        base: where it is made.
        kind: part of its name; folders of the same kind are looked through for dead owners first.

    >>> folder = OwnedFolder(Path(tempfile.gettempdir()), "example")
    >>> folder.path.is_dir()
    True
    >>> folder.remove()
    >>> folder.path.exists()
    False
    """

    def __init__(self, base: Path, kind: str) -> None:
        remove_dead(base, kind)
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{kind}-", dir=base))
        lock = _lock_new(self.path)
        self._finalizer = weakref.finalize(self, _remove, self.path, lock, os.getpid())

    def remove(self) -> None:
        """Remove the folder and what it holds."""
        self._finalizer()


def remove_dead(base: Path, kind: str) -> None:
    """Remove this user's folders whose owner has ended; symbolic links are neither followed nor removed.

    Args:
        base: where they are.
        kind: as given when they were made.
    """
    if fcntl is None:
        return
    with contextlib.suppress(OSError):
        for path in base.glob(f"{PREFIX}{kind}-*"):
            with contextlib.suppress(OSError):  # another process may remove it at the same time
                _remove_if_dead(path)


def _remove_if_dead(path: Path) -> None:
    status = path.lstat()
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return
    try:
        lock = os.open(path / OWNER, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - status.st_mtime > SECONDS_TO_LOCK:
            path.rmdir()  # its maker was killed before it had locked it; fails unless it is empty
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # fails if the owner is alive
        shutil.rmtree(path)
    finally:
        os.close(lock)


def _lock_new(path: Path) -> int | None:
    """Lock a new folder. The file gets its name after it is locked, so that nobody finds it unlocked."""
    if fcntl is None:
        return None
    unnamed = path / f"{OWNER}.new"
    lock = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    unnamed.rename(path / OWNER)
    return lock


def _remove(path: Path, lock: int | None, owner: int) -> None:
    if os.getpid() == owner:  # not in a fork
        shutil.rmtree(path, ignore_errors=True)
        if lock is not None:
            os.close(lock)
