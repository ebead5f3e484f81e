"""`peerdescent reproduce`: the paper's experiments, every number beside the printed one, one report."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from peerdescent._util.extras import require
from peerdescent._util.validation import whole
from peerdescent.data.fetch import fetch
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.reproduce import heterogeneous, speedup, speedup_report
from peerdescent.reproduce.claims import BEYOND
from peerdescent.reproduce.report import accuracy_table, write_report
from peerdescent.reproduce.results import LineResult, collect
from peerdescent.reproduce.studies import STUDIES, Part, Study, heterogeneous_studies, parts, read_study

EPILOG = (
    "Examples: `peerdescent reproduce all --seeds 3` · `peerdescent reproduce nn --reading text` · "
    "`peerdescent reproduce cnn --budget 0.05` (a twentieth of the iterations, to try it out) · "
    "`peerdescent reproduce speedup` and `unlike-data` (what the paper does not test; `all` takes their verdicts from "
    "the same folder). "
    "Stop it at any moment; the same command goes on where it was."
)


def reproduce(
    what: Annotated[
        Literal["nn", "cnn", "gamma", "all", "speedup", "unlike-data"],
        typer.Argument(help="Which experiment of the paper, or which of the two that it lacks."),
    ],
    seeds: Annotated[int, typer.Option(help="Runs of each method, with seeds 0, 1, …")] = 3,
    reading: Annotated[
        Literal["code", "text"], typer.Option(help="As the authors' earlier code, or the text, has it.")
    ] = "code",
    out: Annotated[
        Path | None, typer.Option(help="Where records and report go; runs/reproduce-READING unless given.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Runs side by side, one thread each; all processors unless given.")
    ] = None,
    budget: Annotated[float, typer.Option(help="Fraction of the iterations.")] = 1.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run the paper's experiments and set every number beside the printed one."""
    require("matplotlib", "figures")
    whole("seeds", seeds, 1)
    if not 0 < budget <= 1:
        raise InputError(f"budget = {budget}: expected a number above 0 and at most 1.")
    jobs = whole("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    out = out or Path("runs", f"reproduce-{reading}" + f"-{budget:g}" * (budget != 1))
    console = Console(quiet=quiet, highlight=False)
    if quiet:
        warnings.simplefilter("ignore")
    shortened = f" --budget {budget}" * (budget != 1)
    if what in BEYOND:
        command = f"peerdescent reproduce {what} --seeds {seeds}{shortened}"
        make = {"speedup": _speedup, "unlike-data": _unlike}[what]
        path = make(seeds, budget, out / what, jobs, console, command)
    else:
        names = STUDIES if what == "all" else (what,)
        command = f"peerdescent reproduce {what} --seeds {seeds} --reading {reading}{shortened}"
        path = _paper([read_study(name, reading) for name in names], seeds, budget, out, jobs, console, command)
    console.print(f"report: {path}")


def _paper(
    studies: list[Study], seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str
) -> Path:
    results = _results(studies, seeds, budget, out, jobs, console)
    path = write_report(studies, results, out, command)
    for study in studies:
        console.print(accuracy_table(study, results[study.name]).to_rich(("loss", "why"), study.title))
    return path


def _unlike(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    studies = heterogeneous_studies()
    results = _results(studies, seeds, budget, out, jobs, console)
    path = heterogeneous.write_report(studies, results, out, command)
    for study in studies:
        console.print(heterogeneous.table(study, results[study.name]).to_rich(("consensus error",), study.title))
    return path


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
