"""Digits, who holds which of them, and which ones an agent looks at in iteration k."""

from peerdescent.data.fetch import mnist_full
from peerdescent.data.mnist import Split, digits, digits_split
from peerdescent.data.partition import partition
from peerdescent.data.random import stream
from peerdescent.data.sampling import Minibatches

__all__ = ["Minibatches", "Split", "digits", "digits_split", "mnist_full", "partition", "stream"]
