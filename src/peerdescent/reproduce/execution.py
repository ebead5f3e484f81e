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
    compression,
    gradient_tails,
    heavy_tails,
    heavy_tails_report,
    heterogeneous,
    placement,
    speedup,
    speedup_report,
)
from peerdescent.reproduce.claims import ADDITIONAL_CLAIMS
from peerdescent.reproduce.report import accuracy_table, write_report
from peerdescent.reproduce.results import LineResult, collect
from peerdescent.reproduce.studies import STUDIES, Part, Study, heterogeneous_studies, parts, read_study


def execute(what: str, seeds: int, reading: str, budget: float, out: Path, jobs: int, console: Console) -> Path:
    """Run a study of the paper, all of them, or one that it lacks; returns the report's path."""
    if what == "compression":
        return _compression(budget, out / what, console)
    if what == "placement":
        return _placement(budget, out / what, console)
    extras.require("matplotlib", "figures")  # now, not after hours of runs
    shortened = f" --budget {budget}" * (budget != 1)
    if what == "heavy-tails":
        command = f"peerdescent reproduce {what} --seeds {seeds}{shortened}"
        return _heavy_tails(seeds, budget, out / what, jobs, console, command)
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


def _compression(budget: float, out: Path, console: Console) -> Path:
    iterations, found = max(1, round(compression.ITERATIONS * budget)), list[tuple[str, ...]]()
    for row in compression.rows(iterations):
        found.append(row)
        console.print(*row, sep="  ", markup=False)
    command = "peerdescent reproduce compression" + f" --budget {budget}" * (budget != 1)
    return compression.write_report(compression.table(found, iterations), out, command)


def _placement(budget: float, out: Path, console: Console) -> Path:
    iterations, found = max(100, round(placement.ITERATIONS * budget)), list[tuple[str, ...]]()
    for row in placement.rows(iterations):
        found.append(row)
        console.print(*row, sep="  ", markup=False)
    command = "peerdescent reproduce placement" + f" --budget {budget}" * (budget != 1)
    return placement.write_report(placement.table(found, iterations), out, command)


def _heavy_tails(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    fetch("mnist", announce=lambda text: console.print(text, markup=False))
    found, results = list[heavy_tails.Bias](), []
    for one in heavy_tails.biases(budget):
        found.append(one)
        console.print(f"bias, {one.noise}, {one.method}: {one.bias:.3f} ± {one.error:.3f}", markup=False)
    for setting in heavy_tails.settings(budget):
        outcomes = heavy_tails.run_setting(setting, out / "tuned", seeds, jobs, lambda stage, runs: lambda run, k: None)
        results.append((setting, outcomes))
        console.print(heavy_tails_report.tuned_table(setting, outcomes).to_rich(("tuned values",), setting.title))
    tails = [one for network in gradient_tails.NETWORKS for one in gradient_tails.measure(network, budget)]
    return heavy_tails_report.write_report(found, results, tails, out, command)


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
    bar = Progress(
        TextColumn("{task.description:<8}"), BarColumn(), TaskProgressColumn(), TextColumn("{task.fields[state]}"),
        TimeRemainingColumn(compact=True), console=console, disable=console.quiet,
    )  # fmt: skip
    lock = threading.Lock()
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
