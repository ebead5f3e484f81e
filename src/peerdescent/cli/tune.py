"""`peerdescent tune`: good parameters for several methods at an equal budget, measured on fresh seeds."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from peerdescent._util.validation import whole
from peerdescent.cli.console import RunOptions, introduce, predict
from peerdescent.data.fetch import fetch
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments import Experiment

if TYPE_CHECKING:
    from peerdescent.tune import Budget
    from peerdescent.tune.tuning import Run

EPILOG = (
    "Examples: `peerdescent tune nn-code --out runs/tuned` (the paper's comparison, tuned fairly) · "
    "`peerdescent tune -a dsgpa-f-pb -a dm-sgd --graph ring:10 --trials 12` · "
    "`peerdescent tune experiment.toml --metric accuracy --seeds 5` · "
    "`peerdescent compare runs/tuned/tuned.toml`. Stopped at any moment, it goes on with --out and --resume."
)
Trials = Annotated[int, typer.Option(help="Trial runs of each method; later ones are fewer and longer.")]
Seeds = Annotated[int, typer.Option(help="Fresh seeds on which the best and the own values are measured.")]
TuningSeeds = Annotated[int, typer.Option(help="Seeds that each trial is averaged over.")]
Metric = Annotated[
    Literal["loss", "accuracy"], typer.Option(help="What is made best: f(x̄) at the end, or accuracy on test data.")
]
Jobs = Annotated[int | None, typer.Option(help="Runs side by side; all processors unless given.")]


def execute(experiment: Experiment, way: RunOptions, budget: Budget, jobs: int | None) -> None:
    """Tune, showing how it goes; raises if no method has a setting that does not diverge."""
    from peerdescent.tune import report, tune  # figures are slow to import, and only this needs them

    jobs = whole("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    if way.workers != 1 or way.on_loss != "stop" or way.kill or way.stall:
        raise InputError(
            "tune carries out every run in one process: leave out --workers, --on-loss, --kill and --stall; "
            "--jobs says how many run side by side."
        )
    out, silent = way.folder("tune"), way.quiet or way.as_json
    console = Console(quiet=silent, highlight=False, markup=False, emoji=False)
    introduce(console, experiment)
    predict(console, experiment, way.strict)
    if experiment.problem == "mnist-cnn":
        fetch("mnist", announce=console.print)  # once, before all workers want it
    with _progress(console, silent) as bar:
        tuning = tune(experiment, out, budget, jobs, way.resume, way.overwrite, _watch(bar))
    command = shlex.join(["peerdescent", *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite"))])
    report.write_report(tuning, out, command)
    if way.as_json:
        print(json.dumps({"out": str(out), **report.as_data(tuning)}, indent=2))
    outcome = report.outcome_table(tuning)
    other = next(key for key in report.QUANTITIES if key != budget.metric)
    wide = [name for name in outcome.columns if name.startswith((other, "tuned values"))]
    console.print(report.values_table(tuning, "tuned").to_rich(), "")
    console.print(outcome.to_rich(wide), "", report.cost_table(tuning).to_rich(), "")
    console.print(report.verdict(tuning))
    console.print(f"tuned experiment: {out / 'tuned.toml'}\nreport: {out / 'README.md'}")
    if all(one.best is None for one in tuning.methods):
        raise DivergedError("every trial diverged: begin with smaller steps.")


def _progress(console: Console, silent: bool) -> Progress:
    text, state = TextColumn("{task.description:<11}"), TextColumn("{task.fields[state]}")
    columns = (text, BarColumn(), TaskProgressColumn(), state, TimeRemainingColumn(compact=True))
    return Progress(*columns, console=console, disable=silent)


def _watch(bar: Progress) -> Callable[[str, Sequence[Run]], Callable[[Run, int], None]]:
    """For each stage a line of its own in the progress display."""
    lock = threading.Lock()

    def watch(stage: str, runs: Sequence[Run]) -> Callable[[Run, int], None]:
        task = bar.add_task(stage, total=sum(run.experiment.iterations for run in runs), state="")
        done: dict[str, int] = {}

        def report(run: Run, k: int) -> None:
            with lock:
                done[run.place] = k
                bar.update(task, completed=sum(done.values()), state=run.experiment.algorithms[0])

        return report

    return watch
