"""The heartbeat of all ranks but 0: it sends heartbeats to rank 0 and learns from it which processes are lost."""

from __future__ import annotations

import selectors
import time

from peerdescent.distributed.connection import Connection, RejectedError, connect
from peerdescent.distributed.gloo import reason_of
from peerdescent.distributed.heartbeat import (
    CLOSED,
    CONNECT_SECONDS,
    LEFT,
    POLL_INTERVAL,
    Heartbeat,
    Membership,
    SnapshotId,
    Source,
    missed,
)
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.errors import PeerdescentError, PeerLostError


class HeartbeatClient(Heartbeat):
    """The client side, on every rank but 0.

    Args:
        rank: the rank of this process.
        size: how many processes there are.
        entries: where rank 0 publishes the address to connect to; its key is that of the session.
    """

    def __init__(self, rank: int, size: int, entries: SignedStore) -> None:
        super().__init__(rank, size)
        try:
            host, port = entries.get("heartbeat")
        except RuntimeError as error:
            raise PeerdescentError(f"process 0 did not publish its heartbeat address ({reason_of(error)}).") from error
        self._connection = _connect((host, port), rank, entries.key)
        self._server_left = False
        self._selector.register(self._connection.sock, selectors.EVENT_READ, self._connection)
        self._thread.start()

    def regroup(self, snapshot_id: SnapshotId) -> Membership:
        """Report to rank 0, and wait until it has decided which processes go on."""
        before = self.epoch
        self._connection.send(ready=[before, snapshot_id])
        with self._changed:
            self._changed.wait_for(lambda: self.epoch > before or {0, self.rank} & set(self.lost))
            if self.epoch == before:
                raise PeerLostError(self.lost_members)
            return self._membership

    def close(self, clean: bool) -> None:
        """Close the connection to rank 0."""
        super().close(clean)
        if clean:
            self._connection.send(goodbye=True)
        self._connection.sock.close()

    def _on_message(self, source: Source) -> None:
        messages = self._connection.receive()
        for message in messages or []:
            if "lost" in message:
                self._record_lost({int(rank): reason for rank, reason in message["lost"].items()})
            elif message.get("interrupt") == self.epoch:
                self.interrupt()
            elif "membership" in message:
                with self._changed:
                    epoch, members, snapshot_id = message["membership"]
                    self._membership = Membership(epoch, tuple(members), (snapshot_id[0], snapshot_id[1]))
                    self.epoch, self.members = self._membership.epoch, self._membership.members
                    self._changed.notify_all()
            elif "goodbye" in message:
                self._server_left = True
        if messages is None:
            self._on_end()

    def _on_invalid(self, source: Source, error: Exception) -> None:
        self._on_end()

    def _on_end(self) -> None:
        self._selector.unregister(self._connection.sock)
        if self._server_left:
            with self._changed:
                self.lost[0] = LEFT
                self._changed.notify_all()
        elif not self._closing:
            self._record_lost({0: CLOSED})

    def _beat(self, now: float) -> None:
        self._connection.send(waiting=self.waiting_for())
        quiet = now - self._connection.last_received
        if self.timeout is not None and quiet > self.timeout and 0 not in self.lost:
            self._record_lost({0: missed(quiet)})


def _connect(address: tuple[str, int], rank: int, key: bytes) -> Connection:
    """Connect to rank 0. If strangers crowd its port, it may close a connection early: then again."""
    end = time.monotonic() + CONNECT_SECONDS
    while True:
        try:
            return connect(address, rank, key, max(0.1, end - time.monotonic()))
        except (OSError, RejectedError) as error:
            if isinstance(error, OSError) or time.monotonic() > end:
                reason = str(error) or "it closes the connection"
                raise PeerdescentError(
                    f"process 0 cannot be reached at {address[0]} port {address[1]} ({reason}): check the network "
                    "and open ports between the hosts."
                ) from error
        time.sleep(POLL_INTERVAL)
