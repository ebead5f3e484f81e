"""Fashion-MNIST: pictures of clothes in the format of MNIST, and harder to tell apart than digits."""

from __future__ import annotations

from peerdescent.data.fetch import Announce, image_split, silent
from peerdescent.data.mnist import Split

FASHION_CLASSES = (
    "T-shirt", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
"""The names of the labels 0, …, 9."""


def fashion_mnist(announce: Announce = silent) -> Split:
    """Return all of Fashion-MNIST: 60,000 training pictures and 10,000 test pictures, in ten classes.

    Images are float32 in [0, 1] of shape (count, 28, 28), labels int64, as arrays that `torch.from_numpy` accepts.
    Fetches the data set first if it is not in the cache, like `peerdescent data fetch fashion-mnist`.

    Args:
        announce: called with one line of text for every source tried, if the data set must be fetched.

    >>> split = fashion_mnist(announce=print)  # doctest: +SKIP
    >>> split.train_images.shape, [FASHION_CLASSES[label] for label in split.test_labels[:3]]  # doctest: +SKIP
    ((60000, 28, 28), ['ankle boot', 'pullover', 'trousers'])
    """
    return image_split("fashion-mnist", announce)
