"""The cache folder: compiled kernels, data sets and other files that can be made or fetched again."""

from __future__ import annotations

import functools
import os
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
        return _private_folder()


def _private_folder() -> Path:
    """Return a temporary folder of this process, for machines where the cache cannot be written."""
    return _owned_folder().path


@functools.cache
def _owned_folder() -> OwnedFolder:
    return OwnedFolder(Path(tempfile.gettempdir()), "cache")
