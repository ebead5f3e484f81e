"""What a person sees while an experiment runs: a heading, predictions, progress, a table, where things are."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)

from peerdescent._util.numbers import jsonable
from peerdescent.errors import InputError
from peerdescent.experiments import run as running
from peerdescent.experiments.run import Outcome
from peerdescent.experiments.schema import Experiment
from peerdescent.graphs import Graph
from peerdescent.training.callbacks import Callback
from peerdescent.training.plan import Plan
from peerdescent.training.progress import ProgressBar


class Display:
    """One command's output; a silent one prints nothing."""

    def __init__(self, silent: bool) -> None:
        self.silent = silent
        self.console = Console(quiet=silent, highlight=False, markup=False, emoji=False)
        text, state = TextColumn("{task.description:<17}"), TextColumn("{task.fields[state]}")
        columns = (text, BarColumn(), MofNCompleteColumn(), state, TimeRemainingColumn(compact=True))
        self._bars = Progress(*columns, console=self.console, disable=silent)

    def print(self, text: object) -> None:
        """One line."""
        self.console.print(text)

    def fetch_data(self, experiment: Experiment) -> None:
        """Fetch the data of the experiment once, before workers want them."""
        from peerdescent import problems
        from peerdescent.data.datasets import find
        from peerdescent.data.fetch import fetch

        if experiment.problem not in problems.PROBLEMS:
            return  # it is in a file that is loaded later, or misspelt
        name = problems.dataset(experiment.problem, **experiment.problem_options)
        if name is not None and not find(name).bundled:
            fetch(name, announce=self.print)

    def introduce(self, experiment: Experiment, plans: Sequence[Plan], strict: bool, brief: bool = False) -> None:
        """What is run and where, and whether theory predicts that it is stable; if brief, only where it is not.

        Raises:
            InputError: with `strict`, a method is unstable or does not settle.
        """
        if experiment.title:
            self.console.print(experiment.title, style="bold")
        self.print(_heading(experiment, plans[0]))
        for plan in plans:
            sentence = plan.prediction.sentence(plan.name)
            if plan.prediction.settles is not False:
                if not brief:
                    self.print(sentence)
            elif strict:
                raise InputError(f"{sentence}.")
            else:
                warnings.warn(sentence, stacklevel=2)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """While it lasts, progress bars are shown."""
        with self._bars:
            yield

    @contextmanager
    def runs_progress(self) -> Iterator[Progress]:
        """While it lasts, one line shows how far many runs are together."""
        text, state = TextColumn("{task.description:<5}"), TextColumn("{task.fields[state]}")
        columns = (text, BarColumn(), TaskProgressColumn(), state, TimeRemainingColumn(compact=True))
        with Progress(*columns, console=self.console, disable=self.silent) as bar:
            yield bar

    def callbacks_for(self, name: str) -> Sequence[Callback]:
        """A progress bar for one method."""
        return [] if self.silent else [ProgressBar(self._bars, name)]

    def conclude(self, outcomes: Mapping[str, Outcome], out: Path, as_json: bool) -> None:
        """The table, and where the records are."""
        if as_json:
            print(_as_json(outcomes, out))
        self.print(running.summary(outcomes).to_rich())
        result = next(iter(outcomes.values())).result
        self.print(f"update: {result.kernel}; gradients: {result.gradients}")
        if result.processes > 1:
            sent = sum(outcome.result.interprocess_bytes for outcome in outcomes.values()) / 1e6
            self.print(f"{result.processes} processes sent each other {sent:.1f} MB")
        if (figure := out / "figures" / "comparison.png").is_file():
            self.print(f"figure: {figure}")
        self.print(f"run folder: {out}")


def _heading(experiment: Experiment, plan: Plan) -> str:
    from peerdescent.graphs.own_weights import label

    graph, ends, count = plan.graph, plan.weights.spectrum, len(plan.graph.union.edges)
    if not isinstance(graph, Graph):  # the mean graph's eigenvalues would say little
        return f"{experiment.problem} on {graph}"
    name = graph.spec or "a graph"
    return (
        f"{experiment.problem} on {name}: {graph.n} agents, {count} edge{'s' * (count != 1)}, "
        f"ρ(L) = {ends.rho:.3g}, ρ₂(L) = {ends.rho2:.3g} ({label(experiment.laplacian)} Laplacian)"
    )


def _as_json(outcomes: Mapping[str, Outcome], out: Path) -> str:
    results: dict[str, Any] = {
        name: {**outcome.result.summary(), "diverged": outcome.error is not None, "notes": outcome.notes}
        for name, outcome in outcomes.items()
    }
    return json.dumps({"out": str(out), "results": jsonable(results)}, indent=2)
