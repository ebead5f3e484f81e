"""`load`: a run folder, back in Python."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

from peerdescent._util.validation import described
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments.files import run_file
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import from_keys
from peerdescent.experiments.user_code import check_trust
from peerdescent.mixing.global_average import AllRows
from peerdescent.problems import Problem
from peerdescent.runs.clock_file import with_clock
from peerdescent.runs.contents import CHECKPOINTS, SUMMARY
from peerdescent.runs.folder import read_experiment, read_metrics, read_summary
from peerdescent.runs.metrics import Row
from peerdescent.training.buffers import split_state
from peerdescent.training.checkpoints import Checkpoints
from peerdescent.training.plan import MADE_IN_PYTHON
from peerdescent.training.result import Result

_REMEDY = "pass the problem to load; a class of your own cannot be loaded, its states are in checkpoints/"


def load(path: str | os.PathLike[str], problem: Problem | None = None, trust: bool = False) -> Result:
    """The result of a run from its folder: metrics, notes, the agents' last points, the model.

    Args:
        path: the run folder.
        problem: what was minimised, for runs whose problem was made in Python.
        trust: whether the Python files that the run loaded may be run again.

    Raises:
        InputError: the folder holds no run, or no checkpoint, or its problem is needed.

    >>> import tempfile, peerdescent, torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = peerdescent.train("quadratic", "ring:4", "d2", iterations=20, out=f"{folder}/a")
    ...     again = load(f"{folder}/a")
    >>> torch.equal(made.x, again.x), again.metrics["loss"] == made.metrics["loss"]
    (True, True)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {described(path)}: expected the folder of a run.")
    folder = Path(path)
    if run_file(folder).name != "experiment.toml":
        raise InputError(f"{folder} holds several runs: load one of the folders in it.")
    keys = {key: value for key, value in read_experiment(folder).items() if key != "x0"}
    missing = [name for name in keys.pop(MADE_IN_PYTHON, []) if name != "x0" and (problem is None or name != "problem")]
    if missing:
        raise InputError(f"{folder} was made in Python with its own {', '.join(missing)}: {_REMEDY}.")
    check_trust(keys.get("load", ()), str(folder / "experiment.toml"), trust)
    (plan,) = resolve(from_keys(keys, str(folder)))
    checkpoint = Checkpoints(folder / CHECKPOINTS, ProcessGroup.single(), Placement(plan.graph.n, 1)).last()
    if checkpoint is None:
        raise InputError(f"{folder} has no checkpoint: its metrics are in metrics.jsonl.")
    device, dtype = plan.settings.place()
    agents = [agent for agent in range(plan.graph.n) if agent not in checkpoint.lost]
    whole = (problem or plan.problem).to(device, dtype)
    end = _summary(folder)
    state, buffers = split_state(checkpoint.state)
    if plan.settings.final_average and end and end.get("status") != "stopped":  # checkpoints are from before it
        state |= plan.algorithm.global_average(SimpleNamespace(**state), AllRows())
    return Result(
        state["x"].to(device).contiguous(),
        with_clock(read_metrics(folder), folder),
        whole.subset(agents) if checkpoint.lost else whole,
        plan.graph.subset(agents) if checkpoint.lost else plan.graph,
        plan.algorithm,
        plan.settings,
        "loaded",
        "loaded",
        [str(note) for note in end.get("notes", [])],
        diverged=bool(end.get("diverged", False)),
        lost=checkpoint.lost,
        weights=plan.weights,
        buffers={name: rows.to(device) for name, rows in buffers.items()},
    )


def _summary(folder: Path) -> Row:
    return read_summary(folder) if os.path.lexists(folder / SUMMARY) else {}  # without one, the run has not ended
