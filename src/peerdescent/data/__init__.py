"""Data sets, their partition among the agents, minibatches and counter-based randomness."""

from peerdescent.data.fashion import FASHION_CLASSES, fashion_mnist
from peerdescent.data.fetch import mnist_full
from peerdescent.data.mnist import Split, digits, digits_split
from peerdescent.data.partition import partition
from peerdescent.data.randomness import stream
from peerdescent.data.sampling import Minibatches
from peerdescent.data.speeches import Speech, sotu

__all__ = [
    "FASHION_CLASSES",
    "Minibatches",
    "Speech",
    "Split",
    "digits",
    "digits_split",
    "fashion_mnist",
    "mnist_full",
    "partition",
    "sotu",
    "stream",
]
