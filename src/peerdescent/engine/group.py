"""The processes of one run: how they find each other, and the few words they exchange besides rows."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import HashStore, TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.engine.exchange import PATIENCE, PeerLostError, Traffic, reason_of
from peerdescent.engine.placement import Placement
from peerdescent.errors import InputError, PeerdescentError

START = timedelta(seconds=30)
"""How long the processes of a run may take to find each other."""
WORDS, ROWS = 1, 2
"""Tags of what is exchanged besides the messages of a method, whose tags come after."""


PACKET, LENGTH = 4096, 8
"""Words leave in one message of this many bytes, which begins with their length, and a second if they are longer."""
_Posted = tuple[int, dist.Work, torch.Tensor]
"""The peer, what is under way, and its tensor, which must live as long."""


class RankError(PeerdescentError):
    """Another process of the run ended with an error: its sentence and its exit code."""

    def __init__(self, rank: int, message: str, exit_code: int) -> None:
        super().__init__(f"process {rank}: {message}")
        self.exit_code = exit_code


class Group:
    """This process among those of a run.

    Rank 0 keeps the records; all others follow. Everything here is called by all of them in the same order.
    """

    def __init__(self, rank: int, size: int, store: Store, hosts: Sequence[str]) -> None:
        self.rank, self.size, self.store, self.hosts = rank, size, store, tuple(hosts)
        self.traffic = Traffic()
        self._tags = itertools.count(ROWS + 1)

    @classmethod
    def alone(cls) -> Group:
        """One process that hosts all agents."""
        return cls(0, 1, HashStore(), ("this machine",))

    @property
    def leads(self) -> bool:
        """Whether this process keeps the records."""
        return self.rank == 0

    def tag(self) -> int:
        """A tag that no other exchange of this run has."""
        return next(self._tags)

    def agree(self, facts: dict[str, str]) -> None:
        """Refuse to go on unless all processes give the same facts, by name.

        Raises:
            InputError: in all processes, naming one whose facts differ and what differs.
        """
        all_facts: list[dict[str, str]] = self.share(self.collect(facts))
        for rank, theirs in enumerate(all_facts):
            different = [name for name in all_facts[0] if theirs.get(name) != all_facts[0][name]]
            if different:
                name = different[0]
                raise InputError(
                    f"process {rank} on {self.hosts[rank]} differs from process 0 in its {name} "
                    f"({theirs.get(name)} against {all_facts[0][name]}): start all of them alike."
                )

    @property
    def _followers(self) -> range:
        return range(1, self.size)

    def share(self, value: Any = None) -> Any:
        """Rank 0's value (of JSON's kinds), in every process."""
        if self.size == 1:
            return value
        if self.leads:
            packets = _packets(json.dumps(value).encode())
            self._wait([self._post(dist.isend, packet, peer, WORDS) for peer in self._followers for packet in packets])
            return value
        return self._heard([0])[0]

    def collect(self, value: Any) -> list[Any]:
        """Everyone's value (of JSON's kinds) at rank 0, in the order of ranks; an empty list elsewhere."""
        if self.leads:
            return [value, *self._heard(self._followers)]
        packets = _packets(json.dumps(value).encode())
        self._wait([self._post(dist.isend, packet, 0, WORDS) for packet in packets])
        return []

    def _heard(self, peers: Sequence[int]) -> list[Any]:
        """One value from each of some processes."""
        first = [torch.empty(PACKET, dtype=torch.uint8) for _ in peers]
        self._wait([self._post(dist.irecv, packet, peer, WORDS) for packet, peer in zip(first, peers, strict=True)])
        values = []
        for packet, peer in zip(first, peers, strict=True):
            content = packet.numpy().tobytes()
            length, content = int.from_bytes(content[:LENGTH], "little"), content[LENGTH:]
            if length > len(content):
                rest = torch.empty(length - len(content), dtype=torch.uint8)
                self.receive(rest, peer, WORDS)
                content += rest.numpy().tobytes()
            values.append(json.loads(content[:length]))
        return values

    def gather(self, own: torch.Tensor, placement: Placement) -> torch.Tensor:
        """All agents' rows at rank 0; elsewhere the own ones."""
        if self.size == 1:
            return own
        if not self.leads:
            self.send(own.contiguous(), 0)
            return own
        every = own.new_empty(placement.agents, *own.shape[1:])
        every[: len(own)] = own
        blocks = [(peer, placement.block(peer)) for peer in self._followers]
        self._wait([self._post(dist.irecv, every[block.start : block.stop], peer, ROWS) for peer, block in blocks])
        return every

    def scatter(self, every: torch.Tensor | None, own: torch.Tensor, placement: Placement) -> None:
        """Rank 0's rows of all agents to the processes that host them, into `own`."""
        if not self.leads:
            self.receive(own, 0)
            return
        assert every is not None
        every = every.contiguous()
        own.copy_(every[: len(own)])
        blocks = [(peer, placement.block(peer)) for peer in self._followers]
        self._wait([self._post(dist.isend, every[block.start : block.stop], peer, ROWS) for peer, block in blocks])

    def send(self, rows: torch.Tensor, peer: int, tag: int = ROWS) -> None:
        """A contiguous tensor to one process."""
        self._wait([self._post(dist.isend, rows, peer, tag)])

    def receive(self, rows: torch.Tensor, peer: int, tag: int = ROWS) -> None:
        """What one process sends, into a contiguous tensor of the same size."""
        self._wait([self._post(dist.irecv, rows, peer, tag)])

    def _post(self, operation: Callable[..., dist.Work | None], rows: torch.Tensor, peer: int, tag: int) -> _Posted:
        with _naming(peer):
            work = operation(rows, peer, tag=tag)
        assert work is not None
        return peer, work, rows

    def _wait(self, posted: Sequence[_Posted]) -> None:
        for peer, work, _ in posted:
            self.traffic.waiting_for = peer, time.monotonic()
            with _naming(peer):
                work.wait(PATIENCE)
        self.traffic.waiting_for = None

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


