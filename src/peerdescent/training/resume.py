"""Going on with the run in a folder: what it holds is checked against what is asked for, and restored."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from peerdescent.errors import InputError
from peerdescent.kernels.update import synchronize_messages
from peerdescent.runs.contents import CHECKPOINTS, METRICS
from peerdescent.runs.fingerprint import differences, fingerprint
from peerdescent.runs.folder import RunFolder, digest_of_rows, read_metrics
from peerdescent.runs.metrics import Row
from peerdescent.training.checkpoint_files import Checkpoint
from peerdescent.training.checkpoints import Checkpoints
from peerdescent.training.state_repair import in_words, readmit_agents

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

NEEDED = ("iteration", "loss", "bytes_sent")
"""Columns that a run which goes on looks up in the rows before."""


def record_in(run: Run, folder: RunFolder) -> None:
    """In rank 0: keep records in a folder, and go on from what it holds."""
    description = dict(run.plan.description)
    if description["gradients"] == "measure" or run.strategy == "compiled":
        description["gradients"] = run.strategy  # what was measured or compiled is kept when the run is resumed
    digest = fingerprint(description, start=run.start_digest)
    run.group.broadcast_object(digest)
    run.checkpoints = Checkpoints(folder.checkpoints, run.group, run.placement, digest)
    rows = read_metrics(folder.path, NEEDED)  # all that is there is checked before anything is changed
    recorded = rows[-1]["iteration"] if len(rows) else -1
    last = run.checkpoints.last(f"its metrics, which are intact up to iteration {recorded}," if len(rows) else "it")
    _check_same(run, folder, description, last)
    if last is not None and last.lost:
        last.state = readmit_agents(run.algorithm, run.graph.union, last.state, last.lost)
        run.recorder.note(f"{in_words(last.lost)} rejoined at iteration {last.iteration} with a neighbour's x")
    _check_length(run, folder, last, recorded)
    kept = [row for row in rows if last is not None and row["iteration"] <= last.iteration]
    _check_rows(folder, last, kept)
    _restore(run, last)
    run.recorder.write_to(folder, description, kept)
    if kept:  # agents may have been lost before: what was sent until then is recorded
        run.bytes_before = kept[-1]["iteration"], kept[-1]["bytes_sent"]
        run.evaluation_seconds = kept[-1].get("evaluation_seconds") or 0.0  # older runs did not record it


def follow(run: Run, out: Path) -> None:
    """In all other ranks: go on from where rank 0 does, and keep the own part of checkpoints."""
    digest = run.group.broadcast_object()
    run.checkpoints = Checkpoints(out / CHECKPOINTS, run.group, run.placement, digest)
    _restore(run, run.checkpoints.last())


def _check_same(run: Run, folder: RunFolder, description: dict[str, Any], last: Checkpoint | None) -> None:
    """Refuse a folder that holds another run; what differs is named."""
    known = folder.experiment()
    assert run.checkpoints is not None
    digest = run.checkpoints.digest
    fits = last is None or {name: _form(array) for name, array in last.state.items()} == {
        name: _form(array) for name, array in run.kept_state().items()
    }
    same = known is None or fingerprint(known, start=run.start_digest) == digest
    if same and (last is None or (last.digest == digest and fits)):
        return
    named = differences(known or {}, description)[:3] or ["its data or starting points differ"]
    raise InputError(
        f"{folder.path} holds another run ({'; '.join(named)}): leave out what differs, or choose another --out."
    )


def _form(array: torch.Tensor) -> tuple[torch.dtype, torch.Size]:
    """What the arrays of a state have in common, however many agents there are."""
    return array.dtype, array.shape[1:]


def _check_length(run: Run, folder: RunFolder, last: Checkpoint | None, recorded: int) -> None:
    """Refuse to end before where the folder's run already is."""
    wanted = run.settings.iterations
    if last is not None and last.iteration > wanted:
        raise InputError(
            f"{folder.path} holds {last.iteration} iterations already: "
            "ask for at least as many, or choose another --out."
        )
    if last is None and recorded > wanted:
        raise InputError(f"{folder.path} holds {recorded} iterations already: choose another --out.")


def _check_rows(folder: RunFolder, last: Checkpoint | None, kept: list[Row]) -> None:
    """Refuse to go on after rows that are gone or changed."""
    if last is None or last.evaluations == 0:
        return
    file, way_out = folder.path / METRICS, "restore the file, or start again with --overwrite."
    if len(kept) < last.evaluations:
        raise InputError(
            f"{file} holds {len(kept)} of the {last.evaluations} evaluations up to iteration {last.iteration}, where a "
            f"checkpoint is: {way_out}"
        )
    if digest_of_rows(kept[: last.evaluations]) != last.rows:
        raise InputError(
            f"{file} has changed: its first {last.evaluations} evaluations are not those before the checkpoint of "
            f"iteration {last.iteration}; {way_out}"
        )


def _restore(run: Run, last: Checkpoint | None) -> None:
    """Every process's rows of rank 0's checkpoint, if it has one."""
    counted = run.group.broadcast_object(None if last is None else [last.iteration, last.seconds])
    if counted is not None:
        run.k, run.seconds = counted
        for name, array in run.kept_state().items():
            rows: torch.Tensor | None = None if last is None else last.state[name]
            run.group.scatter(rows, array, run.placement)
        synchronize_messages(run.update)
