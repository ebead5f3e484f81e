"""Data sets, their partition among the agents, minibatches and counter-based randomness."""

from peerdescent.data.bundled import bundled
from peerdescent.data.census import Census, adult
from peerdescent.data.cifar import CIFAR10_CLASSES, cifar10
from peerdescent.data.fashion import FASHION_CLASSES, fashion_mnist
from peerdescent.data.fetch import mnist_full
from peerdescent.data.mnist import Split, digits, digits_split
from peerdescent.data.partition import partition
from peerdescent.data.plays import Role, shakespeare
from peerdescent.data.randomness import stream
from peerdescent.data.sampling import Minibatches
from peerdescent.data.speeches import Speech, sotu

__all__ = [
    "CIFAR10_CLASSES",
    "FASHION_CLASSES",
    "Census",
    "Minibatches",
    "Role",
    "Speech",
    "Split",
    "adult",
    "bundled",
    "cifar10",
    "digits",
    "digits_split",
    "fashion_mnist",
    "mnist_full",
    "partition",
    "shakespeare",
    "sotu",
    "stream",
]
