"""`peerdescent reproduce`: run the experiments of the paper and compare every number with the printed one."""

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

from peerdescent._util.validation import check_integer
from peerdescent.data.fetch import fetch
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.report.blocks import in_terminal
from peerdescent.reproduce import heterogeneous, speedup, speedup_report
from peerdescent.reproduce.claims import ADDITIONAL_CLAIMS
from peerdescent.reproduce.report import accuracy_table, write_report
from peerdescent.reproduce.results import LineResult, collect
from peerdescent.reproduce.studies import STUDIES, Part, Study, heterogeneous_studies, parts, read_study

EPILOG = (
    "Examples: `peerdescent reproduce all --seeds 3` · `peerdescent reproduce nn --reading text` · "
    "`peerdescent reproduce cnn --budget 0.05` (a twentieth of the iterations, to try it out) · "
    "`peerdescent reproduce speedup` and `heterogeneous-data` (not tested in the paper; `all` includes their verdicts "
    "if they ran in the same folder). "
    "You can stop it at any time; the same command resumes."
)


def reproduce(
    what: Annotated[
        Literal["nn", "cnn", "gamma", "all", "speedup", "heterogeneous-data"],
        typer.Argument(help="An experiment of the paper, or one of two additional ones."),
    ],
    seeds: Annotated[int, typer.Option(help="Runs of each method, with seeds 0, 1, …")] = 3,
    reading: Annotated[
        Literal["code", "text"], typer.Option(help="Follow the authors' earlier code, or the text of the paper.")
    ] = "code",
    out: Annotated[
        Path | None, typer.Option(help="Folder for runs and report; runs/reproduce-READING by default.")
    ] = None,
    jobs: Annotated[
        int | None, typer.Option(help="Parallel runs, one thread each; one per processor by default.")
    ] = None,
    budget: Annotated[float, typer.Option(help="Fraction of the iterations.")] = 1.0,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")] = False,
) -> None:
    """Run the experiments of the paper and compare every number with the printed one."""
    check_integer("seeds", seeds, 1)
    if not 0 < budget <= 1:
        raise InputError(f"budget = {budget}: expected a number above 0 and at most 1.")
    jobs = check_integer("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    out = out or Path("runs", f"reproduce-{reading}" + f"-{budget:g}" * (budget != 1))
    console = Console(quiet=quiet, highlight=False)
    if quiet:
        warnings.simplefilter("ignore")
    shortened = f" --budget {budget}" * (budget != 1)
    if what in ADDITIONAL_CLAIMS:
        command = f"peerdescent reproduce {what} --seeds {seeds}{shortened}"
        make = {"speedup": _speedup, "heterogeneous-data": _heterogeneous}[what]
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
        console.print(in_terminal(accuracy_table(study, results[study.name]), ("loss", "why"), study.title))
    return path


def _heterogeneous(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    studies = heterogeneous_studies()
    results = _results(studies, seeds, budget, out, jobs, console)
    path = heterogeneous.write_report(studies, results, out, command)
    for study in studies:
        console.print(in_terminal(heterogeneous.table(study, results[study.name]), ("consensus error",), study.title))
    return path


def _speedup(seeds: int, budget: float, out: Path, jobs: int, console: Console, command: str) -> Path:
    keys = speedup.read()
    todo = speedup.parts(keys, seeds, budget)
    _run(todo, out, jobs, console, speedup.measure, speedup.measured)
    settings = list(speedup.settings(keys, speedup.cells(keys, budget), speedup.collect(todo, out)))
    console.print(in_terminal(speedup_report.slopes(settings), ("slope in", "points", "n^", "T^")))
    return speedup_report.write_report(settings, out, command)


def _results(
    studies: list[Study], seeds: int, budget: float, out: Path, jobs: int, console: Console
) -> dict[str, dict[str, LineResult]]:
    """Run what is not finished yet, and read the results."""
    todo = [part for study in studies for part in parts(study, seeds, budget)]
    if any(part.experiment.problem == "mnist-cnn" for part in todo):
        fetch("mnist", announce=lambda text: console.print(text, markup=False))  # once, before all workers need it
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
    """Run the parts in parallel, with one progress bar per study."""
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
