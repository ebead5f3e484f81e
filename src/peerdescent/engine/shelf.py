"""Rows for other processes of one machine, in memory that both sides map.

Through gloo a row is copied into a socket, through the system and out of it again, by the processors that should
compute. Here it is written once and read once, and a byte in a pipe says that it is there.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import shutil
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

MEMORY = Path("/dev/shm")
"""Where files are memory, on Linux."""
TICK = 50
"""Milliseconds between looks at whether the run was called off."""
Pair = tuple[torch.Tensor, torch.Tensor]


@contextlib.contextmanager
def shelf_folder() -> Iterator[Path | None]:
    """A folder for the processes of a run to share memory in; None where there is no such place."""
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and hasattr(os, "posix_fallocate")):
        yield None
        return
    folder = Path(tempfile.mkdtemp(prefix="peerdescent-", dir=MEMORY))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@dataclass(frozen=True)
class Shelf:
    """The shared memory of one exchange.

    Args:
        folder: what all processes know.
        name: of the exchange, the same for all.
        rank: of this process.
        called_off: set when waiting is in vain, since a process is lost.
    """

    folder: Path
    name: str
    rank: int
    called_off: threading.Event

    def lane(self, peer: int, rows: int, place: torch.Tensor, wire: torch.dtype) -> SharedLane:
        """What passes to and from one process: so many rows to it, and those at `place` from it."""
        return SharedLane(self, peer, rows, place, wire)

    def slot(self, sender: int, receiver: int, rows: int, columns: int, dtype: torch.dtype) -> Slot:
        """The one from a process to another."""
        return Slot(self.folder / f"{self.name}-{sender}-{receiver}", rows, columns, dtype)


class Slot:
    """One direction between two processes: buffers for two messages in turn, and a bell. The sender makes it."""

    def __init__(self, path: Path, rows: int, columns: int, dtype: torch.dtype) -> None:
        self._path, self._shape, self._dtype = path, (2, rows, columns), dtype
        self._size = math.prod(self._shape)
        self._bell: int | None = None

    def make(self) -> Pair:
        """For the sender.

        Raises:
            OSError: there is not enough memory. If it were not asked for now, a later write would kill the process.
        """
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self._size * self._dtype.itemsize)
        os.mkfifo(self._bell_path)
        return self._open()

    def find(self) -> Pair:
        """For the receiver, after the sender has made it: both have it now, and it ends with them."""
        pair = self._open()
        self._path.unlink()
        self._bell_path.unlink()
        return pair

    def ring(self) -> None:
        """Say that a message is there."""
        assert self._bell is not None
        os.write(self._bell, b"!")

    def listen(self, called_off: threading.Event) -> None:
        """Return when a message is there.

        Raises:
            ConnectionError: the run was called off.
        """
        assert self._bell is not None
        bell = select.poll()
        bell.register(self._bell, select.POLLIN)
        while not bell.poll(TICK):
            if called_off.is_set():
                raise ConnectionError("the processes have stopped waiting for each other")
        os.read(self._bell, 1)

    @property
    def _bell_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}-bell")

    def _open(self) -> Pair:
        both = torch.from_file(str(self._path), shared=True, size=self._size, dtype=self._dtype).view(self._shape)
        self._bell = os.open(self._bell_path, os.O_RDWR | os.O_NONBLOCK)
        return both[0], both[1]

    def __del__(self) -> None:
        if self._bell is not None:
            os.close(self._bell)


class SharedLane:
    """What passes between this process and another one of this machine."""

    def __init__(self, shelf: Shelf, peer: int, rows: int, place: torch.Tensor, wire: torch.dtype) -> None:
        columns = place.shape[1]
        self._said = shelf.slot(shelf.rank, peer, rows, columns, wire)
        self._told = shelf.slot(peer, shelf.rank, len(place), columns, wire)
        self._called_off, self._place = shelf.called_off, place
        self._heard: Pair | None = None
        self.out = self._said.make()

    def start(self, turn: int) -> None:
        """Say that out[turn] is there."""
        self._said.ring()

    def wait(self, turn: int) -> None:
        """Return when the other's rows are in their place."""
        if self._heard is None:
            self._heard = self._told.find()
        self._told.listen(self._called_off)
        self._place.copy_(self._heard[turn])
