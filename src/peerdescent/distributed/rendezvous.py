"""How the processes of a run find each other: at an address that torchrun gives, or through any store."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.distributed.connectivity import check_connectivity
from peerdescent.distributed.exchange import PeerLostError, reason_of
from peerdescent.distributed.heartbeat import Heartbeat
from peerdescent.distributed.heartbeat_client import HeartbeatClient
from peerdescent.distributed.heartbeat_server import HeartbeatServer
from peerdescent.distributed.process_group import START, ProcessGroup
from peerdescent.distributed.sockets import address_towards
from peerdescent.errors import InputError, PeerdescentError

HERE = "127.0.0.1"


def under_torchrun() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"))


def join_torchrun() -> ProcessGroup:
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
        _wait_for_port(host, port)  # torch would retry for longer, and print pages
    try:
        store = TCPStore(host, port, is_master=keeps_store, wait_for_workers=False, timeout=START)
    except RuntimeError as error:
        raise PeerdescentError(f"the meeting point {host}:{port} cannot be used: {reason_of(error)}.") from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return join(PrefixStore(f"attempt-{attempt}", store), rank, size, host=host)


def _wait_for_port(host: str, port: int) -> None:
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
    store: Store,
    rank: int,
    size: int,
    patience: timedelta = START,
    look: Callable[[], None] | None = None,
    host: str = HERE,
) -> ProcessGroup:
    """Meet the other processes through a store on some host; `look` is called while waiting, and may raise.

    Raises:
        PeerdescentError: one of them does not come, or cannot be reached, in time; it is named.
    """
    store.set(f"host/{rank}", f"{socket.gethostname()} ({address_towards(host)})")
    end = time.monotonic() + patience.total_seconds()
    while missing := [peer for peer in range(size) if not store.check([f"host/{peer}"])]:
        if time.monotonic() > end:
            names = ", ".join(map(str, missing))
            raise PeerdescentError(f"process {names} of {size} has not come within {patience.seconds} s of this one.")
        if look is not None:
            look()
        time.sleep(0.02)
    hosts = tuple(store.get(f"host/{peer}").decode() for peer in range(size))
    watch: Heartbeat | None = None
    if size > 1:
        watch = (
            HeartbeatServer(hosts, store, host, look or (lambda: None))
            if rank == 0
            else HeartbeatClient(rank, size, store)
        )
    group = ProcessGroup(rank, size, store, hosts, watch)
    try:
        if host != HERE:  # a machine reaches itself
            check_connectivity(group, host, START)
        group.connect()
    except PeerdescentError:
        group.close(clean=False)
        raise
    except RuntimeError as error:
        lost = group.lost()
        group.close(clean=False)
        if lost:
            raise group.verdict(PeerLostError(lost)) from error
        raise PeerdescentError(_unreachable(error, hosts)) from error
    return group


def _unreachable(error: RuntimeError, hosts: Sequence[str]) -> str:
    """Whom gloo could not reach: it names an address; the processes there are looked up."""
    text = reason_of(error)
    suspects = [f"{rank} on {host}" for rank, host in enumerate(hosts) if host.rpartition("(")[2].rstrip(")") in text]
    who = f"process {' or '.join(suspects)}" if suspects else "a process"
    return (
        f"{who} cannot be reached within {START.seconds} s ({text}): check the network, open ports between the hosts, "
        "and choose the interface with GLOO_SOCKET_IFNAME."
    )
