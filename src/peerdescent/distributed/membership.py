"""Which processes belong to a group: connecting, losing some, and regrouping without them."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Iterator, Mapping

import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.distributed.exchange import Traffic
from peerdescent.distributed.gloo import CONNECT_TIMEOUT, gloo_interface, reason_of
from peerdescent.distributed.heartbeat import CLOSED, LEFT, Heartbeat, SnapshotId, heartbeat_timeout
from peerdescent.distributed.p2p import ACK, PointToPoint
from peerdescent.distributed.reporting import Reporting
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.sockets import SocketId, loopback, open_sockets, shut_down
from peerdescent.errors import PeerLostError

NAMING_TIMEOUT = 2.0
"""Seconds in which the heartbeat finds out which processes are lost, once a connection has broken."""


class MembershipTracking(Reporting):
    """Losses and regrouping.

    Processes keep their initial rank as a name: `members` are the initial ranks of the current group, in rank order.
    """

    def __init__(
        self, rank: int, size: int, entries: SignedStore, hosts: tuple[str, ...], heartbeat: Heartbeat | None
    ) -> None:
        self.rank, self.size, self.entries, self.hosts = rank, size, entries, hosts
        self.initial_hosts = hosts
        self.members = tuple(range(size))
        self.agents: dict[int, str] = {}
        """The agents that a process hosts, in words, by its initial rank."""
        self.epoch = 0
        """How often the processes have regrouped."""
        self.on_loopback = False
        """Whether all processes are on this machine, and no other may connect to them."""
        self.traffic = Traffic()
        self.p2p = PointToPoint(self.traffic)
        self._tags: Iterator[int] = itertools.count(ACK + 1)
        self._sockets: set[SocketId] = set()
        self._interrupted = threading.Event()
        self._store_port = _port(entries.store)
        self._heartbeat = heartbeat

    def connect(self) -> None:
        """Open the connections to all members, which are known already."""
        scope, before = PrefixStore(f"group-{self.epoch}", self.entries.store), open_sockets()
        # The timeout is for connecting only: every wait has its own.
        with gloo_interface(loopback() if self.on_loopback else None):
            try:
                dist.init_process_group(
                    "gloo", store=scope, rank=self.rank, world_size=self.size, timeout=CONNECT_TIMEOUT
                )
            except RuntimeError:
                _reset_group_count()
                raise
        self._sockets = open_sockets() - before
        if self._heartbeat is not None and self._heartbeat.lost_members:  # lost before there were sockets to shut down
            self.interrupt()

    def regroup(self, snapshot_id: SnapshotId) -> SnapshotId:
        """Connect again after a loss, without the lost processes.

        Args:
            snapshot_id: the newest state that this process has kept.

        Returns:
            The newest state that all remaining processes have kept.

        Raises:
            PeerLostError: rank 0 is lost, or another process.
        """
        assert self._heartbeat is not None
        self.disconnect()
        membership = self._heartbeat.regroup(snapshot_id)
        self.epoch, self.members = membership.epoch, membership.members
        self.rank, self.size = self.members.index(self._heartbeat.rank), len(self.members)
        self.hosts = tuple(self.initial_hosts[name] for name in self.members)
        self._tags = itertools.count(ACK + 1)
        self.p2p.forget()
        self._interrupted = threading.Event()
        if self.size > 1:
            try:
                self.connect()
            except RuntimeError as error:
                raise PeerLostError({rank: reason_of(error) for rank in self._heartbeat.lost_members}) from error
        return membership.snapshot_id

    def drop_unresponsive(self, wanted: bool) -> None:
        """Whether a process counts as lost after missing heartbeats for long; otherwise it is only named."""
        if self._heartbeat is not None:
            self._heartbeat.timeout = heartbeat_timeout() if wanted else None

    def lost(self) -> Mapping[int, str]:
        """All processes lost so far, by initial rank, and why."""
        return {} if self._heartbeat is None else dict(self._heartbeat.lost)

    @property
    def abandoned(self) -> bool:
        """Whether rank 0 is lost, or has dropped this process."""
        return self._heartbeat is not None and bool({0, self._heartbeat.rank} & set(self._heartbeat.lost))

    @property
    def cut_off(self) -> bool:
        """Whether rank 0 misses heartbeats, or has dropped this process: the store may be unreachable."""
        return self.abandoned and self.lost().get(0) not in (CLOSED, LEFT)

    def name_lost(self, error: PeerLostError) -> PeerLostError:
        """The same error with the names of the lost processes, as soon as the heartbeat knows them."""
        lost = {} if self._heartbeat is None or error.named else self._heartbeat.wait_for_loss(NAMING_TIMEOUT)
        if not lost:
            return error
        names = " and ".join(self.describe(rank) for rank in lost)
        return PeerLostError(lost, f"the run has lost {names}: {next(iter(lost.values()))}")

    def waiting_for(self) -> tuple[int, float] | None:
        """Which process this one waits for, by initial rank, and for how many seconds."""
        waiting, members = self.traffic.waiting_for, self.members
        if waiting is None or waiting[0] >= len(members):
            return None
        return members[waiting[0]], time.monotonic() - waiting[1]

    def interrupt(self) -> None:
        """End all waits of this process: gloo offers no way to, but its sockets can be shut down."""
        self._interrupted.set()
        shut_down(tuple(self._sockets), spared_port=self._store_port)  # the store may be served or used here

    def disconnect(self) -> None:
        """Close the connections to the other processes."""
        if dist.is_initialized():
            dist.destroy_process_group()


def _reset_group_count() -> None:
    """Make torch count groups from zero again after one that failed to connect.

    Torch names the keys of a group by that count, so a process that counts one more waits for keys that the others
    never set. Only leaving a group resets it.
    """
    dist.init_process_group("gloo", store=HashStore(), rank=0, world_size=1)
    dist.destroy_process_group()


def _port(store: Store) -> int:
    """The port at which a store is served."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return int(getattr(store, "port", 0))
