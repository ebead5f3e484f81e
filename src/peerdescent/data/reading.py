"""Reading a user's data set: random draws on the way become a function of a seed, and errors one sentence."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from peerdescent.data.randomness import stream
from peerdescent.data.trees import EXPECTED, Batch, as_tree
from peerdescent.errors import InputError, PeerdescentError

EVALUATION_SEED = 0
"""The seed of draws while f is evaluated: f is then a function of x."""


@contextmanager
def seeded_reading() -> Iterator[Callable[[int], None]]:
    """Let a data set draw from the global generators of torch (on the CPU), Python and NumPy without a trace.

    Yields a function that seeds all three; their states are put back at the end.

    >>> before = random.getstate()
    >>> with seeded_reading() as seed:
    ...     seed(1)
    ...     number = random.random()
    >>> random.getstate() == before
    True
    """
    states = torch.default_generator.get_state(), random.getstate(), np.random.get_state(legacy=False)  # noqa: NPY002

    def seed(value: int) -> None:
        torch.default_generator.manual_seed(value)
        random.seed(value)
        np.random.seed(value % 2**32)  # noqa: NPY002 (what augmentations draw from)

    try:
        yield seed
    finally:
        torch.default_generator.set_state(states[0])
        random.setstate(states[1])
        np.random.set_state(states[2])  # noqa: NPY002


def reading_seed(seed: int, agent: int, k: int, purpose: str = "data") -> int:
    """Return the seed with which an agent reads its samples in iteration k."""
    return int(stream(seed, purpose, agent, k).integers(2**62))


@contextmanager
def readable(what: str) -> Iterator[None]:
    """Turn whatever a data set raises into one sentence, with the original error as its cause.

    >>> with readable("data: the Dataset Images"):
    ...     open("no such file")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: data: the Dataset Images cannot be read: FileNotFoundError: [Errno 2] No such file \
or directory: 'no such file'.
    """
    try:
        yield
    except PeerdescentError:
        raise
    except Exception as error:  # a data set is the user's code
        message = (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:200].rstrip(".")
        raise InputError(f"{what} cannot be read: {message}.") from error


def as_pair(sample: Any, what: str) -> tuple[Any, Any]:
    """Return the inputs and targets of a sample or a batch.

    Args:
        sample: as the data set or its collate_fn returns it.
        what: what it is, for the message.
    """
    if not isinstance(sample, tuple | list):
        raise InputError(f"{what} has no inputs and targets, it is a {type(sample).__name__}: {EXPECTED}.")
    if len(sample) != 2:
        raise InputError(
            f"{what} has {len(sample)} parts: {EXPECTED}; several inputs of a module are one tuple or dict."
        )
    return sample[0], sample[1]


def as_batch(pair: Any, what: str, name: str) -> Batch:
    """Return inputs and targets with tensors for their leaves."""
    inputs, targets = as_pair(pair, what)
    return as_tree(inputs, f"{name}[0]"), as_tree(targets, f"{name}[1]")
