"""The heartbeat of rank 0: it receives those of the others, decides which are lost, and names stragglers."""

from __future__ import annotations

import contextlib
import selectors
import socket
import time
from collections.abc import Callable, Sequence
from typing import Any

from peerdescent.distributed.connection import Challenge, Connection, RejectedError
from peerdescent.distributed.heartbeat import (
    CLOSED,
    CONNECT_SECONDS,
    INTERVAL,
    LEFT,
    POLL_INTERVAL,
    STRAGGLER_AFTER,
    Heartbeat,
    Membership,
    SnapshotId,
    Source,
    Waiting,
    missed,
)
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.sockets import address_towards, family_of
from peerdescent.errors import PeerdescentError

RECENT = 4 * INTERVAL
"""Seconds for which the content of a heartbeat counts."""
HANDSHAKE_SECONDS = 10.0
"""Seconds that a new connection has to prove that it belongs to the run."""
MAX_UNPROVED = 64
"""New connections that have not proved it yet; beyond it, and twice the number of processes, the oldest is closed."""
INVALID = "it sent an invalid message"


class HeartbeatServer(Heartbeat):
    """The server side, on rank 0: it decides which processes are lost.

    Args:
        hosts: where every process runs, in words.
        entries: where the others look up the address to connect to; its key is that of the session.
        host: the rendezvous host; the server listens on the interface that leads there.
        check: called while waiting for the others to connect; it may raise.
    """

    def __init__(self, hosts: Sequence[str], entries: SignedStore, host: str, check: Callable[[], None]) -> None:
        size = len(hosts)
        super().__init__(0, size)
        address = address_towards(host)
        self._listener = socket.create_server((address, 0), family=family_of(address), backlog=socket.SOMAXCONN)
        self._listener.setblocking(False)  # a client may be gone before its connection is accepted
        self._key, self._size = entries.key, size
        self._unproved: list[Challenge] = []
        self._connections: dict[int, Connection] = {}
        self._left: set[int] = set()
        self._waits: dict[int, Waiting] = {}
        self._ready: dict[int, SnapshotId] = {}
        self._interrupted_epoch = -1
        self._next_note: dict[int, float] = {}
        self._regrouping_since: float | None = None
        self._selector.register(self._listener, selectors.EVENT_READ, None)
        port = self._listener.getsockname()[1]
        self._thread.start()
        try:
            entries.set("heartbeat", [address, port])
            self._wait_for_clients(hosts, f"{address} port {port}", check)
        except BaseException:
            self.close(clean=False)
            raise

    def _wait_for_clients(self, hosts: Sequence[str], address: str, check: Callable[[], None]) -> None:
        end = time.monotonic() + CONNECT_SECONDS
        while absent := [rank for rank in range(1, len(hosts)) if rank not in self._connections]:
            check()
            if time.monotonic() > end:
                names = " and ".join(f"process {rank} on {hosts[rank]}" for rank in absent)
                raise PeerdescentError(
                    f"{names} did not reach process 0 at {address} within "
                    f"{CONNECT_SECONDS:.0f} s: check the network and open ports between the hosts."
                )
            time.sleep(POLL_INTERVAL / 5)

    def regroup(self, snapshot_id: SnapshotId) -> Membership:
        """Wait until all live processes are ready, decide which go on, and tell them."""
        with self._changed:
            self._ready[0], self._regrouping_since = snapshot_id, time.monotonic()
        self._interrupt_all()
        with self._changed:
            self._changed.wait_for(lambda: self._alive() <= set(self._ready))
            members = tuple(sorted(self._alive()))
            self.lost.update({rank: LEFT for rank in self._left if rank in self.members})
            membership = Membership(self.epoch + 1, members, min(self._ready[rank] for rank in members))
            self.epoch, self.members = membership.epoch, members
            self._regrouping_since = None
            self._ready.clear()
            self._waits.clear()
        self._send_all(membership=membership)
        return membership

    def close(self, clean: bool) -> None:
        """Close the connections to all others."""
        super().close(clean)
        if clean:
            self._send_all(goodbye=True)
        sockets = [each.sock for each in self._connections.values()] + [each.sock for each in self._unproved]
        for sock in sockets:
            sock.close()
        self._listener.close()

    def _alive(self) -> set[int]:
        return set(self.members) - set(self.lost) - self._left

    def _send_all(self, **message: Any) -> None:
        for connection in list(self._connections.values()):
            connection.send(**message)

    def _interrupt_all(self) -> None:
        """End the waits of all processes, once per epoch."""
        if self._interrupted_epoch < self.epoch:
            self._interrupted_epoch = self.epoch
            self._send_all(interrupt=self.epoch)
            self.interrupt()

    def _on_message(self, source: Source) -> None:
        if source is None:
            self._accept()
        elif isinstance(source, Challenge):
            self._prove(source)
        else:
            messages = source.receive()
            for message in messages or []:
                self._handle(source, message)
            if messages is None:
                self._disconnect(source)

    def _on_invalid(self, source: Source, error: Exception) -> None:
        if isinstance(source, Connection):  # a process of the run, but perhaps of another version
            self._disconnect(source, INVALID)
        elif source is not None:
            self._reject(source)

    def _accept(self) -> None:
        """Challenge a new connection; of too many that prove nothing the oldest is closed."""
        with contextlib.suppress(OSError):
            sock = self._listener.accept()[0]
            try:
                challenge = Challenge(sock, self._key)
            except OSError:
                sock.close()
                return
            if len(self._unproved) >= max(MAX_UNPROVED, 2 * self._size):
                self._reject(self._unproved[0])
            self._unproved.append(challenge)
            self._selector.register(sock, selectors.EVENT_READ, challenge)

    def _prove(self, challenge: Challenge) -> None:
        """Admit a connection that knows the token, as the process of its rank, once."""
        try:
            connection = challenge.receive()
        except BlockingIOError:
            return
        except (OSError, RejectedError):
            self._reject(challenge)
            return
        if connection is None:
            return
        rank = connection.rank
        with self._changed:
            if not 0 < rank < self._size or rank in self._connections or rank in self.lost or rank in self._left:
                self._reject(challenge)
                return
            self._unproved.remove(challenge)
            self._selector.modify(connection.sock, selectors.EVENT_READ, connection)
            self._connections[rank] = connection
            self._changed.notify_all()

    def _reject(self, challenge: Challenge) -> None:
        self._unproved.remove(challenge)
        self._selector.unregister(challenge.sock)
        challenge.sock.close()

    def _handle(self, connection: Connection, message: dict[str, Any]) -> None:
        with self._changed:
            if "goodbye" in message:
                self._left.add(connection.rank)
            elif "waiting" in message:
                self._waits.pop(connection.rank, None)
                if message["waiting"]:
                    self._waits[connection.rank] = tuple(message["waiting"])
            elif message["ready"][0] == self.epoch:
                self._ready[connection.rank] = tuple(message["ready"][1])
            self._changed.notify_all()
        if "ready" in message and message["ready"][0] == self.epoch:
            self._interrupt_all()

    def _disconnect(self, connection: Connection, reason: str = CLOSED) -> None:
        self._selector.unregister(connection.sock)
        connection.sock.close()
        rank = connection.rank
        if self._connections.pop(rank, None) is not None and rank not in self._left and not self._closing:
            self.notify_user(f"lost {self.describe(rank)}: {reason}")
            self._send_all(lost={rank: reason})
            self._record_lost({rank: reason})

    def _beat(self, now: float) -> None:
        for challenge in [each for each in self._unproved if now - each.since > HANDSHAKE_SECONDS]:
            self._reject(challenge)
        for connection in list(self._connections.values()):
            quiet = now - connection.last_received
            if self.timeout is not None and quiet > self.timeout:
                connection.send(lost={connection.rank: missed(quiet)})
                self._disconnect(connection, missed(quiet))
            elif quiet < STRAGGLER_AFTER:  # an unresponsive process would not read them, and the socket would fill up
                connection.send(beat=True)
        self._report(self._stragglers())

    def _stragglers(self) -> dict[int, float]:
        """The processes that others wait for and that wait for nobody, and for how long; follows chains of waits."""
        now = time.monotonic()
        with self._changed:
            if self._regrouping_since is not None:
                return dict.fromkeys(self._alive() - set(self._ready), now - self._regrouping_since)
            # The last heartbeat of an unresponsive process may report a wait that no longer counts.
            recent = {rank for rank, other in self._connections.items() if now - other.last_received < RECENT}
            waits = {rank: waiting for rank, waiting in self._waits.items() if rank in recent}
        waits |= {0: own} if (own := self.waiting_for()) else {}
        found: dict[int, float] = {}
        for rank, (_, seconds) in waits.items():
            visited = {rank}
            while rank in waits and waits[rank][0] not in visited:
                rank = waits[rank][0]  # noqa: PLW2901 (it walks along the chain)
                visited.add(rank)
            if rank not in waits:
                found[rank] = max(seconds, found.get(rank, 0.0))
        return found

    def _report(self, stragglers: dict[int, float]) -> None:
        """Name each straggler once it has taken long, and again after twice as long."""
        self._next_note = {rank: due for rank, due in self._next_note.items() if rank in stragglers}
        for rank, seconds in stragglers.items():
            if seconds >= self._next_note.get(rank, STRAGGLER_AFTER) and rank not in self.lost:
                self._next_note[rank] = 2 * seconds
                self.notify_user(f"waiting for {self.describe(rank)} for {seconds:.0f} s")
