"""`peerdescent tune`: good parameters for several methods at an equal budget, measured on fresh seeds."""

from __future__ import annotations

import json
import os
import shlex
import sys
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from peerdescent._util.validation import check_integer
from peerdescent.cli import flags
from peerdescent.cli.stopping import explained
from peerdescent.errors import DivergedError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

    from peerdescent.experiments.schema import Experiment
    from peerdescent.tune.search import Budget
    from peerdescent.tune.tuning import Trial

MOST_RUNS, MOST_JOBS = 100_000, 1024
"""More is most likely a typing error, and would fill the memory before the first run."""

Trials = Annotated[int, typer.Option(max=MOST_RUNS, help="Trial runs of each method; later ones are fewer and longer.")]
Seeds = Annotated[int, typer.Option(max=MOST_RUNS, help="Fresh seeds for measuring the best and the own values.")]
TuningSeeds = Annotated[int, typer.Option(max=MOST_RUNS, help="Seeds that each trial is averaged over.")]
Metric = Annotated[
    Literal["loss", "accuracy"], typer.Option(help="What is made best: f(x̄) at the end, or accuracy on test data.")
]
Jobs = Annotated[int | None, typer.Option(max=MOST_JOBS, help="Runs side by side; all processors unless given.")]


@flags.with_flags(flags.record_flags)
def tune(
    trials: Trials = 24,
    seeds: Seeds = 3,
    tuning_seeds: TuningSeeds = 1,
    metric: Metric = "loss",
    jobs: Jobs = None,
    **given: Any,
) -> None:
    """Find good values for several methods at an equal budget, inside their stable regions; measure on fresh seeds.

    Examples:

    - `peerdescent tune nn-code --out runs/tuned` tunes the paper's comparison fairly

    - `peerdescent tune -a dsgpa-f-pb -a dm-sgd --graph ring:10 --trials 12`

    - `peerdescent compare runs/tuned/tuned.toml` runs what was found

    Stopped at any moment, it continues with --out and --resume.
    """
    flags.silence(given["quiet"])
    experiment = flags.experiment_from({**given, "resume": False})
    from peerdescent.tune.search import Budget

    _execute(experiment, given, Budget(trials, seeds, tuning_seeds, metric), jobs)


def _execute(experiment: Experiment, given: dict[str, Any], budget: Budget, jobs: int | None) -> None:
    """Tune, showing how it goes; raises if no method has a setting that does not diverge."""
    from peerdescent.cli.display import Display
    from peerdescent.experiments.resolve import resolve
    from peerdescent.experiments.run import RunOptions
    from peerdescent.tune import report
    from peerdescent.tune.tuning import tune as search

    jobs = check_integer("jobs", os.cpu_count() or 1 if jobs is None else jobs, 1)
    out = RunOptions(given["out"], given["resume"], given["overwrite"]).folder("tune")
    silent = given["quiet"] or given["as_json"]
    display = Display(silent)
    display.introduce(experiment, resolve(experiment), given["strict"])
    display.fetch_data(experiment)
    again = f"the same command with --out {shlex.quote(str(out))} --resume continues."
    with explained(lambda: again), _progress(display.console, silent) as bar:
        tuning = search(experiment, out, budget, jobs, given["resume"], given["overwrite"], _stages(bar))
    command = shlex.join(["peerdescent", *(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite"))])
    report.write_report(tuning, out, command)
    if given["as_json"]:
        print(json.dumps({"out": str(out), **report.as_data(tuning)}, indent=2))
    outcome = report.outcome_table(tuning)
    other = next(key for key in report.QUANTITIES if key != budget.metric)
    wide = [name for name in outcome.columns if name.startswith((other, "tuned values"))]
    display.console.print(report.values_table(tuning, "tuned").to_rich(), "")
    display.console.print(outcome.to_rich(wide), "", report.cost_table(tuning).to_rich(), "")
    display.print(report.verdict(tuning))
    display.print(f"tuned experiment: {out / 'tuned.toml'}\nreport: {out / 'README.md'}")
    if all(one.best is None for one in tuning.methods):
        raise DivergedError("every trial diverged: begin with smaller steps.")


def _progress(console: Console, silent: bool) -> Progress:
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    text, state = TextColumn("{task.description:<11}"), TextColumn("{task.fields[state]}")
    columns = (text, BarColumn(), TaskProgressColumn(), state, TimeRemainingColumn(compact=True))
    return Progress(*columns, console=console, disable=silent)


def _stages(bar: Progress) -> Callable[[str, Sequence[Trial]], Callable[[Trial, int], None]]:
    """For each stage a line of its own in the progress display."""
    lock = threading.Lock()

    def stage_progress(stage: str, runs: Sequence[Trial]) -> Callable[[Trial, int], None]:
        task = bar.add_task(stage, total=sum(run.experiment.iterations for run in runs), state="")
        done: dict[str, int] = {}

        def report(run: Trial, k: int) -> None:
            with lock:
                done[run.place] = k
                bar.update(task, completed=sum(done.values()), state=run.experiment.algorithms[0])

        return report

    return stage_progress
