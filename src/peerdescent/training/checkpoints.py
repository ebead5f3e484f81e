"""Checkpoints: complete or absent, checked when they are read, the last two kept.

One process writes one file, `checkpoints/000000000100.safetensors`. Several write a folder of that name with a file
each, and the first of them a manifest when all are there; a folder without a manifest is not a checkpoint. Any
number of processes can go on from either.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from peerdescent._util.files import make_folder, write_atomically
from peerdescent._util.validation import seconds_from_environment
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.runs.contents import MANIFEST, checkpoints_in, remove_checkpoint
from peerdescent.runs.folder import digest_of_rows, recording
from peerdescent.training.checkpoint_files import (
    Checkpoint,
    DamagedError,
    Part,
    decode,
    decode_manifest,
    digest_of,
    encode,
    encode_manifest,
    joined,
    read_checkpoint,
    read_intact,
)

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

KEPT = 2
SECONDS_BETWEEN = 10.0
SAVING_SHARE = 20
"""Large states are saved less often: computing takes at least so many times as long as saving."""


def seconds_between() -> float:
    """Seconds from one checkpoint to the next, as the user wants it.

    Raises:
        InputError: the variable is not a number of seconds.
    """
    return seconds_from_environment("PEERDESCENT_CHECKPOINT_SECONDS", SECONDS_BETWEEN)


class Pace:
    """When to save next, by the clock of this process; PEERDESCENT_CHECKPOINT_SECONDS changes how often."""

    def __init__(self) -> None:
        self._next = time.monotonic() + seconds_between()

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
        self._next = end + max(seconds_between(), SAVING_SHARE * (end - begin))


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
            rows = run.recorder.metrics
            counted = run.lost, len(rows), digest_of_rows(rows) if len(rows) else ""
            path = self.save(Checkpoint(run.kept_state(), run.k, run.seconds, self.digest, *counted))
        run.callbacks.on_checkpoint(run, path)

    def save_if_due(self, run: Run) -> None:
        """Save if rank 0's clock says so; all processes call this together."""
        if self.group.broadcast_object(self._pace.due):
            self.save_run(run)

    def save(self, checkpoint: Checkpoint) -> Path:
        """Keep a state, given by the rows hosted here, and forget all but the newest ones; returns where it is."""
        name = f"{checkpoint.iteration:012d}"
        path = self.folder / (f"{name}.safetensors" if self.group.size == 1 else name)
        if self.group.size == 1:
            _write(path, encode(checkpoint))
        else:
            self._save_part(path, checkpoint)
        kept = self.group.broadcast_object([path.name for path in complete(self.folder)[:KEPT]])
        with recording():
            forget(self.folder, kept)
        return path

    def has(self, iteration: int) -> bool:
        """Whether rank 0 knows a complete checkpoint of that iteration."""
        found: bool = self.group.broadcast_object(any(int(path.stem) == iteration for path in complete(self.folder)))
        return found

    def _save_part(self, folder: Path, checkpoint: Checkpoint) -> None:
        block = self.placement.block(self.group.rank)
        if self.group.is_rank_zero:
            with recording():  # what is written anew does not count until it is complete
                (folder / MANIFEST).unlink(missing_ok=True)
        self.group.broadcast_object()
        file, content = f"agents-{block.start}-{block.stop - 1}.safetensors", encode(checkpoint)
        _write(folder / file, content)
        parts = self.group.gather_object(vars(Part(file, block.start, len(block), digest_of(content))))
        if self.group.is_rank_zero:
            manifest = encode_manifest(checkpoint, self.placement.agents, [Part(**part) for part in parts])
            _write(folder / MANIFEST, manifest)

    def last(self, records: str = "its metrics") -> Checkpoint | None:
        """The newest checkpoint that can be read whole, at rank 0; damaged ones are skipped with a warning.

        Args:
            records: what else there is to save, for the message.

        Raises:
            InputError: at rank 0, if there are checkpoints, but none can be read.
        """
        names = [path.name for path in checkpoints_in(self.folder)] if self.group.is_rank_zero else []
        for name in self.group.broadcast_object(names):
            found = self._read(self.folder / name)
            if self.group.broadcast_object(found is not None):
                return found
        damaged = [path.name for path in complete(self.folder)]
        if damaged and self.group.is_rank_zero:  # what a killed run was still writing is no loss
            raise InputError(
                f"no checkpoint in {self.folder} can be read ({', '.join(damaged)}): restore one of them, or save "
                f"{records} elsewhere and start again with --overwrite."
            )
        return None

    def _read(self, path: Path) -> Checkpoint | None:
        """A checkpoint, if all its parts are found among the processes; the whole of it at rank 0."""
        found: Checkpoint | None = None
        parts: list[Part] | None = None
        content: dict[str, bytes] = {}
        if self.group.is_rank_zero:
            with _skipped_if_damaged(path):
                found, parts = _decoded(path, self.placement.agents)
                content = read_intact(path, parts or [])
        wanted = self.group.broadcast_object(None if parts is None else [vars(part) for part in parts])
        if wanted is None:
            return found
        missing = self.group.broadcast_object([part for part in wanted if part["file"] not in content])
        self._fetch(path, [Part(**part) for part in missing], content)
        if found is None or parts is None:
            return None
        whole: Checkpoint | None = None
        with _skipped_if_damaged(path):
            lost = [part.file for part in parts if part.file not in content]
            if lost:
                raise DamagedError(f"{', '.join(lost)} is lost or damaged")
            whole = joined(found, parts, content)
        return whole

    def _fetch(self, path: Path, missing: list[Part], content: dict[str, bytes]) -> None:
        """Parts that lie on the disks of other processes, to rank 0."""
        own = {} if self.group.is_rank_zero else read_intact(path, missing)
        held = self.group.broadcast_object(self.group.gather_object({file: len(part) for file, part in own.items()}))
        for part in missing:
            holder = next((rank for rank, files in enumerate(held) if part.file in files), None)
            if holder is not None and self.group.is_rank_zero:
                buffer = torch.empty(held[holder][part.file], dtype=torch.uint8)
                self.group.p2p.recv(buffer, holder)
                content[part.file] = buffer.numpy().tobytes()
            elif holder == self.group.rank:
                self.group.p2p.send(torch.frombuffer(bytearray(own[part.file]), dtype=torch.uint8), 0)


