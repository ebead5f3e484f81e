"""Standings: losses at equal iterations, bytes and simulated seconds, their ranks, and who is first.

Pure functions of the entries' records.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from peerdescent.league import ranks
from peerdescent.league.ranks import Friedman, Numbers

Criterion = Literal["iterations", "bytes", "seconds"]
CRITERIA: tuple[Criterion, ...] = ("iterations", "bytes", "seconds")
LEVEL = 0.05
"""Of all tests."""


@dataclass(frozen=True)
class Curve:
    """One run with a fresh seed: its loss at every evaluation, and what it had needed by then.

    >>> curve = Curve(1, False, {"iterations": [0, 10], "bytes": [0, 80], "seconds": [0.0, 2.0]}, [1.0, 0.5])
    >>> curve.loss_at("bytes", 40), curve.loss_at("iterations", 10), curve.loss_at("seconds", 9.0)
    (0.75, 0.5, 0.5)
    """

    seed: int
    diverged: bool
    needed: Mapping[str, Sequence[float]]
    losses: Sequence[float]
    accuracy: float | None = None

    def loss_at(self, criterion: Criterion, budget: float) -> float:
        """The loss where a budget is used up, interpolated; at the end if it never is, infinite if it diverged."""
        if self.diverged:
            return math.inf
        return float(np.interp(budget, self.needed[criterion], self.losses))

    def uses_up(self, criterion: Criterion, budget: float) -> bool:
        """Whether it needs the whole budget; the last hundredth does not count."""
        return self.needed[criterion][-1] >= 0.99 * budget


@dataclass(frozen=True)
class Result:
    """The result of one method on one task.

    Args:
        task: its name.
        method: its name.
        refused: why it cannot run, in a sentence; empty if it can.
        curves: one per fresh seed; none if every trial diverged or none was stable.
        budgets: by criterion.
        vectors: that an agent sends to a neighbour in an iteration; 0 for a centralized method.
        gradients: that an agent computes in an iteration.
        values: the tuned values.
        trials: number of trial runs.
        rejected: number of settings that were rejected as unstable, without a run.
        notes: what was changed for the method to work, in sentences.
        seconds: processor time, without what was interrupted.
    """

    task: str
    method: str
    refused: str = ""
    curves: Sequence[Curve] = ()
    budgets: Mapping[str, float] | None = None
    vectors: int = 1
    gradients: int = 1
    values: Mapping[str, Any] | None = None
    trials: int = 0
    rejected: int = 0
    notes: Sequence[str] = ()
    seconds: float = 0.0

    @classmethod
    def of(cls, task: str, method: str, record: Mapping[str, Any]) -> Result:
        """The result in an entry's record."""
        if record["refused"]:
            return cls(task, method, record["refused"], seconds=record["seconds"])
        curves = [_curve(run) for run in record["runs"]]
        budgets = {"iterations": record["iterations"], **record["limits"]}
        keys = ("vectors", "gradients", "trials", "rejected", "notes", "seconds")
        values = record["values"] if record["found"] else None
        return cls(task, method, "", curves, budgets, values=values, **{key: record[key] for key in keys})

    def losses(self, criterion: Criterion, seeds: int) -> list[float]:
        """The loss of every seed where the budget is used up; infinite if there is no run."""
        if not self.curves or self.budgets is None:
            return [math.inf] * seeds
        return [curve.loss_at(criterion, self.budgets[criterion]) for curve in self.curves]

    @property
    def diverged(self) -> bool:
        """Whether it has no loss: a run diverged, or every trial did."""
        return not self.refused and (not self.curves or any(curve.diverged for curve in self.curves))


def _curve(run: Mapping[str, Any]) -> Curve:
    """A run of a record; a row whose loss is not finite is the last of a diverged run."""
    losses = [math.inf if loss is None else float(loss) for loss in run["loss"]]
    needed: dict[str, list[float]] = {key: [float(value) for value in run[key]] for key in CRITERIA}
    return Curve(run["seed"], run["diverged"], needed, losses, run["accuracy"])


Results = Mapping[tuple[str, str], Result]
"""By task and method."""


