"""`peerdescent reproduce`: the paper's experiments, every number beside the printed one, one report."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.table import Table

from peerdescent.checks import whole
from peerdescent.data.fetch import fetch
from peerdescent.errors import InputError
from peerdescent.reproduce import pool
from peerdescent.reproduce.report import COLUMNS, accuracy_table, write_report
from peerdescent.reproduce.results import collect
from peerdescent.reproduce.studies import STUDIES, Part, parts, read_study

EPILOG = (
    "Examples: `peerdescent reproduce all --seeds 3` · `peerdescent reproduce nn --reading text` · "
    "`peerdescent reproduce cnn --budget 0.05` (a twentieth of the iterations, to try it out). "
    "Stop it at any moment; the same command goes on where it was."
)


def reproduce(
    what: Annotated[Literal["nn", "cnn", "gamma", "all"], typer.Argument(help="Which experiment of the paper.")],
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
    whole("seeds", seeds, 1)
    if not 0 < budget <= 1:
        raise InputError(f"budget = {budget}: expected a number above 0 and at most 1.")
    jobs = whole("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    out = out or Path("runs", f"reproduce-{reading}" + f"-{budget:g}" * (budget != 1))
    studies = [read_study(name, reading) for name in (STUDIES if what == "all" else (what,))]
    todo = [part for study in studies for part in parts(study, seeds, budget)]
    console = Console(quiet=quiet, highlight=False)
    if quiet:
        warnings.simplefilter("ignore")
    if any(part.experiment.problem == "mnist-cnn" for part in todo):
        fetch("mnist", announce=lambda text: console.print(text, markup=False))  # once, before all workers want it
    _run(todo, out, jobs, console)
    results = {study.name: collect(study, todo, out) for study in studies}
    command = f"peerdescent reproduce {what} --seeds {seeds} --reading {reading}" + f" --budget {budget}" * (
        budget != 1
    )
    path = write_report(studies, results, out, command)
    for study in studies:
        console.print(_table(study.title, accuracy_table(study, results[study.name]).rows))
    console.print(f"report: {path}")


def _run(todo: list[Part], out: Path, jobs: int, console: Console) -> None:
    """One line of progress per study, and one for all."""
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
        done: dict[tuple[str, str, int], int] = {}

        def report(part: Part, k: int) -> None:
            with lock:
                done[part.study, part.line.label, part.seed] = k
                total = sum(count for (study, _, _), count in done.items() if study == part.study)
                bar.update(tasks[part.study], completed=total, state=f"{part.line.label}, seed {part.seed}")

        pool.carry_out(todo, out, jobs, report)


def _table(title: str, rows: Sequence[Sequence[str]]) -> Table:
    table = Table(title=title, title_justify="left", box=None, pad_edge=False)
    shown = [i for i, name in enumerate(COLUMNS) if name not in ("loss", "why")]  # the report has room for them
    for name in (COLUMNS[i] for i in shown):
        number = "%" in name or name == "seeds"
        table.add_column(name, justify="right" if number else "left", no_wrap=True)
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    return table
