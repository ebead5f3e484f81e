"""The search: rounds of trials, each longer and closer to the best point so far, always within the stable region.

The first round spreads points evenly over a wide box around a method's own values, which are one of the points. In
each later round, half of the points are the best of the round before, and the rest are new points in a smaller box
around the best one. Where a theorem recommends values for runs of a round's length, they are one of the new points. The
last round runs all iterations, since the best step size depends on the length of the run. All functions are pure: they
map earlier results to the next points.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import qmc

from peerdescent._util.validation import check_integer
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.tune.space import Numbers, Point, Space

METRICS = ("loss", "accuracy")
ROUNDS = ((1 / 2, 0.1, 1.0), (1 / 3, 0.25, 0.5), (1 / 6, 1.0, 0.25))
"""For each round: its fraction of the trials, of the iterations, and of the range of every dimension."""
DRAWS = 2**10
"""The most points that a round tests for stability; it may end with fewer stable points than it wants."""
Stable = Callable[[Point], bool]


@dataclass(frozen=True)
class Budget:
    """The budget of every method, the same for all.

    Args:
        trials: trial runs per method and tuning seed; later rounds have fewer and longer runs.
        seeds: number of fresh seeds for the runs with the tuned values and with the own values.
        tuning_seeds: number of seeds that a trial averages over.
        metric: "loss", f(x̄) at the end, or "accuracy" on test data.

    >>> [(r.trials, r.iterations) for r in Budget(trials=24).rounds(30_000)]
    [(12, 3000), (8, 7500), (4, 30000)]
    """

    trials: int = 24
    seeds: int = 3
    tuning_seeds: int = 1
    metric: Literal["loss", "accuracy"] = "loss"

    def __post_init__(self) -> None:
        for name in ("trials", "seeds", "tuning_seeds"):
            check_integer(name, getattr(self, name), 1)
        if self.metric not in METRICS:
            raise InputError(f"metric = {self.metric!r}: expected {' or '.join(METRICS)}.")

    def rounds(self, iterations: int) -> list[Round]:
        """Return the rounds of a search over runs of that length."""
        counts = [math.floor(share * self.trials + 0.5) for share, _, _ in ROUNDS]
        counts[-1] = max(1, counts[-1])
        counts[0] = max(0, self.trials - sum(counts[1:]))
        planned = zip(counts, ROUNDS, strict=True)
        lengths = [(count, max(1, round(length * iterations)), part) for count, (_, length, part) in planned if count]
        return [Round(number, *entry) for number, entry in enumerate(lengths, start=1)]


@dataclass(frozen=True)
class Round:
    """One round of a search."""

    number: int
    trials: int
    iterations: int
    part: float
    """The size of its box, as a fraction of the range of every dimension."""


@dataclass(frozen=True)
class Scored:
    """A point and its score: lower is better, infinite if a run diverged."""

    point: Point
    score: float


@dataclass(frozen=True)
class Proposal:
    """The points of a round, and the points that it rejected as unstable."""

    points: Sequence[Point]
    rejected: Sequence[Point]


def propose(
    space: Space,
    before: Sequence[Scored],
    this: Round,
    stable: Stable,
    seed: int,
    purpose: str,
    recommended: Point | None = None,
) -> Proposal:
    """Return the points of a round, given the scores of the round before (none before the first).

    >>> from peerdescent.algorithms import DSGD1
    >>> first = Budget(trials=6).rounds(100)[0]
    >>> space = Space.of("d-sgd-1", DSGD1(eta=0.1))
    >>> found = propose(space, [], first, lambda point: point["eta"] < 1, 0, "example")
    >>> len(found.points), found.points[0], all(point["eta"] < 1 for point in found.points)
    (3, {'eta': 0.1}, True)
    """
    ranked = [one.point for one in sorted(before, key=lambda one: one.score) if math.isfinite(one.score)]
    points: list[Point] = []
    rejected: list[Point] = []
    kept = ranked[: math.ceil(this.trials / 2)] if ranked else [space.own]
    for point in [*kept, *([recommended] if recommended and recommended not in kept else [])][: this.trials]:
        (points if stable(point) else rejected).append(point)
    centre = ranked[0] if ranked else space.own
    for cube in _cube(len(space.dimensions), seed, purpose, this.number):
        if len(points) >= this.trials:
            break
        point = space.near(centre, this.part, cube)
        (points if stable(point) else rejected).append(point)
    return Proposal(points, rejected)


def best(found: Sequence[Scored]) -> Scored | None:
    """Return the best point of the last round, or None if all diverged."""
    finite = [one for one in found if math.isfinite(one.score)]
    return min(finite, key=lambda one: one.score) if finite else None


def _cube(dimensions: int, seed: int, purpose: str, block: int) -> Iterator[Numbers]:
    """Yield points that fill the unit cube evenly: a Sobol sequence with a random shift modulo 1."""
    shift = stream(seed, purpose, block=block).random(dimensions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        points = qmc.Sobol(dimensions, scramble=False).random(DRAWS)
    yield from np.mod(points + shift, 1.0)
