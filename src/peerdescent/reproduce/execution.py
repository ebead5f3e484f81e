"""The studies executed: all runs side by side, then tables and one report."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from peerdescent._util import extras
from peerdescent.data.fetch import fetch
from peerdescent.experiments import pool
from peerdescent.reproduce import (
    communication,
    communication_report,
    heavy_tails_run,
    heterogeneous,
    placement,
    placement_report,
    speedup,
    speedup_report,
)
from peerdescent.reproduce.claims import ADDITIONAL_CLAIMS
from peerdescent.reproduce.measured import Measured
from peerdescent.reproduce.report import accuracy_table, write_report
from peerdescent.reproduce.results import LineResult, collect
from peerdescent.reproduce.studies import STUDIES, Part, Study, heterogeneous_studies, parts, read_study


def execute(what: str, seeds: int, reading: str, budget: float, out: Path, jobs: int, console: Console) -> Path:
    """Run a study of the paper, all of them, or one that it lacks; returns the report's path."""
    extras.require("matplotlib", "figures")  # now, not after hours of runs
    shortened = f" --budget {budget}" * (budget != 1)
    if what == "communication":
        return _communication(budget, out / what, jobs, console, f"peerdescent reproduce {what}{shortened}")
    if what == "placement":
        return _placement(budget, out / what, console, f"peerdescent reproduce {what}{shortened}")
    if what == "heavy-tails":
        command = f"peerdescent reproduce {what} --seeds {seeds}{shortened}"
        return heavy_tails_run.run(seeds, budget, out / what, jobs, console, _bar(console), command)
    if what in ADDITIONAL_CLAIMS:
        command = f"peerdescent reproduce {what} --seeds {seeds}{shortened}"
        make = {"speedup": _speedup, "heterogeneous-data": _heterogeneous}[what]
        return make(seeds, budget, out / what, jobs, console, command)
    names = STUDIES if what == "all" else (what,)
    command = f"peerdescent reproduce {what} --seeds {seeds} --reading {reading}{shortened}"
    return _paper([read_study(name, reading) for name in names], seeds, budget, out, jobs, console, command)


def _paper(
    studies: list[Study], seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str
) -> Path:
    results = _results(studies, seeds, budget, out, jobs, console)
    path = write_report(studies, results, out, command)
    for study in studies:
        console.print(accuracy_table(study, results[study.name]).to_rich(("loss", "why"), study.title))
    return path


def _heterogeneous(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    studies = heterogeneous_studies()
    results = _results(studies, seeds, budget, out, jobs, console)
    path = heterogeneous.write_report(studies, results, out, command)
    for study in studies:
        console.print(heterogeneous.table(study, results[study.name]).to_rich(("consensus error",), study.title))
    return path


def _communication(budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    todo = communication.parts(budget)
    _run(todo, out, jobs, console, communication.measure, communication.measured)
    found = communication.collect(todo, out)
    for table in communication_report.tables(found).values():
        console.print(table.to_rich())
    return communication_report.write_report(found, out, command, shortened=budget != 1)


def _placement(budget: float, out: Path, console: Console, command: str) -> Path:
    found = placement.cells(Measured(out), budget, _bar(console))
    console.print(placement_report.table(found).to_rich())
    return placement_report.write_report(found, out, command, shortened=budget != 1)


def _speedup(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    keys = speedup.read()
    todo = speedup.parts(keys, seeds, budget)
    _run(todo, out, jobs, console, speedup.measure, speedup.measured)
    settings = list(speedup.settings(keys, speedup.cells(keys, budget), speedup.collect(todo, out)))
    console.print(speedup_report.slopes(settings).to_rich(("slope in", "points", "n^", "T^")))
    return speedup_report.write_report(settings, out, command)


def _results(
    studies: list[Study], seeds: int, budget: float, out: Path, jobs: int, console: Console
) -> dict[str, dict[str, LineResult]]:
    """Run what is not finished yet, and read what came out."""
    todo = [part for study in studies for part in parts(study, seeds, budget)]
    if any(part.experiment.problem == "mnist-cnn" for part in todo):
        fetch("mnist", announce=lambda text: console.print(text, markup=False))  # once, before all workers want it
    _run(todo, out, jobs, console)
    return {study.name: collect(study, todo, out) for study in studies}


def _run(
    todo: list[Part],
    out: Path,
    jobs: int,
    console: Console,
    work: pool.Work[Part] | None = None,
    done: Callable[[Part, Path], bool] | None = None,
) -> None:
    """One line of progress per study."""
    bar, lock = _bar(console), threading.Lock()
    with bar:
        names = list(dict.fromkeys(part.study for part in todo))
        tasks = {
            name: bar.add_task(name, total=sum(p.experiment.iterations for p in todo if p.study == name), state="")
            for name in names
        }
        reached: dict[tuple[str, str, int], int] = {}

        def report(part: Part, k: int) -> None:
            with lock:
                reached[part.study, part.line.label, part.seed] = k
                total = sum(count for (study, _, _), count in reached.items() if study == part.study)
                bar.update(tasks[part.study], completed=total, state=f"{part.line.label}, seed {part.seed}")

        pool.execute(todo, out, jobs, report, work, done)


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description:<8}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True), console=console, disable=console.quiet,
    )  # fmt: skip
