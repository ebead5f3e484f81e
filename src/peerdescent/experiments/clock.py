"""`clock`: run folders in simulated seconds; each gets a clock.json, and their tables and figures a new column."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peerdescent._util import extras, toml
from peerdescent._util.files import read_text
from peerdescent.clock.files import read as read_network
from peerdescent.clock.model import NetworkModel
from peerdescent.clock.simulation import all_reduce_seconds
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import from_keys
from peerdescent.experiments.user_code import check_trust
from peerdescent.report.formatting import human_seconds
from peerdescent.report.runs import Run, find, group
from peerdescent.report.summary import summary_table
from peerdescent.report.sweep import sweep_figure, sweep_table
from peerdescent.report.tables import Table
from peerdescent.runs.clock_file import COLUMN, write_clock
from peerdescent.runs.contents import CHECKPOINTS, COMPARISON, EXPERIMENT, FIGURES, SUMMARY, SWEEP, checkpoints_in
from peerdescent.runs.folder import read_experiment, read_summary
from peerdescent.runs.metrics import Metrics
from peerdescent.training.checkpoints import Checkpoints
from peerdescent.training.clocked import clocked, communication_of
from peerdescent.training.plan import MADE_IN_PYTHON, Plan


@dataclass(frozen=True)
class ClockedRun:
    """One run on the clock."""

    run: Run
    all_reduce: float
    """Simulated seconds of one ring all_reduce of its vector."""
    metrics: Metrics
    """With simulated seconds."""


def clock_runs(paths: Sequence[Path], network: str | os.PathLike[str] | NetworkModel, trust: bool = False) -> Table:
    """Add simulated seconds to all runs in these folders, and to the tables and figures that are there.

    Args:
        paths: run folders, comparisons, sweeps, or folders of those.
        network: a model, its file, or the name of one that ships with the package.
        trust: whether the Python files that a run loaded may be run again.

    Returns:
        One row per run.

    >>> import tempfile, peerdescent
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = peerdescent.train("quadratic", "ring:4", "d2", iterations=20, out=f"{folder}/a")
    ...     table = clock_runs([Path(folder, "a")], "lan")
    ...     again = peerdescent.load(f"{folder}/a")
    >>> table.columns
    ('method', 'iterations', 'simulated seconds', 'per iteration', 'an all_reduce takes')
    >>> 20 * 0.05 < again.metrics[-1]["simulated_seconds"] < 20 * 0.1
    True
    """
    model = read_network(network)
    runs = [run for run in find(paths) if len(run.metrics)]
    for run in runs:
        if run.status == "running":
            raise InputError(f"the run in {run.path} is still going: wait for its end.")
    found = [_clock(run, model, trust) for run in runs]  # all are checked before anything is written
    for one in found:
        write_clock(one.run.path, model.name, model.as_keys(), one.metrics)
    for path in paths:
        _redraw(path)
    labels = {
        run.path: g.label + (f" · seed {run.seed}" if len(g.runs) > 1 else "") for g in group(runs) for run in g.runs
    }
    rows = [_row(labels[one.run.path], one) for one in found]
    columns = ("method", "iterations", "simulated seconds", "per iteration", "an all_reduce takes")
    return Table(f"On {model.name}", columns, rows)


def _row(label: str, one: ClockedRun) -> tuple[str, ...]:
    last, seconds = one.metrics[-1]["iteration"], one.metrics[-1][COLUMN]
    pace = seconds / last if last else 0.0
    return label, f"{last:,}", human_seconds(seconds), f"{pace:.4g} s", f"{one.all_reduce:.4g} s"


def _clock(run: Run, model: NetworkModel, trust: bool) -> ClockedRun:
    plan = _plan(run.path, trust)
    if any(note.startswith("lost ") for note in run.notes):
        raise InputError(f"the run in {run.path} lost agents on the way: the clock is for runs that kept all of them.")
    sent = communication_of(plan.algorithm, plan.graph, plan.settings, plan.dimension)
    newest = checkpoints_in(run.path / CHECKPOINTS)[:1]
    several = any(path.suffix == "" for path in newest)  # the parts of several processes
    metrics = clocked(run.metrics, sent, model, plan.settings.seed, several)
    return ClockedRun(run, all_reduce_seconds(model, sent.n, sent.mean_bytes), metrics)


def _plan(folder: Path, trust: bool) -> Plan:
    """What was run; a problem that was made in Python has the dimension of its checkpoint."""
    keys = {key: value for key, value in read_experiment(folder).items() if key not in ("x0", "transform")}
    python = keys.pop(MADE_IN_PYTHON, [])
    if "algorithm" in python:
        raise InputError(f"{folder} was made with a method of your own: use result.clock(network) in Python.")
    check_trust(keys.get("load", ()), str(folder / EXPERIMENT), trust)
    (plan,) = resolve(from_keys(keys, str(folder)))
    if "problem" not in python:
        return plan
    saved = Checkpoints(folder / CHECKPOINTS, ProcessGroup.single(), Placement(plan.graph.n, 1)).last()
    if saved is None:
        raise InputError(f"{folder} has no checkpoint, which tells how long a vector is: run it again with records.")
    dimension = saved.state["x"].shape[1]
    return replace(plan, make_dimension=lambda: dimension)


def _redraw(folder: Path) -> None:
    """Tables and figures of a run, a comparison or a sweep, with the column and the axis of the clock."""
    if not (folder / "table.md").is_file():
        return
    swept = (folder / SWEEP).is_file()
    runs, title = find([folder]), _title(folder)
    table = sweep_table(group(runs), title) if swept else summary_table({run.method: _summary(run) for run in runs})
    table.write(folder / "table", ("md", "csv"))
    try:
        extras.require("matplotlib", "figures")
    except InputError as error:
        warnings.warn(f"no figure is drawn: {error}", stacklevel=3)
        return
    from peerdescent.report import drawing, figures

    if swept:
        drawing.save(sweep_figure(group(runs), title), folder / FIGURES / "sweep")
    else:
        curves = {run.method: run.metrics for run in runs}
        drawing.save(figures.comparison(curves, title), folder / FIGURES / "comparison")


def _title(folder: Path) -> str:
    for name in (COMPARISON, SWEEP, EXPERIMENT):
        if (folder / name).is_file():
            return str(toml.loads(read_text(folder / name), str(folder / name)).get("title", ""))
    return ""


def _summary(run: Run) -> dict[str, object]:
    found = read_summary(run.path) if os.path.lexists(run.path / SUMMARY) else dict(run.metrics[-1])
    ends = [f"diverged at iteration {run.metrics[-1]['iteration']}"] if found.get("diverged") else []
    return {**found, COLUMN: run.metrics[-1][COLUMN], "notes": [*ends, *run.notes]}
