"""The processes of one run: how they find each other, and the few words they exchange besides rows."""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
import threading
import time
import warnings
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.distributed.exchange import PeerLostError, Traffic, reason_of
from peerdescent.distributed.heartbeat import CLOSED, LEFT, Heartbeat, SnapshotId, silence
from peerdescent.distributed.p2p import ACK, PointToPoint
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.shared_memory import SharedMemory
from peerdescent.distributed.sockets import Known, open_sockets, shut
from peerdescent.errors import InputError, PeerdescentError

START = timedelta(seconds=30)
"""How long the processes of a run may take to find each other."""
VERDICT = 2.0
"""Seconds in which it comes out who is lost, once a connection has broken."""


class RankError(PeerdescentError):
    """Another process of the run ended with an error: its sentence and its exit code."""

    def __init__(self, rank: int, message: str, exit_code: int) -> None:
        super().__init__(f"process {rank}: {message}")
        self.exit_code = exit_code


class ProcessGroup:
    """This process among those of a run.

    Rank 0 keeps the records; all others follow. Everything here is called by all of them in the same order.
    After a loss the others can `regroup`: ranks are then counted anew, and `members` are the ranks of the start.
    """

    def __init__(
        self, rank: int, size: int, store: Store, hosts: Sequence[str], watch: Heartbeat | None = None
    ) -> None:
        self.rank, self.size, self.store, self.hosts = rank, size, store, tuple(hosts)
        self.traffic = Traffic()
        self.p2p = PointToPoint(self.traffic)
        self.members = tuple(range(size))
        self.agents: dict[int, str] = {}
        """The agents that a process hosts, in words, by the rank it had at the start."""
        self.epoch = 0
        """How often the processes have met again."""
        self.shared_folder: Path | None = None
        """A folder in memory that all processes see; None if they are on several machines."""
        self._tags = itertools.count(ACK + 1)
        self._sockets: set[Known] = set()
        self._called_off = threading.Event()
        self._store_port = _port(store)
        self._watch = watch
        self._hosts = self.hosts
        if watch is not None:
            watch.interrupt, watch.waiting, watch.who, watch.say = self._cut, self._waits_for, self.who, _say

    @classmethod
    def single(cls) -> ProcessGroup:
        """One process that hosts all agents."""
        return cls(0, 1, HashStore(), ("this machine",))

    @property
    def is_rank_zero(self) -> bool:
        """Whether this process keeps the records."""
        return self.rank == 0

    def tag(self) -> int:
        """A tag that no other exchange of this run has."""
        return next(self._tags)

    def shared_memory(self, tag: int) -> SharedMemory | None:
        """Shared memory for the exchange with this tag, if all processes are on one machine."""
        return (
            None
            if self.shared_folder is None
            else SharedMemory(self.shared_folder, f"{self.epoch}-{tag}", self.rank, self._called_off)
        )

    def check_same_on_all_ranks(self, facts: dict[str, str]) -> None:
        """Refuse to go on unless all processes give the same facts, by name.

        Raises:
            InputError: in all processes, naming one whose facts differ and what differs.
        """
        all_facts: list[dict[str, str]] = self.broadcast_object(self.gather_object(facts))
        for rank, theirs in enumerate(all_facts):
            for name in {**all_facts[0], **theirs}:
                here, there = all_facts[0].get(name, "none"), theirs.get(name, "none")
                if here != there:
                    raise InputError(
                        f"process {rank} on {self.hosts[rank]} differs from process 0 in its {name} "
                        f"({there} against {here}): start all of them alike."
                    )

    def broadcast_object(self, value: Any = None) -> Any:
        """Rank 0's value (of JSON's kinds), in every process."""
        if self.size == 1:
            return value
        if self.is_rank_zero:
            for sent in [self.p2p.send_object(value, peer) for peer in range(1, self.size)]:
                sent.wait()
            return value
        return self.p2p.recv_object(0)

    def gather_object(self, value: Any) -> list[Any]:
        """Everyone's value (of JSON's kinds) at rank 0, in the order of ranks; an empty list elsewhere."""
        if self.is_rank_zero:
            return [value, *(self.p2p.recv_object(peer) for peer in range(1, self.size))]
        self.p2p.send_object(value, 0).wait()
        return []

    def all_true(self, holds: bool) -> bool:
        """Whether it holds in all processes."""
        return bool(self.broadcast_object(all(self.gather_object(holds))))

    def gather(self, own: torch.Tensor, placement: Placement) -> torch.Tensor:
        """All agents' rows at rank 0; elsewhere the own ones."""
        if self.size == 1:
            return own
        if not self.is_rank_zero:
            self.p2p.send(own.contiguous(), 0)
            return own
        every = own.new_empty(placement.agents, *own.shape[1:])
        every[: len(own)] = own
        for peer in range(1, self.size):
            block = placement.block(peer)
            self.p2p.recv(every[block.start : block.stop], peer)
        return every

    def scatter(self, every: torch.Tensor | None, own: torch.Tensor, placement: Placement) -> None:
        """Rank 0's rows of all agents to the processes that host them, into `own`."""
        if not self.is_rank_zero:
            self.p2p.recv(own, 0)
            return
        assert every is not None
        own.copy_(every[: len(own)])
        for peer in range(1, self.size):
            block = placement.block(peer)
            self.p2p.send(every[block.start : block.stop].contiguous(), peer)

    def barrier(self) -> None:
        """Return when all have come here."""
        self.gather_object(None)
        self.broadcast_object()

    # ---- Recovery -----------------------------------------------------------------------------------------------

    def connect(self) -> None:
        """Open the connections to all members, who have met already."""
        scope, before = PrefixStore(f"group-{self.epoch}", self.store), open_sockets()
        # The timeout is for meeting only: every wait has its own.
        dist.init_process_group("gloo", store=scope, rank=self.rank, world_size=self.size, timeout=START)
        self._sockets = open_sockets() - before
        if self._watch is not None and self._watch.missing:  # lost in between, when there was nothing to cut
            self._cut()

    def regroup(self, snapshot_id: SnapshotId) -> SnapshotId:
        """Meet again after a loss, without those who are lost.

        Args:
            snapshot_id: the newest state that this process has kept.

        Returns:
            The newest one that all who go on have.

        Raises:
            PeerLostError: rank 0 is lost, or yet another one.
        """
        assert self._watch is not None
        _close()
        meeting = self._watch.meet(snapshot_id)
        self.epoch, self.members = meeting.epoch, meeting.members
        self.rank, self.size = self.members.index(self._watch.rank), len(self.members)
        self.hosts = tuple(self._hosts[name] for name in self.members)
        self._tags = itertools.count(ACK + 1)
        self.p2p.forget()
        self._called_off = threading.Event()
        if self.size > 1:
            try:
                self.connect()
            except RuntimeError as error:
                raise PeerLostError({rank: reason_of(error) for rank in self._watch.missing}) from error
        return meeting.snapshot_id

    def drop_unresponsive(self, wanted: bool) -> None:
        """Whether a process is taken for lost that gives no sign of life for long; else it is only named."""
        if self._watch is not None:
            self._watch.patience = silence() if wanted else None

    def lost(self) -> Mapping[int, str]:
        """Everyone who was ever lost, by the rank of the start, and why."""
        return {} if self._watch is None else dict(self._watch.lost)

    @property
    def abandoned(self) -> bool:
        """Whether rank 0 is lost, or has given this process up."""
        return self._watch is not None and bool({0, self._watch.rank} & set(self._watch.lost))

    @property
    def cut_off(self) -> bool:
        """Whether rank 0 has fallen silent, or has given this process up: the store may be out of reach."""
        return self.abandoned and self.lost().get(0) not in (CLOSED, LEFT)

    def verdict(self, error: PeerLostError) -> PeerLostError:
        """The same with the names of those who are lost, as soon as that has come out."""
        missing = {} if self._watch is None or error.named else self._watch.verdict(VERDICT)
        if not missing:
            return error
        names = " and ".join(self.who(rank) for rank in missing)
        return PeerLostError(missing, f"the run has lost {names}: {next(iter(missing.values()))}")

    def who(self, rank: int) -> str:
        """A process by the agents it hosts, its host and the rank it had at the start."""
        agents = self.agents.get(rank, "")
        host = self._hosts[rank].partition(" ")[0]
        return f"{agents} on {host} (process {rank})" if agents else f"process {rank} on {host}"

    def close(self, clean: bool) -> None:
        """Leave the others; unless it is a clean end, they take it for a loss."""
        if self._watch is not None:
            self._watch.close(clean)
        _close()

    def _waits_for(self) -> tuple[int, float] | None:
        waiting = self.traffic.waiting_for
        members = self.members
        if waiting is None or waiting[0] >= len(members):
            return None
        return members[waiting[0]], time.monotonic() - waiting[1]

    def _cut(self) -> None:
        """End all waits of this process: gloo cannot be asked to, but its connections can be shut under it."""
        self._called_off.set()
        shut(tuple(self._sockets), spared=self._store_port)  # the store is served and asked here too

    def record_failure(self, error: PeerdescentError) -> None:
        """Leave the sentence with which this process ends where the others find it, unless one was there before."""
        entry = json.dumps({"rank": self.rank, "message": str(error), "code": error.exit_code})
        with contextlib.suppress(RuntimeError):  # the store has gone with the process that kept it
            self.store.compare_set("failure", "", entry)

    def raise_failure(self) -> None:
        """Raise what another process ended with, if one did."""
        try:
            if not self.store.check(["failure"]):
                return
            entry = json.loads(self.store.get("failure"))
        except RuntimeError:
            return
        if entry["rank"] != self.rank:
            raise RankError(entry["rank"], entry["message"], entry["code"])


def _say(text: str) -> None:
    """A note to the user from a thread; a filter may turn it into an error, and the thread must go on."""
    with contextlib.suppress(Exception):
        warnings.warn(text, stacklevel=2)


_known: dict[int, ProcessGroup] = {}
"""The group made for a process group of the user's, by its identity: tags must not be given twice."""


def default_process_group() -> ProcessGroup:
    """This process in the default process group, which the user has started."""
    processes = dist.distributed_c10d._get_default_group()
    if id(processes) not in _known:
        rank, size = dist.get_rank(), dist.get_world_size()
        store = PrefixStore("peerdescent", dist.distributed_c10d._get_default_store())
        store.set(f"host/{rank}", socket.gethostname())
        hosts = [store.get(f"host/{peer}").decode() for peer in range(size)]
        _known.clear()  # a process group that was destroyed may have had the same identity
        _known[id(processes)] = ProcessGroup(rank, size, store, hosts)
    return _known[id(processes)]


def _close() -> None:
    """Close the connections to the other processes."""
    _known.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def _port(store: Store) -> int:
    """Where a store is served."""
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return int(getattr(store, "port", 0))
