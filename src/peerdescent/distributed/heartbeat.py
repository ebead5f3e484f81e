"""Heartbeats: which processes of a run are alive, which one the others wait for, and which go on after a loss.

Gloo reports a lost peer only to the processes that wait for it, and never if its host is cut off. So every process
keeps one connection to rank 0, over which a thread sends a heartbeat twice a second. When a process ends, however it
ends, the operating system closes its connection; when its host is cut off, heartbeats stop arriving. Rank 0 then
tells the others, which stop waiting and regroup: the remaining processes go on from the last state that all of them
have kept.

Processes are identified by their initial rank, whatever rank they have in the current group.
"""

from __future__ import annotations

import selectors
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from peerdescent._util.validation import seconds_from_environment
from peerdescent.distributed.connection import Challenge, Connection

INTERVAL = 0.5
"""Seconds between heartbeats."""
POLL_INTERVAL = 0.1
STRAGGLER_AFTER = 10.0
"""Seconds of waiting after which the log names the process waited for; again after twice as many, and so on."""
HEARTBEAT_TIMEOUT = 30.0
"""Seconds of missed heartbeats after which a process counts as lost, where the run can go on without it."""
CONNECT_SECONDS = 30.0
"""Seconds that processes have to connect to rank 0."""
SnapshotId = tuple[int, int]
"""A state to go back to: the epoch and the iteration in which it was kept."""
Waiting = tuple[int, float]
"""The rank of the process waited for, and for how many seconds."""
CLOSED, LEFT = "its connection closed", "it has left"
"""Why a process is lost that has not missed heartbeats."""
Source = Connection | Challenge | None
"""What the thread reads from; None is the socket at which the server listens."""


class Membership(NamedTuple):
    """Which processes go on, and from which state."""

    epoch: int
    members: tuple[int, ...]
    snapshot_id: SnapshotId


def heartbeat_timeout() -> float:
    """How long a process may miss heartbeats; PEERDESCENT_HEARTBEAT_SECONDS changes it."""
    return seconds_from_environment("PEERDESCENT_HEARTBEAT_SECONDS", HEARTBEAT_TIMEOUT)


def missed(seconds: float) -> str:
    """Why a process is lost that misses heartbeats."""
    return f"no heartbeat for {seconds:.0f} s"


class Heartbeat(ABC):
    """What the server on rank 0 and the clients on all other ranks have in common.

    Args:
        rank: the rank of this process.
        size: how many processes there are.
    """

    def __init__(self, rank: int, size: int) -> None:
        self.rank, self.epoch, self.members = rank, 0, tuple(range(size))
        self.lost: dict[int, str] = {}
        """All processes lost so far, and why."""
        self.timeout: float | None = None
        """Seconds of missed heartbeats after which a process counts as lost; None for never."""
        self.interrupt: Callable[[], None] = lambda: None
        """Ends all waits of the main thread."""
        self.waiting_for: Callable[[], Waiting | None] = lambda: None
        """Which process this one waits for, and for how long."""
        self.notify_user: Callable[[str], None] = lambda text: None
        """Shows the user a note."""
        self.describe: Callable[[int], str] = lambda rank: f"process {rank}"
        """Names a process for the user."""
        self._changed = threading.Condition()
        self._closing = False
        self._selector = selectors.DefaultSelector()
        self._thread = threading.Thread(target=self._run, daemon=True, name="peerdescent-heartbeat")

    @property
    def lost_members(self) -> dict[int, str]:
        """The members of this epoch that are lost, and why."""
        return {rank: self.lost[rank] for rank in self.members if rank in self.lost}

    def wait_for_loss(self, seconds: float) -> dict[int, str]:
        """The lost members; waits so long for one."""
        with self._changed:
            self._changed.wait_for(lambda: self.lost_members, seconds)
            return self.lost_members

    @abstractmethod
    def regroup(self, snapshot_id: SnapshotId) -> Membership:
        """Wait for all remaining processes; `snapshot_id` is the newest state that this process has kept."""

    def close(self, clean: bool) -> None:
        """End the thread and disconnect; the others count it as a loss unless it is clean."""
        self._closing = True
        self._thread.join(5)

    def _run(self) -> None:
        due = 0.0
        while not self._closing:
            for key, _ in self._selector.select(POLL_INTERVAL):
                try:
                    self._on_message(key.data)
                except Exception as error:  # whatever one connection sends, the others go on
                    self._on_invalid(key.data, error)
            now = time.monotonic()
            if now >= due:
                self._beat(now)
                due = now + INTERVAL

    @abstractmethod
    def _on_message(self, source: Source) -> None:
        """Read from a source that has something to read."""

    @abstractmethod
    def _on_invalid(self, source: Source, error: Exception) -> None:
        """What a source has sent could not be processed."""

    @abstractmethod
    def _beat(self, now: float) -> None:
        """Send a heartbeat, and check those of the others; called twice a second."""

    def _record_lost(self, reasons: dict[int, str]) -> None:
        with self._changed:
            self.lost.update(reasons)
            self._changed.notify_all()
        self.interrupt()
