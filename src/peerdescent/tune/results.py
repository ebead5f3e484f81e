"""What tuning found: each method at its best and with its own values, on fresh seeds, and what it cost."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerdescent.experiments.schema import Experiment
from peerdescent.runs.folder import read_summary
from peerdescent.runs.metrics import Row, diverged
from peerdescent.tune.search import Budget


@dataclass(frozen=True)
class Ends:
    """How the runs of one setting ended, a number for each seed: NaN where it diverged or does not exist.

    >>> Ends([0.5, math.nan], [0.9, math.nan]).mean("loss")
    inf
    """

    loss: Sequence[float]
    accuracy: Sequence[float]

    def mean(self, key: str) -> float:
        """The mean over the seeds; where one of them diverged, infinite for the loss and NaN for the accuracy."""
        values = getattr(self, key)
        if key == "loss" and any(math.isnan(value) for value in values):
            return math.inf
        return statistics.fmean(values)

    def deviation(self, key: str) -> float:
        """The standard deviation over the seeds; 0 for one seed, NaN if one of them diverged."""
        values = getattr(self, key)
        if not all(map(math.isfinite, values)):
            return math.nan
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def scores(self, metric: str) -> list[float]:
        """The metric as numbers of which the smaller are the better, infinite where a run diverged."""
        values = getattr(self, metric)
        return [math.inf if math.isnan(value) else value if metric == "loss" else -value for value in values]

    def score(self, metric: str) -> float:
        """The mean of the scores."""
        return statistics.fmean(self.scores(metric))


@dataclass(frozen=True)
class Cost:
    """What runs took: their number, iterations, stochastic gradients (one per agent and iteration) and seconds."""

    runs: int = 0
    iterations: int = 0
    gradients: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Tuned:
    """One method: its own values, the best that were found, and how both did on fresh seeds."""

    name: str
    own: Mapping[str, Any]
    own_ends: Ends
    best: Mapping[str, Any] | None
    """None if every trial of the last round diverged, or none was stable."""
    best_ends: Ends | None
    trials: int
    """Settings that were tried, with repeats at other lengths."""
    rejected: int
    """Settings that were left out as unstable, without a run."""
    cost: Cost
    """What the trials took."""

    def better(self, metric: str) -> bool:
        """Whether the tuned values have the better mean on the fresh seeds."""
        return self.best_ends is not None and self.best_ends.score(metric) < self.own_ends.score(metric)

    def seeds_better(self, metric: str) -> int:
        """On how many of the fresh seeds the tuned values did better."""
        if self.best_ends is None:
            return 0
        pairs = zip(self.best_ends.scores(metric), self.own_ends.scores(metric), strict=True)
        return sum(tuned < own for tuned, own in pairs)


@dataclass(frozen=True)
class Tuning:
    """What a whole tuning was, and what it found."""

    experiment: Experiment
    budget: Budget
    tuning_seeds: Sequence[int]
    fresh_seeds: Sequence[int]
    methods: Sequence[Tuned]
    measuring: Cost
    """What the runs with fresh seeds took, tuned and own values together."""

    @property
    def better(self) -> list[str]:
        """The methods that tuning has improved."""
        return [one.name for one in self.methods if one.better(self.budget.metric)]

    @property
    def searching(self) -> Cost:
        """What all trials took."""
        return sum((one.cost for one in self.methods), Cost())


def read_ends(folders: Sequence[Path]) -> Ends:
    """How the runs in these folders ended."""
    rows = [read_summary(folder) for folder in folders]
    return Ends([_number(row, "loss") for row in rows], [_number(row, "accuracy") for row in rows])


def read_cost(folders: Sequence[Path], agents: int) -> Cost:
    """What the runs in these folders took; one that diverged took what it had done by then."""
    rows = [read_summary(folder) for folder in folders]
    iterations = sum(int(row["iteration"]) for row in rows)
    return Cost(len(rows), iterations, iterations * agents, sum(float(row["seconds"]) for row in rows))


def _number(row: Row, key: str) -> float:
    value = row.get(key)
    return math.nan if value is None or diverged(row) else float(value)
