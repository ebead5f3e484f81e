"""Files: reading what users name, atomic writes."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
import time
from pathlib import Path

from peerdescent.errors import InputError

TEMPORARY = ".part"
"""The suffix of temporary files."""


def read_file(path: Path, what: str = "file", max_bytes: int = 64 << 20) -> bytes:
    """Read a regular file of limited size: a FIFO would block, and a device has no end.

    Args:
        path: the file.
        what: the kind of file, for the message: "experiment file".
        max_bytes: the largest size that is accepted.

    Raises:
        InputError: the file is missing, unreadable, not a regular file or too large.

    >>> read_file(Path("/dev/null"), "edge file")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: cannot read the edge file '/dev/null': it is not a regular file.
    """
    name = f"cannot read the {what} {str(path)!r}"
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:  # ValueError: a null character in the path
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(f"{name}: {reason[:1].lower()}{reason[1:]}.") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode):
            raise InputError(f"{name}: it is {'a folder' if stat.S_ISDIR(mode) else 'not a regular file'}.")
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(max_bytes + 1)  # files of the system claim a size of 0
    except OSError as error:
        raise InputError(f"{name}: {(error.strerror or str(error)).lower()}.") from None
    finally:
        os.close(descriptor)
    if len(content) > max_bytes:
        raise InputError(f"{name}: it has more than {max_bytes:,} bytes, the most that is accepted.")
    return content


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, even if the process or the machine dies.

    The content goes to a temporary file in the same folder, which is flushed to disk and renamed. The temporary name
    is random and created exclusively, so concurrent writers do not collide and a symbolic link in its place is not
    followed. It is removed if the write fails.

    Args:
        path: the file; its folder must exist.
        content: the bytes.

    Raises:
        OSError: the folder cannot be written.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), b"content")
    ...     os.listdir(folder)
    ['a.txt']
    """
    path = Path(path)
    part = path.with_name(f"{secrets.token_hex(8)}{TEMPORARY}")
    try:
        with open(part, "xb") as file:  # O_CREAT | O_EXCL
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if isinstance(error, OSError):
            error.filename = str(path)  # not the temporary name, which means nothing to a user
        raise
    _sync_folder(path.parent)


def remove_temporary_files(folder: Path, min_age: float = 0.0) -> None:
    """Remove temporary files that killed processes left in a folder and its subfolders.

    Args:
        folder: where to look.
        min_age: seconds since the last write; younger files may belong to a running process.
    """
    for part in list(folder.rglob(f"*{TEMPORARY}")):
        with contextlib.suppress(FileNotFoundError):  # another process may remove it first
            if time.time() - part.stat().st_mtime >= min_age:
                part.unlink()


def _sync_folder(folder: Path) -> None:
    """Make a rename durable; not every system can open or sync a folder."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
