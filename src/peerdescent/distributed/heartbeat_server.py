"""Rank 0's side of the watch: it hears all others, decides who is lost and who goes on, and names the slow."""

from __future__ import annotations

import contextlib
import json
import secrets
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from torch.distributed.distributed_c10d import Store

from peerdescent.distributed.heartbeat import (
    BEAT,
    CLOSED,
    LEFT,
    MEETING,
    STALLED,
    TICK,
    Heartbeat,
    Line,
    Meeting,
    SnapshotId,
    Waiting,
)
from peerdescent.distributed.sockets import address_towards, family_of
from peerdescent.errors import PeerdescentError

RECENT = 4 * BEAT
"""Seconds for which a sign of life counts."""


class HeartbeatServer(Heartbeat):
    """Rank 0's side: it hears all others and decides who is lost.

    Args:
        hosts: where every process is, in words.
        store: through which the others learn where to connect.
        host: the meeting point; connections are awaited on the interface that leads there.
        look: called while the others are awaited; it may raise.
    """

    def __init__(self, hosts: Sequence[str], store: Store, host: str, look: Callable[[], None]) -> None:
        size = len(hosts)
        super().__init__(0, size)
        address = address_towards(host)
        self._door = socket.create_server((address, 0), family=family_of(address), backlog=size)
        self._door.setblocking(False)  # who knocks may be gone before it is let in
        self._token = secrets.token_hex(16)
        self._lines: dict[int, Line] = {}
        self._gone: set[int] = set()
        self._waits: dict[int, Waiting] = {}
        self._ready: dict[int, SnapshotId] = {}
        self._called_off = -1
        self._said: dict[int, float] = {}
        self._meeting_since: float | None = None
        self._selector.register(self._door, selectors.EVENT_READ, None)
        place = {"host": address, "port": self._door.getsockname()[1], "token": self._token}
        self._thread.start()
        store.set("watch", json.dumps(place))
        try:
            self._await_all(hosts, place, look)
        except BaseException:
            self.close(farewell=False)
            raise

    def _await_all(self, hosts: Sequence[str], place: dict[str, Any], look: Callable[[], None]) -> None:
        end = time.monotonic() + MEETING
        while absent := [rank for rank in range(1, len(hosts)) if rank not in self._lines]:
            look()
            if time.monotonic() > end:
                names = " and ".join(f"process {rank} on {hosts[rank]}" for rank in absent)
                raise PeerdescentError(
                    f"{names} did not reach process 0 at {place['host']} port {place['port']} within {MEETING:.0f} s: "
                    "check the network and open ports between the hosts."
                )
            time.sleep(TICK / 5)

    def meet(self, snapshot_id: SnapshotId) -> Meeting:
        """Decide who goes on when all who live have come, and tell them."""
        with self._changed:
            self._ready[0], self._meeting_since = snapshot_id, time.monotonic()
        self._call_off()
        with self._changed:
            self._changed.wait_for(lambda: self._alive() <= set(self._ready))
            members = tuple(sorted(self._alive()))
            self.lost.update({rank: LEFT for rank in self._gone if rank in self.members})
            meeting = Meeting(self.epoch + 1, members, min(self._ready[rank] for rank in members))
            self.epoch, self.members = meeting.epoch, members
            self._meeting_since = None
            self._ready.clear()
            self._waits.clear()
        self._tell(go=meeting)
        return meeting

    def close(self, farewell: bool) -> None:
        """Close the connections to all."""
        super().close(farewell)
        if farewell:
            self._tell(bye=True)
        for line in self._lines.values():
            line.connection.close()
        self._door.close()

    def _alive(self) -> set[int]:
        return set(self.members) - set(self.lost) - self._gone

    def _tell(self, **message: Any) -> None:
        for line in list(self._lines.values()):
            line.send(**message)

    def _call_off(self) -> None:
        """Let everyone stop waiting, once in an epoch."""
        if self._called_off < self.epoch:
            self._called_off = self.epoch
            self._tell(cut=self.epoch)
            self.interrupt()

    def _hear(self, line: Line | None) -> None:
        if line is None:
            with contextlib.suppress(OSError):
                new = Line(self._door.accept()[0])
                self._selector.register(new.connection, selectors.EVENT_READ, new)
            return
        messages = line.receive()
        for message in messages or []:
            self._take(line, message)
        if messages is None or (messages and line.rank < 0):  # it ended, or it is a stranger
            self._hang_up(line)

    def _take(self, line: Line, message: dict[str, Any]) -> None:
        with self._changed:
            if line.rank < 0 and message.get("token") == self._token:
                line.rank = int(message["rank"])
                self._lines[line.rank] = line
            elif line.rank < 0:
                return
            elif "bye" in message:
                self._gone.add(line.rank)
            elif "waiting" in message:
                self._waits.pop(line.rank, None)
                if message["waiting"]:
                    self._waits[line.rank] = tuple(message["waiting"])
            elif message["ready"][0] == self.epoch:
                self._ready[line.rank] = tuple(message["ready"][1])
            self._changed.notify_all()
        if "ready" in message and message["ready"][0] == self.epoch:
            self._call_off()

    def _hang_up(self, line: Line, reason: str = CLOSED) -> None:
        self._selector.unregister(line.connection)
        line.connection.close()
        if self._lines.pop(line.rank, None) is not None and line.rank not in self._gone and not self._closing:
            self.say(f"lost {self.who(line.rank)}: {reason}")
            self._tell(lost={line.rank: reason})
            self._lose({line.rank: reason})

    def _beat(self, now: float) -> None:
        for line in list(self._lines.values()):
            quiet = now - line.heard
            if self.patience is not None and quiet > self.patience:
                line.send(lost={line.rank: f"it gave no sign of life for {quiet:.0f} s"})
                self._hang_up(line, f"it gave no sign of life for {quiet:.0f} s")
            elif quiet < STALLED:  # what a silent one would not read is not piled up
                line.send(beat=True)
        self._name(self._slow())

    def _slow(self) -> dict[int, float]:
        """Who is waited for without waiting itself, and how long; those who wait for it in a chain are not to blame."""
        now = time.monotonic()
        with self._changed:
            if self._meeting_since is not None:
                return dict.fromkeys(self._alive() - set(self._ready), now - self._meeting_since)
            # The last word of one that has fallen silent may have been that it waits: it does so no more.
            recent = {rank for rank, line in self._lines.items() if now - line.heard < RECENT}
            waits = {rank: waiting for rank, waiting in self._waits.items() if rank in recent}
        waits |= {0: own} if (own := self.waiting()) else {}
        blamed: dict[int, float] = {}
        for rank, (_, seconds) in waits.items():
            seen = {rank}
            while rank in waits and waits[rank][0] not in seen:
                rank = waits[rank][0]  # noqa: PLW2901 (it walks along the chain)
                seen.add(rank)
            if rank not in waits:
                blamed[rank] = max(seconds, blamed.get(rank, 0.0))
        return blamed

    def _name(self, blamed: dict[int, float]) -> None:
        """Say who is waited for, once it is long, and again after twice as long."""
        self._said = {rank: due for rank, due in self._said.items() if rank in blamed}
        for rank, seconds in blamed.items():
            if seconds >= self._said.get(rank, STALLED) and rank not in self.lost:
                self._said[rank] = 2 * seconds
                self.say(f"waiting for {self.who(rank)} for {seconds:.0f} s")
