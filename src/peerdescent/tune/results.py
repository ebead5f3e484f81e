"""The results of a tuning: each method with tuned and with its own values, on fresh seeds, and the cost."""

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
    """How the runs of one setting ended, one number per seed: NaN if the run diverged or has no such number.

    >>> Ends([0.5, math.nan], [0.9, math.nan]).mean("loss")
    inf
    """

    loss: Sequence[float]
    accuracy: Sequence[float]

    def mean(self, key: str) -> float:
        """The mean over the seeds; if one of them diverged, infinite for the loss and NaN for the accuracy."""
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
        """The metric per seed, signed so that smaller is better; infinite if the run diverged."""
        values = getattr(self, metric)
        return [math.inf if math.isnan(value) else value if metric == "loss" else -value for value in values]

    def score(self, metric: str) -> float:
        """Return the mean of the scores."""
        return statistics.fmean(self.scores(metric))


@dataclass(frozen=True)
class Cost:
    """The cost of runs: their number, iterations, stochastic gradients of all agents and seconds."""

    runs: int = 0
    iterations: int = 0
    gradients: int = 0
    seconds: float = 0.0

    def __add__(self, other: Cost) -> Cost:
        return Cost(*(a + b for a, b in zip(vars(self).values(), vars(other).values(), strict=True)))


@dataclass(frozen=True)
class Tuned:
    """One method: its own values, the best ones found, and the results of both on fresh seeds."""

    name: str
    own: Mapping[str, Any]
    own_ends: Ends
    best: Mapping[str, Any] | None
    """None if every trial of the last round diverged or none was stable."""
    best_ends: Ends | None
    trials: int
    """Number of trials; a setting tried in several rounds counts once per round."""
    rejected: int
    """Number of settings rejected as unstable, without a run."""
    cost: Cost
    """The cost of the trials."""

    def better(self, metric: str) -> bool:
        """Return whether the tuned values have the better mean on the fresh seeds."""
        return self.best_ends is not None and self.best_ends.score(metric) < self.own_ends.score(metric)

    def seeds_better(self, metric: str) -> int:
        """The number of fresh seeds on which the tuned values are better."""
        if self.best_ends is None:
            return 0
        pairs = zip(self.best_ends.scores(metric), self.own_ends.scores(metric), strict=True)
        return sum(tuned < own for tuned, own in pairs)


@dataclass(frozen=True)
class Tuning:
    """A complete tuning and its results."""

    experiment: Experiment
    budget: Budget
    tuning_seeds: Sequence[int]
    fresh_seeds: Sequence[int]
    methods: Sequence[Tuned]
    measuring: Cost
    """The cost of the runs with fresh seeds, for tuned and own values together."""

    @property
    def better(self) -> list[str]:
        """The methods that are better with tuned values."""
        return [one.name for one in self.methods if one.better(self.budget.metric)]

    @property
    def searching(self) -> Cost:
        """The cost of all trials."""
        return sum((one.cost for one in self.methods), Cost())


def read_ends(folders: Sequence[Path]) -> Ends:
    """How the runs in these folders ended."""
    rows = [read_summary(folder) for folder in folders]
    return Ends([_number(row, "loss") for row in rows], [_number(row, "accuracy") for row in rows])


def read_cost(folders: Sequence[Path], agents: int, gradients: int = 1) -> Cost:
    """The cost of runs with so many gradients per agent and iteration; one that diverged counts up to that point."""
    rows = [read_summary(folder) for folder in folders]
    iterations = sum(int(row["iteration"]) for row in rows)
    return Cost(len(rows), iterations, iterations * agents * gradients, sum(float(row["seconds"]) for row in rows))


def _number(row: Row, key: str) -> float:
    value = row.get(key)
    return math.nan if value is None or diverged(row) else float(value)
