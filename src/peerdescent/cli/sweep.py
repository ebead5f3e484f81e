"""`peerdescent run` and `compare` for several seeds and a grid of values: runs side by side, one table, one figure."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerdescent._util.validation import check_integer
from peerdescent.cli import flags
from peerdescent.cli.stopping import explained, resume_command
from peerdescent.errors import DivergedError, InputError

if TYPE_CHECKING:
    from rich.progress import Progress

    from peerdescent.experiments.schema import Experiment
    from peerdescent.experiments.sweep import Sweep
    from peerdescent.experiments.sweep_parts import SweepPart
    from peerdescent.experiments.sweep_run import Progress as OnProgress
    from peerdescent.report.runs import Group

MOST_JOBS = 1024
NARROW = ("seeds", "iterations", "consensus error", "gradient norm", "sent", "seconds")
"""Columns that a terminal has no room for; the files have them."""


def execute(experiment: Experiment, sweep: Sweep, given: dict[str, Any], command: str) -> None:
    """Run a sweep, showing how it goes; raises if every run diverged."""
    _refuse_processes(given)
    jobs = check_integer("--jobs", os.cpu_count() or 1 if given["jobs"] is None else given["jobs"], 1, MOST_JOBS + 1)
    from peerdescent.cli.display import Display
    from peerdescent.experiments import sweep_run
    from peerdescent.experiments.run import RunOptions
    from peerdescent.experiments.sweep_parts import parts

    options = RunOptions(flags.folder_from(given), given["resume"], given["overwrite"])
    out = options.folder(command)
    options = RunOptions(out, given["resume"], given["overwrite"])
    log = flags.loggers_from(given)
    todo = parts(experiment, sweep, log)
    display = Display(given["quiet"] or given["as_json"])
    display.fetch_data(experiment)
    plans = sweep_run.plans_of(todo)
    display.introduce(experiment, plans, given["strict"], brief=True)
    display.print(f"{len(todo)} runs: {len(plans)} settings, {len(todo) // len(plans)} seeds each")
    advice = partial(resume_command, command, out, 1)
    with explained(advice), display.runs_progress() as bar:
        groups = sweep_run.execute(experiment, sweep, todo, options, min(jobs, len(todo)), _follow(bar, todo))
    _conclude(groups, out, display.print, given["as_json"])


def _refuse_processes(given: dict[str, Any]) -> None:
    """Every run of a sweep is in one process."""
    asked = {"--workers": given["workers"] != 1, "--on-loss": given["on_loss"] != "stop"}
    asked |= {"--kill": bool(given["kill"]), "--stall": bool(given["stall"])}
    for flag, wanted in asked.items():
        if wanted:
            raise InputError(f"{flag} is for one run: a sweep has one process per run, --jobs of them side by side.")


def _follow(bar: Progress, todo: Sequence[SweepPart]) -> OnProgress:
    """One line for all runs; workers report from a thread."""
    lock, reached = threading.Lock(), dict[str, int]()
    task = bar.add_task("runs", total=sum(part.experiment.iterations for part in todo), state="")

    def report(part: SweepPart, k: int) -> None:
        place = str(part.folder(Path()))
        with lock:
            reached[place] = k
            bar.update(task, completed=sum(reached.values()), state=place)

    return report


def _conclude(groups: Sequence[Group], out: Path, say: Any, as_json: bool) -> None:
    from peerdescent._util.numbers import jsonable
    from peerdescent.report.sweep import sweep_table
    from peerdescent.runs.metrics import diverged

    table = sweep_table(groups)
    if as_json:
        rows = [dict(zip(table.data, row, strict=True)) for row in zip(*table.data.values(), strict=True)]
        print(json.dumps({"out": str(out), "results": {row.pop("method"): jsonable(row) for row in rows}}, indent=2))
    finished = all(state == "finished" for state in table.data["state"])
    say(table.to_rich([*NARROW, *(["state"] if finished else [])]))
    if (figure := out / "figures" / "sweep.png").is_file():
        say(f"figure: {figure}")
    say(f"run folder: {out}")
    if all(diverged(run.metrics) for group in groups for run in group.runs):
        raise DivergedError("every run diverged: try smaller steps.")