def _packets(content: bytes) -> list[torch.Tensor]:
    """Words as messages."""
    room = PACKET - LENGTH
    first = len(content).to_bytes(LENGTH, "little") + content[:room].ljust(room, b"\0")
    parts = [first, content[room:]] if len(content) > room else [first]
    return [torch.frombuffer(bytearray(part), dtype=torch.uint8) for part in parts]


@contextlib.contextmanager
def _naming(peer: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError({peer: reason_of(error)}) from error


def under_torchrun() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def attempts_before() -> int:
    """How often torchrun has started this group of processes before, after one of them had failed."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def join_torchrun() -> Group:
    """Meet the processes that torchrun started, at the address that it gave.

    Every attempt of `torchrun --max-restarts` has names of its own in the store: those of the one before are stale.
    """
    host = os.environ["MASTER_ADDR"]
    try:
        rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    except ValueError:
        raise InputError("RANK, WORLD_SIZE and MASTER_PORT must be whole numbers: let torchrun set them.") from None
    keeps_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun itself does
    if not keeps_store:
        _knock(host, port)  # torch would retry for longer, and print pages
    try:
        store = TCPStore(host, port, is_master=keeps_store, wait_for_workers=False, timeout=START)
    except RuntimeError as error:
        raise PeerdescentError(f"the meeting point {host}:{port} cannot be used: {reason_of(error)}.") from error
    return join(PrefixStore(f"attempt-{attempts_before()}", store), rank, size)


def _knock(host: str, port: int) -> None:
    """Return when somebody answers at an address."""
    end = time.monotonic() + START.total_seconds()
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, end - time.monotonic())).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise PeerdescentError(
                    f"the meeting point {host}:{port} cannot be reached within {START.seconds} s ({error}): check "
                    "MASTER_ADDR, MASTER_PORT and the network between the hosts."
                ) from error
        time.sleep(0.2)


def join(
    store: Store, rank: int, size: int, patience: timedelta = START, watch: Callable[[], None] | None = None
) -> Group:
    """Meet the other processes through a store; `watch` is called while waiting, and may raise.

    Raises:
        PeerdescentError: one of them does not come, or cannot be reached, in time; it is named.
    """
    store.set(f"host/{rank}", _host())
    end = time.monotonic() + patience.total_seconds()
    while missing := [peer for peer in range(size) if not store.check([f"host/{peer}"])]:
        if time.monotonic() > end:
            names = ", ".join(map(str, missing))
            raise PeerdescentError(f"process {names} of {size} has not come within {patience.seconds} s of this one.")
        if watch is not None:
            watch()
        time.sleep(0.02)
    hosts = tuple(store.get(f"host/{peer}").decode() for peer in range(size))
    try:
        # The timeout is for meeting only: every wait has its own.
        scope = PrefixStore("group", store)
        dist.init_process_group("gloo", store=scope, rank=rank, world_size=size, timeout=patience)
    except RuntimeError as error:
        raise PeerdescentError(_unreachable(error, hosts)) from error
    return Group(rank, size, store, hosts)


_known: dict[int, Group] = {}
"""The group made for a process group of the user's, by its identity: tags must not be given twice."""


def group_of_default() -> Group:
    """This process in the default process group, which the user has started."""
    processes = dist.distributed_c10d._get_default_group()
    if id(processes) not in _known:
        rank, size = dist.get_rank(), dist.get_world_size()
        store = PrefixStore("peerdescent", dist.distributed_c10d._get_default_store())
        store.set(f"host/{rank}", _host())
        hosts = [store.get(f"host/{peer}").decode() for peer in range(size)]
        _known.clear()  # a process group that was destroyed may have had the same identity
        _known[id(processes)] = Group(rank, size, store, hosts)
    return _known[id(processes)]


def leave() -> None:
    """Close the connections to the other processes."""
    _known.clear()
    if dist.is_initialized():
        dist.destroy_process_group()


def _host() -> str:
    """This machine's name and address, as others see them."""
    name = socket.gethostname()
    try:
        return f"{name} ({socket.gethostbyname(name)})"
    except OSError:
        return name


def _unreachable(error: RuntimeError, hosts: Sequence[str]) -> str:
    """Whom gloo could not reach: it names an address; the processes there are looked up."""
    text = reason_of(error)
    suspects = [f"{rank} on {host}" for rank, host in enumerate(hosts) if host.rpartition("(")[2].rstrip(")") in text]
    who = f"process {' or '.join(suspects)}" if suspects else "a process"
    return (
        f"{who} cannot be reached within {START.seconds} s ({text}): check the network, open ports between the hosts, "
        "and choose the interface with GLOO_SOCKET_IFNAME."
    )
