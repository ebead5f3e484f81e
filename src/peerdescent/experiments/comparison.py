"""What a comparison from Python returns: results by name, a table, a figure."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent import algorithms
from peerdescent.errors import InputError
from peerdescent.report.runs import Group, Run, flatten, group
from peerdescent.report.summary import summary_table
from peerdescent.report.sweep import sweep_figure, sweep_table
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import Metrics
from peerdescent.training.plan import Plan
from peerdescent.training.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from peerdescent.clock.model import NetworkModel


@dataclass(frozen=True)
class Finished:
    """One run of a comparison."""

    method: str
    place: Path
    plan: Plan
    result: Result


class Comparison:
    """Results of several methods, by name; with a grid, by name and values, such as "d2 · eta=0.1".

    `comparison["d2"]` is the result of a method, `comparison.results["d2"]` those of all its seeds.
    """

    def __init__(self, runs: Sequence[Finished], swept: bool = False, title: str = "") -> None:
        self._runs, self._swept, self.title = list(runs), swept, title

    @cached_property
    def results(self) -> dict[str, tuple[Result, ...]]:
        """By label, the results, one per seed."""
        results = {run.place: run.result for run in self._runs}
        return {group.label: tuple(results[run.path] for run in group.runs) for group in self.groups}

    @cached_property
    def groups(self) -> list[Group]:
        """The runs grouped by method and values, as the report reads them from folders."""
        return group([_as_run(run) for run in self._runs])

    def __getitem__(self, label: str) -> Result:
        found = self.results.get(label)
        if found is None and label in algorithms.registry.ALIASES:
            found = self.results.get(algorithms.canonical(label))
        if found is None:
            raise KeyError(f"{label!r} is not in this comparison: it has {', '.join(self.results)}")
        if len(found) > 1:
            raise InputError(f"{label} has {len(found)} seeds: use results[{label!r}], a tuple of them.")
        return found[0]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(f'{label}: {len(found)}' for label, found in self.results.items())})"

    def clock(self, network: str | os.PathLike[str] | NetworkModel) -> Comparison:
        """The same comparison, with simulated seconds in a network in its metrics, table and figure."""
        from peerdescent.clock.files import read

        model = read(network)
        runs = [replace(run, result=run.result.clock(model)) for run in self._runs]
        return Comparison(runs, self._swept, self.title)

    def table(self) -> Table:
        """How each method ended; over several seeds, mean ± deviation, and how many diverged."""
        if self._swept:
            return sweep_table(self.groups, self.title)
        rows = {run.method: {**run.result.summary(), "notes": _notes(run.result)} for run in self._runs}
        return summary_table(rows, self.title)

    def plot(self) -> Figure:
        """The curves as a matplotlib figure; over several seeds, their mean with a band."""
        if self._swept:
            return sweep_figure(self.groups, self.title)
        from peerdescent.report.figures import comparison

        return comparison({run.method: run.result.metrics for run in self._runs}, self.title)

    def _repr_html_(self) -> str:
        from peerdescent.report.notebook import table_html

        curves: dict[str, Metrics] = {label: found[0].metrics for label, found in self.results.items()}
        table = self.table()
        finished = all(state == "finished" for state in table.data.get("state", ()))
        return table_html(table, curves, ("iterations", "gradient norm", *(["state"] if finished else [])))


def _notes(result: Result) -> list[str]:
    ends = [f"diverged at iteration {result.metrics[-1]['iteration']}"] if result.diverged else []
    return [*ends, *result.notes]


def _as_run(run: Finished) -> Run:
    keys = {**flatten(run.plan.description), "algorithm": run.method}
    metrics = run.result.metrics
    return Run(run.place, keys, metrics, {}, tuple(run.result.notes), "ended", metrics[-1]["iteration"])
