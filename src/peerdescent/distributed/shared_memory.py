"""Rows for other processes of one machine, in memory that both sides map.

Through gloo a row is copied into a socket, through the kernel and out again, on the cores that should compute. Here
it is written once and read once, and a byte in a FIFO notifies the receiver.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch

from peerdescent._util.owned_folders import OwnedFolder

MEMORY = Path("/dev/shm")
"""A file system in memory, on Linux."""
POLL_MILLISECONDS = 50
"""Between checks whether waits were interrupted."""
Pair = tuple[torch.Tensor, torch.Tensor]


@contextlib.contextmanager
def shared_memory_folder() -> Iterator[Path | None]:
    """A folder in which the processes of a run share memory; None where there is no such file system.

    Folders of runs that were killed are removed first.
    """
    if not (MEMORY.is_dir() and os.access(MEMORY, os.W_OK) and hasattr(os, "posix_fallocate")):
        yield None
        return
    folder = OwnedFolder(MEMORY, "run")
    try:
        yield folder.path
    finally:
        folder.remove()


@dataclass(frozen=True)
class SharedMemory:
    """The shared memory of one exchange.

    Args:
        folder: the same for all processes.
        name: of the exchange, the same for all processes.
        rank: of this process.
        interrupted: set when waits must end, since a process is lost.
    """

    folder: Path
    name: str
    rank: int
    interrupted: threading.Event

    def channel(
        self, peer: int, sizes: tuple[int, int], rows: torch.Tensor, message_dtype: torch.dtype
    ) -> SharedMemoryChannel:
        """Messages to and from one peer, of at most so many rows each, as long as those of an array."""
        return SharedMemoryChannel(self, peer, sizes, rows.shape[1], message_dtype)

    def buffer(self, sender: int, receiver: int, rows: int, columns: int, dtype: torch.dtype) -> SharedBuffer:
        """The buffer from one process to another."""
        return SharedBuffer(self.folder / f"{self.name}-{sender}-{receiver}", rows, columns, dtype)


class SharedBuffer:
    """One direction between two processes: buffers for two messages in turn, and a FIFO. The sender creates it."""

    def __init__(self, path: Path, rows: int, columns: int, dtype: torch.dtype) -> None:
        self._path, self._shape, self._dtype = path, (2, rows, columns), dtype
        self._size = math.prod(self._shape)
        self._fifo: int | None = None

    def create(self) -> Pair:
        """Called by the sender.

        Raises:
            OSError: there is not enough memory. Without allocating it now, a later write would kill the process.
        """
        with self._path.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self._size * self._dtype.itemsize)
        os.mkfifo(self._fifo_path)
        return self._open()

    def attach(self) -> Pair:
        """Called by the receiver, after the sender has created it; the files are unlinked, and end with both."""
        pair = self._open()
        self._path.unlink()
        self._fifo_path.unlink()
        return pair

    def notify(self) -> None:
        """Tell the receiver that a message is there."""
        assert self._fifo is not None
        os.write(self._fifo, b"!")

    def wait_for_notification(self, interrupted: threading.Event) -> None:
        """Return when a message is there.

        Raises:
            ConnectionError: waits were interrupted.
        """
        assert self._fifo is not None
        poll = select.poll()
        poll.register(self._fifo, select.POLLIN)
        while not poll.poll(POLL_MILLISECONDS):
            if interrupted.is_set():
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
    """Messages between this process and another one on this machine; a notification alone is an empty message."""

    def __init__(
        self, shared_memory: SharedMemory, peer: int, sizes: tuple[int, int], columns: int, message_dtype: torch.dtype
    ) -> None:
        sent, received = (max(1, size) for size in sizes)  # a file in memory cannot be empty
        self._outgoing = shared_memory.buffer(shared_memory.rank, peer, sent, columns, message_dtype)
        self._incoming = shared_memory.buffer(peer, shared_memory.rank, received, columns, message_dtype)
        self._interrupted = shared_memory.interrupted
        self._attached: Pair | None = None
        self._expected: tuple[int, torch.Tensor | None] = 0, None
        self.out = self._outgoing.create()

    def start(self, turn: int, sent: int, received: int, place: torch.Tensor | None) -> None:
        """Notify the peer that out[turn] is there."""
        self._expected = received, place
        self._outgoing.notify()

    def wait(self, turn: int) -> torch.Tensor | None:
        """Return the peer's rows when they are here; None if they are in place."""
        if self._attached is None:
            self._attached = self._incoming.attach()
        self._incoming.wait_for_notification(self._interrupted)
        received, place = self._expected
        arrived = self._attached[turn][:received]
        if place is None:
            return arrived
        place.copy_(arrived)
        return None
