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
import os
import secrets
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from torch.distributed.distributed_c10d import Store

from peerdescent.engine.exchange import PeerLostError
from peerdescent.errors import InputError, PeerdescentError

BEAT = 0.5
"""Seconds between signs of life."""
TICK = 0.1
STALLED = 10.0
"""Seconds of waiting after which the log names who is waited for; again after twice as many, and so on."""
SILENCE = 30.0
"""Seconds without a sign of life after which a process is given up, where the run can go on without it."""
MEETING = 30.0
Stamp = tuple[int, int]
"""A state that can be gone back to: the epoch and the iteration in which it was kept."""
Waiting = tuple[int, float]
CLOSED = "its connection closed"


class Meeting(NamedTuple):
    """Who goes on, and from where."""

    epoch: int
    members: tuple[int, ...]
    stamp: Stamp


def silence() -> float:
    """How long a process may give no sign of life; PEERDESCENT_SILENCE_SECONDS changes it."""
    text = os.environ.get("PEERDESCENT_SILENCE_SECONDS", "")
    try:
        return float(text) if text else SILENCE
    except ValueError:
        raise InputError(f"PEERDESCENT_SILENCE_SECONDS = {text!r}: expected a number of seconds.") from None


class Watch:
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

    def meet(self, stamp: Stamp) -> Meeting:
        """Wait for all who are left; `stamp` is the newest state that this process has kept."""
        raise NotImplementedError

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

    def _hear(self, line: Line | None) -> None:
        raise NotImplementedError

    def _beat(self, now: float) -> None:
        raise NotImplementedError

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


class Hub(Watch):
    """Rank 0's side: it hears all others and decides who is lost."""

    def __init__(self, size: int, store: Store, host: str, look: Callable[[], None]) -> None:
        super().__init__(0, size)
        address = address_towards(host)
        self._door = socket.create_server((address, 0), family=_family(address), backlog=size)
        self._token = secrets.token_hex(16)
        self._lines: dict[int, Line] = {}
        self._gone: set[int] = set()
        self._waits: dict[int, Waiting] = {}
        self._ready: dict[int, Stamp] = {}
        self._called_off = -1
        self._said: dict[int, float] = {}
        self._selector.register(self._door, selectors.EVENT_READ, None)
        place = {"host": address, "port": self._door.getsockname()[1], "token": self._token}
        self._thread.start()
        store.set("watch", json.dumps(place))
        end = time.monotonic() + MEETING
        while len(self._lines) < size - 1:
            look()
            if time.monotonic() > end:
                absent = ", ".join(str(rank) for rank in range(1, size) if rank not in self._lines)
                raise PeerdescentError(f"process {absent} did not reach process 0 at {address} within {MEETING:.0f} s.")
            time.sleep(TICK / 5)

    def meet(self, stamp: Stamp) -> Meeting:
        """Decide who goes on when all who live have come, and tell them."""
        with self._changed:
            self._ready[0] = stamp
        self._call_off()
        with self._changed:
            self._changed.wait_for(lambda: self._alive() <= set(self._ready))
            members = tuple(sorted(self._alive()))
            self.lost.update({rank: "it has left" for rank in self._gone if rank in self.members})
            meeting = Meeting(self.epoch + 1, members, min(self._ready[rank] for rank in members))
            self.epoch, self.members = meeting.epoch, members
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
        self._name_the_slow()

    def _name_the_slow(self) -> None:
        """Who is waited for without waiting itself; those who wait for it in a chain are not to blame."""
        waits = {**self._waits, **({0: own} if (own := self.waiting()) else {})}
        blamed: dict[int, float] = {}
        for rank, (_, seconds) in waits.items():
            seen = {rank}
            while rank in waits and waits[rank][0] not in seen:
                rank = waits[rank][0]  # noqa: PLW2901 (it walks along the chain)
                seen.add(rank)
            if rank not in waits:
                blamed[rank] = max(seconds, blamed.get(rank, 0.0))
        self._said = {rank: due for rank, due in self._said.items() if rank in blamed}
        for rank, seconds in blamed.items():
            if seconds >= self._said.get(rank, STALLED) and rank not in self.lost:
                self._said[rank] = 2 * seconds
                self.say(f"waiting for {self.who(rank)} for {seconds:.0f} s")


class Spoke(Watch):
    """The side of all others."""

    def __init__(self, rank: int, size: int, store: Store) -> None:
        super().__init__(rank, size)
        place = json.loads(store.get("watch"))
        try:
            connection = socket.create_connection((place["host"], place["port"]), timeout=MEETING)
        except OSError as error:
            raise PeerdescentError(
                f"process 0 cannot be reached at {place['host']} port {place['port']} ({error}): check the network "
                "and open ports between the hosts."
            ) from error
        connection.settimeout(None)
        self._line = Line(connection, 0)
        self._line.send(token=place["token"], rank=rank)
        self._farewell = False
        self._selector.register(connection, selectors.EVENT_READ, self._line)
        self._thread.start()

    def meet(self, stamp: Stamp) -> Meeting:
        """Come, and hear from rank 0 who goes on."""
        before = self.epoch
        self._line.send(ready=[before, stamp])
        with self._changed:
            self._changed.wait_for(lambda: self.epoch > before or {0, self.rank} & set(self.lost))
            if self.epoch == before:
                raise PeerLostError(self.missing)
            return self._meeting

    def close(self, farewell: bool) -> None:
        """Close the connection to rank 0."""
        super().close(farewell)
        if farewell:
            self._line.send(bye=True)
        self._line.connection.close()

    def _hear(self, line: Line | None) -> None:
        messages = self._line.receive()
        for message in messages or []:
            if "lost" in message:
                self._lose({int(rank): reason for rank, reason in message["lost"].items()})
            elif message.get("cut") == self.epoch:
                self.interrupt()
            elif "go" in message:
                with self._changed:
                    epoch, members, stamp = message["go"]
                    self._meeting = Meeting(epoch, tuple(members), (stamp[0], stamp[1]))
                    self.epoch, self.members = self._meeting.epoch, self._meeting.members
                    self._changed.notify_all()
            elif "bye" in message:
                self._farewell = True
        if messages is None:
            self._selector.unregister(self._line.connection)
            if self._farewell:
                with self._changed:
                    self.lost[0] = "it has left"
                    self._changed.notify_all()
            elif not self._closing:
                self._lose({0: CLOSED})

    def _beat(self, now: float) -> None:
        self._line.send(waiting=self.waiting())
        quiet = now - self._line.heard
        if self.patience is not None and quiet > self.patience and not self.lost.keys() & {0}:
            self._lose({0: f"it gave no sign of life for {quiet:.0f} s"})


def address_towards(host: str) -> str:
    """This machine's address as those see it who meet at a host."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:  # a datagram socket: nothing is sent
        probe.connect(place)
        return str(probe.getsockname()[0])


def _family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET
