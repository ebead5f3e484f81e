"""Where things are kept that can be made or fetched again: compiled kernels, measurements, data sets."""

from __future__ import annotations

import functools
import os
import tempfile
from pathlib import Path

import platformdirs


def cache_place() -> Path:
    """Where the cache is meant to be: $PEERDESCENT_CACHE or the user's cache folder. Nothing is made or tried."""
    return Path(os.environ.get("PEERDESCENT_CACHE") or platformdirs.user_cache_dir("peerdescent"))


def cache_folder() -> Path:
    """The cache, made and writable; where that is impossible, a folder of this process alone."""
    folder = cache_place()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError:
        return _private_folder()


@functools.cache
def _private_folder() -> Path:
    """A folder of this process alone, for machines where nothing else can be written."""
    return Path(tempfile.mkdtemp(prefix="peerdescent-"))
