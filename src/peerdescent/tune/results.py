"""The results of a tuning: every method with its best and its own values on fresh seeds, and the cost."""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerdescent.experiments import Experiment
from peerdescent.runs.metrics import Row
from peerdescent.tune.search import Budget


@dataclass(frozen=True)
class Ends:
    """The final metrics of one setting, one number per seed; NaN if the run diverged or the metric does not exist.

    >>> Ends([0.5, math.nan], [0.9, math.nan]).mean("loss")
    inf
    """

    loss: Sequence[float]
    accuracy: Sequence[float]

    def mean(self, key: str) -> float:
        """Return the mean over the seeds; if one diverged, infinity for the loss and NaN for the accuracy."""
        values = getattr(self, key)
        if key == "loss" and any(math.isnan(value) for value in values):
            return math.inf
        return statistics.fmean(values)

    def deviation(self, key: str) -> float:
        """Return the standard deviation over the seeds; 0 for one seed, NaN if one diverged."""
        values = getattr(self, key)
        if not all(map(math.isfinite, values)):
            return math.nan
        return statistics.stdev(values) if len(values) > 1 else 0.0

    def scores(self, metric: str) -> list[float]:
        """Return the metric as scores: lower is better, infinite if a run diverged."""
        values = getattr(self, metric)
        return [math.inf if math.isnan(value) else value if metric == "loss" else -value for value in values]

    def score(self, metric: str) -> float:
        """Return the mean of the scores."""
        return statistics.fmean(self.scores(metric))


@dataclass(frozen=True)
class Cost:
    """The cost of runs: their number, iterations, stochastic gradients (one per agent and iteration) and seconds."""

    runs: int = 0
    iterations: int = 0
    gradients: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Tuned:
    """One method: its own values, the best values found, and their results on fresh seeds."""

    name: str
    own: Mapping[str, Any]
    own_ends: Ends
    best: Mapping[str, Any] | None
    """None if no trial of the last round was stable and finite."""
    best_ends: Ends | None
    trials: int
    """The number of trials, including repeats at other lengths."""
    rejected: int
    """The number of points rejected as unstable, without a run."""
    cost: Cost
    """The cost of the trials."""

    def better(self, metric: str) -> bool:
        """Return whether the tuned values have the better mean on the fresh seeds."""
        return self.best_ends is not None and self.best_ends.score(metric) < self.own_ends.score(metric)

    def seeds_better(self, metric: str) -> int:
        """Return the number of fresh seeds on which the tuned values are better."""
        if self.best_ends is None:
            return 0
        pairs = zip(self.best_ends.scores(metric), self.own_ends.scores(metric), strict=True)
        return sum(tuned < own for tuned, own in pairs)


@dataclass(frozen=True)
class Tuning:
    """The settings and results of a tuning."""

    experiment: Experiment
    budget: Budget
    tuning_seeds: Sequence[int]
    fresh_seeds: Sequence[int]
    methods: Sequence[Tuned]
    measuring: Cost
    """The cost of the runs with fresh seeds, with tuned and own values."""

    @property
    def better(self) -> list[str]:
        """The methods that tuning improved."""
        return [one.name for one in self.methods if one.better(self.budget.metric)]

    @property
    def searching(self) -> Cost:
        """The cost of all trials."""
        return sum((one.cost for one in self.methods), Cost())


def read_ends(folders: Sequence[Path]) -> Ends:
    """Read the final metrics of the runs in these folders."""
    rows = [_summary(folder) for folder in folders]
    return Ends([_number(row, "loss") for row in rows], [_number(row, "accuracy") for row in rows])


def read_cost(folders: Sequence[Path], agents: int) -> Cost:
    """Read the cost of the runs in these folders, until they diverged if they did."""
    rows = [_summary(folder) for folder in folders]
    iterations = sum(int(row["iteration"]) for row in rows)
    return Cost(len(rows), iterations, iterations * agents, sum(float(row["seconds"]) for row in rows))


def _summary(folder: Path) -> Row:
    summary: Row = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return summary


def _number(row: Row, key: str) -> float:
    value = row.get(key)
    return math.nan if value is None or row["diverged"] else float(value)