@contextmanager
def _skipped_if_damaged(path: Path) -> Iterator[None]:
    try:
        yield
    except (DamagedError, InputError, MemoryError) as error:
        reason = str(error).rstrip(".") or "it does not fit into memory"
        warnings.warn(f"skipping the damaged checkpoint {path}: {reason}", stacklevel=4)


def _decoded(path: Path, agents: int) -> tuple[Checkpoint, list[Part] | None]:
    """A checkpoint in one file, or what the manifest of one in several files says."""
    if path.suffix:
        found, parts = decode(read_checkpoint(path), agents), None
    elif path.is_dir() and not _has_manifest(path):
        raise DamagedError("it was not written to its end")
    else:
        found, parts = decode_manifest(read_checkpoint(path / MANIFEST), agents)
    if int(path.stem) != found.iteration:
        raise DamagedError(f"it is of iteration {found.iteration}")
    return found, parts


def _write(path: Path, content: bytes) -> None:
    with recording():
        make_folder(path.parent)
        write_atomically(path, content)


def complete(folder: Path) -> list[Path]:
    """What was written to its end, the newest first; what is there in its place counts too, and cannot be read."""
    return [path for path in checkpoints_in(folder) if path.suffix or not path.is_dir() or _has_manifest(path)]


def _has_manifest(path: Path) -> bool:
    return (path / MANIFEST).exists() or (path / MANIFEST).is_symlink()


def forget(folder: Path, kept: Collection[str]) -> None:
    """Remove the checkpoints before those that are kept: a faster process may already write a later one."""
    oldest = min((int(Path(name).stem) for name in kept), default=0)
    for path in checkpoints_in(folder):
        if path.name not in kept and int(path.stem) < oldest:
            remove_checkpoint(path)
