"""Checkpoints: plain safetensors, complete or absent, the last two kept. Nothing is unpickled."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save

from peerdescent.engine.update import State
from peerdescent.files import write_atomically

KEPT = 2


@dataclass
class Checkpoint:
    """The whole state of a run after some iterations, and what it had counted until then."""

    state: State
    iteration: int
    seconds: float
    digest: str
    """Tells whether a checkpoint belongs to the experiment that wants to go on."""


def save_checkpoint(folder: Path, checkpoint: Checkpoint) -> None:
    """Write a checkpoint and forget all but the newest ones."""
    folder.mkdir(exist_ok=True)
    counts = {"iteration": checkpoint.iteration, "seconds": checkpoint.seconds, "digest": checkpoint.digest}
    tensors = {name: array.detach().cpu().contiguous() for name, array in checkpoint.state.items()}
    content = save(tensors, metadata={"peerdescent": json.dumps(counts)})
    write_atomically(folder / f"{checkpoint.iteration:012d}.safetensors", content)
    for old in _files(folder)[KEPT:]:
        old.unlink(missing_ok=True)


def load_checkpoint(folder: Path) -> Checkpoint | None:
    """The newest checkpoint that can be read whole; unreadable ones are skipped with a warning."""
    for path in _files(folder):
        try:
            return _read(path)
        except Exception as error:  # a torn file fails in many ways, all of which mean: take the one before
            warnings.warn(f"skipping the unreadable checkpoint {path}: {error}", stacklevel=2)
    return None


def _read(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        counts: dict[str, Any] = json.loads(file.metadata()["peerdescent"])
        state: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return Checkpoint(state, int(counts["iteration"]), float(counts["seconds"]), str(counts["digest"]))


def _files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"), reverse=True)
