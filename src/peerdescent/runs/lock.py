"""The lock of a folder: one writer at a time. The operating system releases it, however the process ends."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import socket
import stat
import time
import warnings
from pathlib import Path
from types import TracebackType

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

from peerdescent.errors import InputError

LOCK = ".lock"
_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
_HELD = (errno.EWOULDBLOCK, errno.EACCES, errno.EAGAIN)
ATTEMPTS, PAUSE = 5, 0.05
"""`is_locked` holds a lock for a moment; that is no reason to refuse a run."""


class FolderLock:
    """The right to write into a folder, from now until `close`.

    The lock file names its holder. It stays when the lock is released: removing it would let two processes hold
    locks on two files of the same name.

    Args:
        folder: an existing folder.

    Raises:
        InputError: another process holds the lock, or there is something else in its place.
        OSError: the folder cannot be written.
    """

    def __init__(self, folder: Path) -> None:
        self.path, self._pid = folder / LOCK, os.getpid()
        self._descriptor: int | None = None
        self._descriptor = self._acquire()
        holder = {"pid": self._pid, "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M")}
        with contextlib.suppress(OSError):  # on a full disk, the lock holds without a name
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, json.dumps(holder).encode(), 0)

    def close(self) -> None:
        """Release the lock."""
        if self._descriptor is None:
            return
        if self._pid == os.getpid():  # a forked child has a copy of the descriptor
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
        os.close(self._descriptor)
        self._descriptor = None

    def remove(self) -> None:
        """Remove the lock file and release the lock: the last thing to do in a folder that is given up."""
        self.path.unlink(missing_ok=True)
        self.close()

    def __enter__(self) -> FolderLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        self.close()

    def _acquire(self) -> int:
        while True:
            descriptor = self._open()
            try:
                self._lock(descriptor)
                if _is_still(self.path, descriptor):
                    return descriptor
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)  # its holder has removed it: there is another one by now, or none

    def _open(self) -> int:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | _SAFELY, 0o600)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.EISDIR, errno.ENXIO):
                raise InputError(f"{self.path} is not a lock file: remove it, or choose another --out.") from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise InputError(f"{self.path} is not a lock file: remove it, or choose another --out.")
        return descriptor

    def _lock(self, descriptor: int) -> None:
        if fcntl is None:
            return
        for attempt in range(ATTEMPTS):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in _HELD:
                    where = self.path.parent
                    warnings.warn(f"{where} cannot be locked ({error.strerror}): use it in one run only", stacklevel=5)
                    return
                if attempt == ATTEMPTS - 1:
                    raise InputError(held_by(self.path.parent)) from None
            time.sleep(PAUSE)


def is_locked(folder: Path) -> bool:
    """Whether a living process holds the lock of a folder; nothing is created or changed."""
    if fcntl is None:
        return False
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | _SAFELY)
    except (OSError, ValueError):
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        return error.errno in _HELD
    finally:
        os.close(descriptor)
    return False


def held_by(folder: Path) -> str:
    """A sentence on who is writing to a folder, and what to do."""
    try:
        with open(os.open(folder / LOCK, os.O_RDONLY | _SAFELY), "rb") as file:
            holder = json.loads(file.read(1000))
        pid, host, since = int(holder["pid"]), str(holder["host"]), str(holder["since"])
        who = f"process {pid} on {host} has been writing to {folder} since {since}"
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # it has not written its name yet
        who = f"another process is writing to {folder}"
    return f"{who}: wait for it, or choose another --out."


def _is_still(path: Path, descriptor: int) -> bool:
    """Whether a path leads to the file that was opened."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(found, os.fstat(descriptor))
