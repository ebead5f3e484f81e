"""Atomic file writes."""

from __future__ import annotations

import contextlib
import os
import secrets
import time
from pathlib import Path

TEMPORARY = ".part"
"""The suffix of temporary files."""


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
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
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
