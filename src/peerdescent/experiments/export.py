"""`export`: the model of a run folder as a safetensors file."""

from __future__ import annotations

import warnings
from pathlib import Path

from peerdescent import graphs
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments.files import run_file
from peerdescent.experiments.load import load
from peerdescent.runs.contents import CHECKPOINTS, EXPERIMENT
from peerdescent.runs.folder import read_experiment
from peerdescent.training.checkpoints import Checkpoints
from peerdescent.training.export import check_target, row_of_agent, tensors_of, write_tensors
from peerdescent.training.plan import MADE_IN_PYTHON


def export(
    folder: Path, file: Path, agent: int | None = None, overwrite: bool = False, trust: bool = False
) -> list[str]:
    """Write the averaged model of a run, or that of one agent; returns the names of its tensors.

    A problem that was made in Python cannot be rebuilt here: its parameters are written as one vector, with a warning.

    >>> import tempfile, peerdescent
    >>> with tempfile.TemporaryDirectory() as place:
    ...     run = peerdescent.train("quadratic", "ring:4", "d2", iterations=20, out=f"{place}/a")
    ...     export(Path(place, "a"), Path(place, "model.safetensors"))
    ['x']
    """
    check_target(file, overwrite)
    own = read_experiment(folder).get(MADE_IN_PYTHON, []) if run_file(folder).name == EXPERIMENT else []
    if not set(own) - {"x0"}:
        return load(folder, trust=trust).export(file, agent, overwrite)
    text = str(read_experiment(folder).get("graph", ""))
    checkpoint = Checkpoints(folder / CHECKPOINTS, ProcessGroup.single(), Placement(graphs.parse(text).n, 1)).last()
    if checkpoint is None:
        raise InputError(f"{folder} has no checkpoint: its metrics are in metrics.jsonl.")
    x = checkpoint.state["x"]
    tensors = tensors_of(None, x.mean(dim=0) if agent is None else x[row_of_agent(agent, len(x), checkpoint.lost)])
    write_tensors(tensors, file, agent="mean" if agent is None else str(agent))
    warnings.warn(
        f"{folder} was made in Python with its own {', '.join(own)}: the parameters are one vector, x; for named ones "
        "use peerdescent.load(folder, problem).export(file) in Python",
        stacklevel=2,
    )
    return list(tensors)
