"""Data sets, their partition among the agents, minibatches and counter-based randomness."""

from peerdescent.data.fetch import mnist_full
from peerdescent.data.mnist import Split, digits, digits_split
from peerdescent.data.partition import partition
from peerdescent.data.randomness import stream
from peerdescent.data.sampling import Minibatches

__all__ = ["Minibatches", "Split", "digits", "digits_split", "mnist_full", "partition", "stream"]
