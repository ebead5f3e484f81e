"""Whether a data set gives the same samples again when it is read again with the same seed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from peerdescent.data.lazy import Source
from peerdescent.data.reading import EVALUATION_SEED, readable, seeded_reading
from peerdescent.data.streams import StreamSource
from peerdescent.data.trees import Batch, Tree
from peerdescent.errors import InputError

FEW = 2


def check_repeatable(source: Source) -> None:
    """Read the first samples twice.

    Raises:
        InputError: they cannot be read, are no pairs of equal shapes, or differ although torch, `random` and
            `numpy.random` were seeded alike, so that no seed can repeat a run.
    """
    first, second = _streamed(source) if isinstance(source, StreamSource) else _read(source)
    if not _same(first, second):
        raise InputError(
            f"{source.what} gives other samples when it is read again with equal seeds: it has a random generator or a "
            "position of its own; draw from torch, random or numpy.random, and keep no state."
        )


def _read(source: Source) -> tuple[Tree, Tree]:
    rows = range(min(FEW, len(source)))
    results = []
    for _ in range(2):
        with seeded_reading() as seed:
            seed(EVALUATION_SEED)
            results.append(source.read(rows))
    return results[0], results[1]


def _streamed(source: StreamSource) -> tuple[Tree, Tree]:
    """Read in turn from two iterators, as the evaluation and the training of a run do."""
    with seeded_reading() as seed, readable(source.what):
        seed(EVALUATION_SEED)
        one = iter(source.dataset)
        seed(EVALUATION_SEED)
        other = iter(source.dataset)
        taken: tuple[list[Any], list[Any]] = ([], [])
        for i in range(FEW):
            for iterator, samples in zip((one, other), taken, strict=True):
                seed(i)
                samples.extend(_next(iterator))
    if not taken[0]:
        raise InputError(
            f"{source.what} is empty, or can be read only once: each iter() must start anew and give samples."
        )
    return _batch(source, taken[0]), _batch(source, taken[1]) if taken[1] else None


def _next(iterator: Iterator[Any]) -> list[Any]:
    """Return the next sample, or nothing at the end."""
    for sample in iterator:
        return [sample]
    return []


def _batch(source: Source, samples: list[Any]) -> Batch:
    with seeded_reading() as seed:
        seed(EVALUATION_SEED)
        return source.batch(samples, range(len(samples)))


def _same(a: Tree, b: Tree) -> bool:
    """Whether two trees are equal, bit for bit; NaN equals NaN."""
    (leaves, structure), (others, other) = tree_flatten(a), tree_flatten(b)
    return structure == other and all(map(_equal, leaves, others))


def _equal(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and bool(((a == b) | (a.isnan() & b.isnan())).all())
