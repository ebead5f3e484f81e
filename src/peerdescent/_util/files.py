"""Files as users and killed processes leave them: read if they are plain, written whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Iterator
from pathlib import Path

from peerdescent.errors import InputError

MEBIBYTE = 2**20
FULL_DISK = (errno.ENOSPC, errno.EIO, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Errors of a write that the input is not to blame for."""
TEMPORARY = ".part"
"""The suffix of temporary files."""
_TEMPORARY_NAME = re.compile(rf"[0-9a-f]{{16}}{re.escape(TEMPORARY)}")
_READING = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0) | getattr(os, "O_BINARY", 0)
"""A FIFO is opened without waiting for its writer, and a terminal does not become ours."""


def read_file(path: Path, what: str = "file", max_bytes: int = 64 * MEBIBYTE) -> bytes:
    """The content of a regular file; pipes, devices and folders are refused, since reading them may never end.

    Args:
        path: the file.
        what: what it is, for the message.
        max_bytes: the size above which it is refused.

    Raises:
        InputError: the file is missing, unreadable, too large or not a regular file; the message names it.

    >>> read_file(Path("/dev/zero"), "graph file")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: /dev/zero is a device: expected a regular graph file.
    """
    try:
        descriptor = os.open(path, _READING)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise InputError(f"{path} is {_kind(found.st_mode)}: expected a regular {what}.")
            size = min(found.st_size + MEBIBYTE, max_bytes + 1)  # it may grow meanwhile
            with open(descriptor, "rb", closefd=False) as file:
                content = file.read(size) if found.st_size <= max_bytes else b""
        finally:
            os.close(descriptor)
    except FileNotFoundError:
        raise InputError(f"there is no {what} {path}: check its name.") from None
    except (OSError, ValueError) as error:  # ValueError: a name with a null character
        if isinstance(error, InputError):
            raise
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(f"cannot read the {what} {path}: {reason}.") from None
    if max(len(content), found.st_size) > max_bytes:
        raise InputError(f"the {what} {path} is larger than {max_bytes / MEBIBYTE:g} MiB, which is not expected.")
    return content


def read_text(path: Path, what: str = "file", max_bytes: int = 64 * MEBIBYTE) -> str:
    """The same as UTF-8 text; anything else is refused."""
    content = read_file(path, what, max_bytes)
    try:
        return content.decode("utf-8-sig")  # editors on Windows write a mark first
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"the {what} {path} is not text: line {line} holds a byte that is not UTF-8; restore the file."
        ) from None


def _kind(mode: int) -> str:
    kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file completely or not at all, even if the process or the machine dies.

    The content goes to a temporary file in the same folder, which is flushed to disk and renamed. The temporary name
    is random and created exclusively, so concurrent writers do not collide and a symbolic link in its place is not
    followed. It is removed if the write fails.

    Args:
        path: the file; its folder must exist.
        content: the bytes.

    Raises:
        OSError: the folder cannot be written; the error names the file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_atomically(Path(folder, "a.txt"), b"content")
    ...     os.listdir(folder)
    ['a.txt']
    """
    path = Path(path)
    part = path.with_name(f"{secrets.token_hex(8)}{TEMPORARY}")
    with naming(path):
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
        sync_folder(path.parent)


@contextlib.contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of the system name this file: those of a write or a flush name none, others a temporary one."""
    try:
        yield
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error


def make_folder(path: Path) -> None:
    """Create a folder and those above it; their names are on disk when this returns."""
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(missing):
        sync_folder(folder.parent)


def is_temporary(path: Path) -> bool:
    """Whether this is the name of a temporary file of `write_atomically`, and of nobody else."""
    return _TEMPORARY_NAME.fullmatch(path.name) is not None


def remove_temporary_files(folder: Path, min_age: float = 0.0, subfolders: bool = True) -> None:
    """Remove temporary files that killed processes left in a folder and its subfolders.

    Args:
        folder: where to look.
        min_age: seconds since the last write; younger files may belong to a running process.
        subfolders: whether to look there too.
    """
    found = list((folder.rglob if subfolders else folder.glob)(f"*{TEMPORARY}"))
    for part in filter(is_temporary, found):
        with contextlib.suppress(FileNotFoundError, IsADirectoryError):  # another process may remove it first
            if time.time() - part.lstat().st_mtime >= min_age:
                part.unlink()


def sync_folder(folder: Path) -> None:
    """Make a rename durable; not every system can open or sync a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP, errno.EBADF):
            raise
    finally:
        os.close(descriptor)
