"""How large a problem is, from its options alone: known before anything of that size is made."""

from __future__ import annotations

from dataclasses import dataclass

from peerdescent.problems.base import Problem
from peerdescent.problems.sampled import Sampled


@dataclass(frozen=True)
class Size:
    """The size of a problem, in bytes but for the dimension.

    Args:
        dimension: the length of x.
        data: what making the problem takes.
        sample: one sample in a minibatch; 0 for problems without samples.
        drawn: the noise that minibatch gradients draw ahead.
    """

    dimension: int
    data: int = 0
    sample: int = 0
    drawn: int = 0


def size_of(problem: Problem) -> Size:
    """Return the size of a problem that is made already: it takes nothing any more.

    >>> from peerdescent.problems import make
    >>> size_of(make("logistic-nonconvex", 4))
    Size(dimension=21, data=0, sample=88, drawn=0)
    """
    if not isinstance(problem, Sampled):
        return Size(problem.dimension)
    return Size(problem.dimension, 0, problem.data.bytes_per_sample())
