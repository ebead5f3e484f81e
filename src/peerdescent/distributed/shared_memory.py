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
def shared_memory_folder() -> Iterator[Path | None]:
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
class SharedMemory:
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

    def channel(self, peer: int, rows: int, place: torch.Tensor, message_dtype: torch.dtype) -> SharedMemoryChannel:
        """What passes to and from one process: so many rows to it, and those at `place` from it."""
        return SharedMemoryChannel(self, peer, rows, place, message_dtype)

    def buffer(self, sender: int, receiver: int, rows: int, columns: int, dtype: torch.dtype) -> SharedBuffer:
        """The one from a process to another."""
        return SharedBuffer(self.folder / f"{self.name}-{sender}-{receiver}", rows, columns, dtype)


class SharedBuffer:
    """One direction between two processes: buffers for two messages in turn, and a poll. The sender makes it."""

    def __init__(self, path: Path, rows: int, columns: int, dtype: torch.dtype) -> None:
        self._path, self._shape, self._dtype = path, (2, rows, columns), dtype
        self._size = math.prod(self._shape)
        self._fifo: int | None = None

    def make(self) -> Pair:
        """For the sender.

        Raises:
            OSError: there is not enough memory. If it were not asked for now, a later write would kill the process.
        """
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self._size * self._dtype.itemsize)
        os.mkfifo(self._fifo_path)
        return self._open()

    def find(self) -> Pair:
        """For the receiver, after the sender has made it: both have it now, and it ends with them."""
        pair = self._open()
        self._path.unlink()
        self._fifo_path.unlink()
        return pair

    def notify(self) -> None:
        """Say that a message is there."""
        assert self._fifo is not None
        os.write(self._fifo, b"!")

    def wait_for_notification(self, called_off: threading.Event) -> None:
        """Return when a message is there.

        Raises:
            ConnectionError: the run was called off.
        """
        assert self._fifo is not None
        poll = select.poll()
        poll.register(self._fifo, select.POLLIN)
        while not poll.poll(TICK):
            if called_off.is_set():
                raise ConnectionError("the processes have stopped waiting for each other")
        os.read(self._fifo, 1)

    @property
    def _fifo_path(self) -> Path:
        return self._path.with_name(f"{self._path.name}-fifo")

    def _open(self) -> Pair:
        both = torch.from_file(str(self._path), shared=True, size=self._size, dtype=self._dtype).view(self._shape)
        self._fifo = os.open(self._fifo_path, os.O_RDWR | os.O_NONBLOCK)
        return both[0], both[1]

    def __del__(self) -> None:
        if self._fifo is not None:
            os.close(self._fifo)


class SharedMemoryChannel:
    """What passes between this process and another one of this machine."""

    def __init__(
        self, shared_memory: SharedMemory, peer: int, rows: int, place: torch.Tensor, message_dtype: torch.dtype
    ) -> None:
        columns = place.shape[1]
        self._said = shared_memory.buffer(shared_memory.rank, peer, rows, columns, message_dtype)
        self._told = shared_memory.buffer(peer, shared_memory.rank, len(place), columns, message_dtype)
        self._called_off, self._place = shared_memory.called_off, place
        self._heard: Pair | None = None
        self.out = self._said.make()

    def start(self, turn: int) -> None:
        """Say that out[turn] is there."""
        self._said.notify()

    def wait(self, turn: int) -> None:
        """Return when the other's rows are in their place."""
        if self._heard is None:
            self._heard = self._told.find()
        self._told.wait_for_notification(self._called_off)
        self._place.copy_(self._heard[turn])
