"""Signs of life: which processes of a run live, whom the others wait for, and who goes on after a loss.

Gloo says that a peer is gone only to those who wait for it, and never if its host is cut off. So every process keeps
one connection to rank 0, along which a thread sends a sign of life twice a second. When a process ends, however it
ends, the system closes its connection; when its host is cut off, its signs of life stay away. Rank 0 then tells the
others, who stop waiting and meet again: those who come go on, from the last state that all of them have.

Processes are called by the rank that they had at the start, whatever rank they have among those who are left.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from peerdescent._util.validation import seconds_from_environment

BEAT = 0.5
"""Seconds between signs of life."""
TICK = 0.1
STALLED = 10.0
"""Seconds of waiting after which the log names who is waited for; again after twice as many, and so on."""
SILENCE = 30.0
"""Seconds without a sign of life after which a process is given up, where the run can go on without it."""
MEETING = 30.0
SnapshotId = tuple[int, int]
"""A state that can be gone back to: the epoch and the iteration in which it was kept."""
Waiting = tuple[int, float]
CLOSED, LEFT = "its connection closed", "it has left"
"""Why a process is lost that has not fallen silent."""


class Meeting(NamedTuple):
    """Who goes on, and from where."""

    epoch: int
    members: tuple[int, ...]
    snapshot_id: SnapshotId


def silence() -> float:
    """How long a process may give no sign of life; PEERDESCENT_SILENCE_SECONDS changes it."""
    return seconds_from_environment("PEERDESCENT_SILENCE_SECONDS", SILENCE)


class Heartbeat(ABC):
    """What rank 0 and the others have in common.

    Args:
        rank: the rank of this process.
        size: how many processes there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.epoch, self.members = rank, 0, tuple(range(size))
        self.lost: dict[int, str] = {}
        """Everyone who was ever lost, and why."""
        self.patience: float | None = None
        """Seconds without a sign of life after which a process is given up; None never gives up."""
        self.interrupt: Callable[[], None] = lambda: None
        """Ends all waits of the main thread."""
        self.waiting: Callable[[], Waiting | None] = lambda: None
        """Whom this process waits for, and for how long."""
        self.say: Callable[[str], None] = lambda text: None
        """Tells the user something."""
        self.who: Callable[[int], str] = lambda rank: f"process {rank}"
        """What the user is told of a process."""
        self._changed = threading.Condition()
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._watch, daemon=True, name="peerdescent-watch")

    @property
    def missing(self) -> dict[int, str]:
        """Those of this epoch who are lost, and why."""
        return {rank: self.lost[rank] for rank in self.members if rank in self.lost}

    def verdict(self, seconds: float) -> dict[int, str]:
        """Who is missing; waits a while for it to come out."""
        with self._changed:
            self._changed.wait_for(lambda: self.missing, seconds)
            return self.missing

    @abstractmethod
    def meet(self, snapshot_id: SnapshotId) -> Meeting:
        """Wait for all who are left; `snapshot_id` is the newest state that this process has kept."""

    def close(self, farewell: bool) -> None:
        """End the thread and leave; without a farewell the others take it for a loss."""
        self._closing = True
        self._thread.join(5)

    def _watch(self) -> None:
        beat = 0.0
        while not self._closing:
            for key, _ in self._selector.select(TICK):
                self._hear(key.data)
            now = time.monotonic()
            if now >= beat:
                self._beat(now)
                beat = now + BEAT

    @abstractmethod
    def _hear(self, line: Line | None) -> None:
        """Something has come along a connection; None is the door at which new ones arrive."""

    @abstractmethod
    def _beat(self, now: float) -> None:
        """Twice a second: give a sign of life, and look at those of the others."""

    def _lose(self, reasons: dict[int, str]) -> None:
        with self._changed:
            self.lost.update(reasons)
            self._changed.notify_all()
        self.interrupt()


class Line:
    """A connection that carries messages of JSON, one on each line."""

    def __init__(self, connection: socket.socket, rank: int = -1) -> None:
        self.connection, self.rank, self.heard = connection, rank, time.monotonic()
        self._rest, self._lock = b"", threading.Lock()

    def send(self, **message: Any) -> None:
        """A message; if the other side is gone, that comes out when it is heard."""
        with self._lock, contextlib.suppress(OSError):
            self.connection.sendall(json.dumps(message).encode() + b"\n")

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have come; None at the end."""
        try:
            data = self.connection.recv(65536)
            *lines, self._rest = (self._rest + data).split(b"\n")
            messages = [dict(json.loads(text)) for text in lines]
        except (OSError, ValueError, TypeError):
            return None
        self.heard = time.monotonic()
        return messages if data else None
