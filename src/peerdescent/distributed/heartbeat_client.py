"""The side of all other processes in the watch: signs of life to rank 0, and its word about who is lost."""

from __future__ import annotations

import json
import selectors
import socket

from torch.distributed.distributed_c10d import Store

from peerdescent.distributed.exchange import PeerLostError, reason_of
from peerdescent.distributed.heartbeat import CLOSED, LEFT, MEETING, Heartbeat, Line, Meeting, SnapshotId
from peerdescent.errors import PeerdescentError


class HeartbeatClient(Heartbeat):
    """The side of all others."""

    def __init__(self, rank: int, size: int, store: Store) -> None:
        super().__init__(rank, size)
        try:
            place = json.loads(store.get("watch"))
        except RuntimeError as error:
            raise PeerdescentError(f"process 0 has not said where it can be reached ({reason_of(error)}).") from error
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

    def meet(self, snapshot_id: SnapshotId) -> Meeting:
        """Come, and hear from rank 0 who goes on."""
        before = self.epoch
        self._line.send(ready=[before, snapshot_id])
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
                    epoch, members, snapshot_id = message["go"]
                    self._meeting = Meeting(epoch, tuple(members), (snapshot_id[0], snapshot_id[1]))
                    self.epoch, self.members = self._meeting.epoch, self._meeting.members
                    self._changed.notify_all()
            elif "bye" in message:
                self._farewell = True
        if messages is None:
            self._selector.unregister(self._line.connection)
            if self._farewell:
                with self._changed:
                    self.lost[0] = LEFT
                    self._changed.notify_all()
            elif not self._closing:
                self._lose({0: CLOSED})

    def _beat(self, now: float) -> None:
        self._line.send(waiting=self.waiting())
        quiet = now - self._line.heard
        if self.patience is not None and quiet > self.patience and not self.lost.keys() & {0}:
            self._lose({0: f"it gave no sign of life for {quiet:.0f} s"})
