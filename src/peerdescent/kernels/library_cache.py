"""Compiled libraries on disk: in a folder that only this user can change, each behind a digest.

A library is code that runs in this process. It is therefore read only from a folder and a file that belong to this
user, and only if its digest, which covers the source too, is right. Whatever else is found there is replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import time
from pathlib import Path

from peerdescent._util.cache import private_cache, read_own_file
from peerdescent._util.files import remove_temporary_files, write_atomically

TEMPORARY = "temporary-"
"""What the names of temporary folders begin with."""
ABANDONED = 24 * 3600.0
"""Seconds after which a temporary file or folder belongs to a process that was killed."""
SUFFIX = ".kernel"


def folder() -> Path | None:
    """The folder of compiled libraries, or None if it cannot be used: see `problem`."""
    with contextlib.suppress(OSError):
        return private_cache("kernels")
    return None


def problem() -> str:
    """Why compiled libraries are not kept, or an empty text if they are."""
    try:
        return "" if os.access(private_cache("kernels"), os.W_OK) else "the cache cannot be written"
    except OSError as error:
        return f"{error.strerror}: {error.filename}" if error.strerror else str(error)


def read(identity: str) -> bytes | None:
    """The library for this identity; None if there is none that is whole."""
    place = folder()
    if place is None:
        return None
    try:
        content = read_own_file(place / _name(identity))
    except OSError:
        return None
    digest, library = content[:32], content[32:]
    return library if secrets.compare_digest(digest, _digest(identity, library)) else None


def write(identity: str, library: bytes) -> None:
    """Keep a library for later processes, if that is possible; only the time to compile it is lost otherwise."""
    place = folder()
    if place is None:
        return
    path = place / _name(identity)
    with contextlib.suppress(OSError):
        if path.is_dir() and not path.is_symlink():  # nothing of ours: out of the way, but not lost
            path.rename(path.with_name(f"{path.stem}-{secrets.token_hex(4)}.found"))
        write_atomically(path, _digest(identity, library) + library)
        _remove_abandoned(place)


def _name(identity: str) -> str:
    return f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}{SUFFIX}"


def _digest(identity: str, library: bytes) -> bytes:
    return hashlib.sha256(hashlib.sha256(identity.encode()).digest() + library).digest()


def _remove_abandoned(place: Path) -> None:
    """Remove what killed processes left."""
    remove_temporary_files(place, ABANDONED)
    for left in place.glob(f"{TEMPORARY}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime >= ABANDONED:
                shutil.rmtree(left)
