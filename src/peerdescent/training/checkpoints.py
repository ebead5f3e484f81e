"""Checkpoints: plain safetensors, complete or absent, the last two kept. Nothing is unpickled.

One process writes one file, `checkpoints/000000000100.safetensors`. Several write a folder of that name with a file
each, and the first of them a manifest when all are there; a folder without a manifest is not a checkpoint. Any
number of processes can go on from either.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import safe_open
from safetensors.torch import load, save

from peerdescent._util.files import write_atomically
from peerdescent._util.validation import seconds_from_environment
from peerdescent.algorithms.state import State
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

KEPT = 2
SECONDS_BETWEEN = 10.0
SAVING_SHARE = 20
"""Large states are saved less often: computing takes at least so many times as long as saving."""
MANIFEST = "manifest.json"
NAME = re.compile(r"\d{12}(\.safetensors)?")


@dataclass
class Checkpoint:
    """The whole state of a run after some iterations, and what it had counted until then."""

    state: State
    iteration: int
    seconds: float
    digest: str
    """Tells whether a checkpoint belongs to the experiment that wants to go on."""
    lost: tuple[int, ...] = ()
    """The agents that the state has no rows of, since they were lost."""


class Pace:
    """When to save next, by the clock of this process; PEERDESCENT_CHECKPOINT_SECONDS changes how often."""

    def __init__(self) -> None:
        self._next = time.monotonic() + self._between()

    @property
    def due(self) -> bool:
        """Whether it is time to save again."""
        return time.monotonic() > self._next

    @contextmanager
    def saving(self) -> Iterator[None]:
        """While a state is saved, which decides how long to wait for the next time."""
        begin = time.monotonic()
        yield
        end = time.monotonic()
        self._next = end + max(self._between(), SAVING_SHARE * (end - begin))

    @staticmethod
    def _between() -> float:
        return seconds_from_environment("PEERDESCENT_CHECKPOINT_SECONDS", SECONDS_BETWEEN)


class Checkpoints:
    """The checkpoints of a run; all its processes call everything here, in the same order.

    Args:
        folder: where they are; each process writes there, on a disk that all share or on its own.
        group: the processes of the run.
        placement: which agents live in which process.
        digest: the fingerprint of the run that they belong to.
    """

    def __init__(self, folder: Path, group: ProcessGroup, placement: Placement, digest: str = "") -> None:
        self.folder, self.group, self.placement, self.digest = folder, group, placement, digest
        self._pace = Pace()

    def save_run(self, run: Run) -> None:
        """Save the state of a run as it is now; all its processes call this together."""
        with self._pace.saving():
            path = self.save(Checkpoint(run.state, run.k, run.seconds, self.digest, run.lost))
        run.callbacks.on_checkpoint(run, path)

    def save_if_due(self, run: Run) -> None:
        """Save if rank 0's clock says so; all processes call this together."""
        if self.group.broadcast_object(self._pace.due):
            self.save_run(run)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Keep a state, given by the rows hosted here, and forget all but the newest ones; returns where it is."""
        self.folder.mkdir(parents=True, exist_ok=True)
        counts = {"iteration": checkpoint.iteration, "seconds": checkpoint.seconds, "digest": checkpoint.digest}
        counts |= {"lost": list(checkpoint.lost)} if checkpoint.lost else {}
        content = save(
            {name: array.detach().cpu().contiguous() for name, array in checkpoint.state.items()},
            metadata={"peerdescent": json.dumps(counts)},
        )
        name = f"{checkpoint.iteration:012d}"
        path = self.folder / (f"{name}.safetensors" if self.group.size == 1 else name)
        if self.group.size == 1:
            write_atomically(path, content)
        else:
            self._save_part(path, content, counts)
        kept = self.group.broadcast_object([path.name for path in complete(self.folder)[:KEPT]])
        forget(self.folder, kept)
        return path

    def has(self, iteration: int) -> bool:
        """Whether rank 0 knows a complete checkpoint of that iteration."""
        found: bool = self.group.broadcast_object(any(int(path.stem) == iteration for path in complete(self.folder)))
        return found

    def _save_part(self, folder: Path, content: bytes, counts: dict[str, Any]) -> None:
        block = self.placement.block(self.group.rank)
        folder.mkdir(exist_ok=True)
        if self.group.is_rank_zero:
            (folder / MANIFEST).unlink(missing_ok=True)  # what is written anew does not count until it is complete
        self.group.broadcast_object()
        file = f"agents-{block.start}-{block.stop - 1}.safetensors"
        write_atomically(folder / file, content)
        part = {"file": file, "first": block.start, "agents": len(block), "sha256": _digest(content)}
        parts = self.group.gather_object(part)
        if self.group.is_rank_zero:
            manifest = {**counts, "agents": self.placement.agents, "parts": parts}
            write_atomically(folder / MANIFEST, json.dumps(manifest, indent=2).encode())

    def last(self) -> Checkpoint | None:
        """The newest checkpoint that can be read whole, at rank 0; unreadable ones are skipped with a warning."""
        names = [path.name for path in candidates(self.folder)] if self.group.is_rank_zero else []
        for name in self.group.broadcast_object(names):
            found = self._read(self.folder / name)
            if self.group.broadcast_object(found is not None):
                return found
        return None

    def _read(self, path: Path) -> Checkpoint | None:
        """A checkpoint, if all its parts are found among the processes; the whole of it at rank 0."""
        content: dict[str, bytes] = {}
        found: Checkpoint | None = None
        manifest: dict[str, Any] | None = None
        if self.group.is_rank_zero:
            try:
                if path.suffix:
                    found = _from_file(path)
                else:
                    manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
                    content = _intact(path, manifest["parts"])
            except Exception as error:  # a torn file fails in many ways, all of which mean: take the one before
                warnings.warn(f"skipping the unreadable checkpoint {path}: {error}", stacklevel=3)
                manifest = None
        manifest = self.group.broadcast_object(manifest)
        if manifest is None:
            return found
        missing = self.group.broadcast_object([part for part in manifest["parts"] if part["file"] not in content])
        self._fetch(path, missing, content)
        if not self.group.is_rank_zero:
            return None
        lost = [part["file"] for part in manifest["parts"] if part["file"] not in content]
        if lost:
            warnings.warn(f"skipping the incomplete checkpoint {path}: {', '.join(lost)} is lost", stacklevel=3)
            return None
        return _joined(manifest, content)

    def _fetch(self, path: Path, missing: list[dict[str, Any]], content: dict[str, bytes]) -> None:
        """Parts that lie on the disks of other processes, to rank 0."""
        own = {} if self.group.is_rank_zero else _intact(path, missing)
        held = self.group.broadcast_object(self.group.gather_object({file: len(part) for file, part in own.items()}))
        for part in missing:
            holder = next((rank for rank, files in enumerate(held) if part["file"] in files), None)
            if holder is not None and self.group.is_rank_zero:
                buffer = torch.empty(held[holder][part["file"]], dtype=torch.uint8)
                self.group.p2p.recv(buffer, holder)
                content[part["file"]] = buffer.numpy().tobytes()
            elif holder == self.group.rank:
                self.group.p2p.send(torch.frombuffer(bytearray(own[part["file"]]), dtype=torch.uint8), 0)


def candidates(folder: Path) -> list[Path]:
    """What may be a checkpoint, the newest first."""
    entries = [path for path in folder.glob("*") if NAME.fullmatch(path.name)]
    return sorted(entries, key=lambda path: path.name, reverse=True)


def complete(folder: Path) -> list[Path]:
    """What was written to its end, the newest first."""
    return [path for path in candidates(folder) if path.suffix or (path / MANIFEST).is_file()]


def forget(folder: Path, kept: Collection[str]) -> None:
    """Remove all checkpoints but some; a manifest goes first, so that a half removed one does not count."""
    for path in candidates(folder):
        if path.name not in kept:
            (path / MANIFEST).unlink(missing_ok=True) if path.is_dir() else path.unlink(missing_ok=True)
            shutil.rmtree(path, ignore_errors=True)


def _from_file(path: Path) -> Checkpoint:
    with safe_open(path, framework="pt") as file:
        counts: dict[str, Any] = json.loads(file.metadata()["peerdescent"])
        state: dict[str, torch.Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    return _counted(state, counts)


def _intact(folder: Path, parts: list[dict[str, Any]]) -> dict[str, bytes]:
    """The content of those parts that are here and as they were written."""
    found = {}
    for part in parts:
        path = folder / Path(part["file"]).name
        if path.is_file() and _digest(content := path.read_bytes()) == part["sha256"]:
            found[part["file"]] = content
    return found


def _joined(manifest: dict[str, Any], content: dict[str, bytes]) -> Checkpoint:
    parts = [load(content[part["file"]]) for part in sorted(manifest["parts"], key=lambda part: int(part["first"]))]
    state = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
    return _counted(state, manifest)


def _counted(state: State, counts: dict[str, Any]) -> Checkpoint:
    lost = tuple(int(agent) for agent in counts.get("lost", ()))
    return Checkpoint(state, int(counts["iteration"]), float(counts["seconds"]), str(counts["digest"]), lost)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
