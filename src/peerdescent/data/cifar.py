"""CIFAR-10: small colour pictures of animals and vehicles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from peerdescent.data.fetch import Announce, load, silent
from peerdescent.data.mnist import Images, Split

CIFAR10_CLASSES = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
"""The names of the labels 0, …, 9."""
_BATCHES = 5


def cifar10(announce: Announce = silent) -> Split:
    """Return all of CIFAR-10: 50,000 training pictures and 10,000 test pictures, in ten classes.

    Images are float32 in [0, 1] of shape (count, 3, 32, 32), in their original order; labels are int64. Fetches the
    data set first if it is not in the cache, like `peerdescent data fetch cifar10`.

    Args:
        announce: called with one line of text for every source tried, if the data set must be fetched.

    >>> split = cifar10(announce=print)  # doctest: +SKIP
    >>> split.train_images.shape, [CIFAR10_CLASSES[label] for label in split.test_labels[:3]]  # doctest: +SKIP
    ((50000, 3, 32, 32), ['cat', 'ship', 'ship'])
    """
    held = load("cifar10", announce)
    train = [held[f"data_batch_{i}.png"] for i in range(1, _BATCHES + 1)]
    train_labels, test_labels = (held[name].copy() for name in ("train_lables.json", "test_lables.json"))
    return Split(_scaled(train), train_labels, _scaled([held["test_batch.png"]]), test_labels)


def _scaled(batches: list[NDArray[np.uint8]]) -> Images:
    """Join and scale the batches without a second copy in single precision."""
    counts = np.cumsum([0, *map(len, batches)])
    images = np.empty((counts[-1], *batches[0].shape[1:]), dtype=np.float32)
    for begin, end, batch in zip(counts[:-1], counts[1:], batches, strict=True):
        np.divide(batch, np.float32(255), out=images[begin:end])
    return images