@dataclass(frozen=True)
class Standing:
    """The ranks by one criterion.

    Args:
        criterion: what is equal.
        tasks: their names.
        methods: their names.
        losses: tasks × methods × seeds; infinite where a run diverged.
    """

    criterion: Criterion
    tasks: Sequence[str]
    methods: Sequence[str]
    losses: Numbers

    @cached_property
    def means(self) -> Numbers:
        """The mean loss over the seeds, tasks × methods."""
        means: Numbers = self.losses.mean(axis=2)
        return means

    @cached_property
    def ranks(self) -> Numbers:
        """The ranks of the mean losses, tasks × methods."""
        return ranks.ranks(self.means)

    @cached_property
    def mean_ranks(self) -> Numbers:
        """The mean rank over the tasks, by method."""
        means: Numbers = self.ranks.mean(axis=0)
        return means

    @cached_property
    def errors(self) -> Numbers:
        """The standard errors of the mean ranks over the tasks; 0 for one task."""
        tasks = len(self.tasks)
        errors: Numbers = self.ranks.std(axis=0, ddof=1) / tasks**0.5 if tasks > 1 else np.zeros(len(self.methods))
        return errors

    @cached_property
    def by_seed(self) -> Numbers:
        """The mean rank if only one of the seeds had been run, seeds × methods."""
        seeds = range(self.losses.shape[2])
        return np.stack([ranks.ranks(self.losses[:, :, s]).mean(axis=0) for s in seeds])

    @cached_property
    def order(self) -> list[int]:
        """The methods from the best mean rank to the worst."""
        return [int(i) for i in np.argsort(self.mean_ranks, kind="stable")]

    @cached_property
    def friedman(self) -> Friedman | None:
        """Friedman's test that all methods are alike."""
        return ranks.friedman(self.ranks)

    @cached_property
    def critical_difference(self) -> float:
        """Nemenyi's."""
        return ranks.critical_difference(len(self.methods), len(self.tasks), LEVEL)

    @cached_property
    def against_first(self) -> list[float]:
        """Holm's probabilities that a method is like the first one, by method."""
        return ranks.against(self.means, self.order[0])

    @property
    def not_told_apart(self) -> list[int]:
        """The methods that Wilcoxon's test does not tell apart from the first one, in order, with it."""
        return [i for i in self.order if self.against_first[i] > LEVEL]

    def first_by_seed(self) -> list[int | None]:
        """The method with the best mean rank under each seed; None where several share it."""
        return [_only_first(row) for row in self.by_seed]

    @property
    def leader(self) -> int | None:
        """The method that is first in the mean and under every seed; None if the seeds disagree."""
        firsts = {_only_first(self.mean_ranks), *self.first_by_seed()}
        return firsts.pop() if len(firsts) == 1 else None

    def winners(self, task: int) -> list[int]:
        """The methods with the smallest loss on a task, one for every seed; those that share it count all."""
        rows = self.losses[task].T
        firsts = [i for row in rows if np.isfinite(row.min()) for i in np.flatnonzero(row == row.min())]
        return [int(i) for i in firsts]

    def winner(self, task: int) -> int | None:
        """The method with the smallest loss on a task under every seed; None if the seeds disagree.

        >>> losses = np.array([[[0.1, 0.2], [0.3, 0.1]], [[0.1, 0.1], [0.2, 0.2]]])
        >>> standing = Standing("iterations", ["one", "two"], ["a", "b"], losses)
        >>> standing.winner(0), standing.winner(1)
        (None, 0)
        """
        firsts = {_only_first(row) for row in self.losses[task].T}
        return firsts.pop() if len(firsts) == 1 else None


def _only_first(values: Numbers) -> int | None:
    """The place of the smallest number; None if several share it, or none is finite."""
    places = np.flatnonzero(values == values.min())
    return int(places[0]) if len(places) == 1 and np.isfinite(values.min()) else None


def centralized(results: Results) -> list[str]:
    """The methods that send nothing to neighbours: references, which are not ranked."""
    return list(dict.fromkeys(m for (_, m), r in results.items() if not r.refused and not r.vectors))


def refused(results: Results) -> list[str]:
    """The methods that cannot run on some task: they have no rank there, so that they are not ranked."""
    return list(dict.fromkeys(method for (_, method), result in results.items() if result.refused))


def complete_tasks(results: Results, tasks: Sequence[str], methods: Sequence[str]) -> list[str]:
    """The tasks on which all methods have played."""
    return [task for task in tasks if all((task, method) in results for method in methods)]


def standing(criterion: Criterion, results: Results, tasks: Sequence[str], methods: Sequence[str]) -> Standing:
    """The standing of these methods on these tasks."""
    seeds = max((len(result.curves) for result in results.values()), default=1) or 1
    losses = [[results[task, method].losses(criterion, seeds) for method in methods] for task in tasks]
    return Standing(criterion, list(tasks), list(methods), np.array(losses, dtype=np.float64))
