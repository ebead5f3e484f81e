"""The cache folder: compiled kernels, data sets and other files that can be made or fetched again."""

from __future__ import annotations

import functools
import os
import stat
import tempfile
from pathlib import Path

import platformdirs

from peerdescent._util.owned_folders import OwnedFolder


def cache_place() -> Path:
    """Return the path of the cache, $PEERDESCENT_CACHE or the user's cache folder, without creating it."""
    return Path(os.environ.get("PEERDESCENT_CACHE") or platformdirs.user_cache_dir("peerdescent"))


def cache_folder() -> Path:
    """Return the cache folder, created and writable, or a temporary folder of this process if that fails."""
    folder = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return _temporary_folder().path


def private_cache(name: str) -> Path:
    """Return a folder in the cache that only this user can change, created if it does not exist.

    Its name contains the user's number, so that several users can share a cache.

    Raises:
        OSError: it cannot be created, is not a folder, belongs to another user, or others may write into it.
    """
    folder = cache_place() / f"{name}-{os.getuid()}"
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=0o700, exist_ok=True)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        raise PermissionError(f"others may write into {folder}")
    return folder


def read_own_file(path: Path) -> bytes:
    """Return the content of a regular file that belongs to this user; nothing else is opened, links not followed.

    Raises:
        OSError: it is something else, or cannot be read.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_uid != os.getuid():
            raise PermissionError(f"{path} is not a regular file of this user")
        return file.read()


@functools.cache
def _temporary_folder() -> OwnedFolder:
    """Return a folder of this process, removed at its exit, for machines where the cache cannot be written."""
    return OwnedFolder(Path(tempfile.gettempdir()), "cache")
