"""How the processes of a run find each other: at the address that torchrun sets, or through any store."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.distributed.connectivity import check_connectivity
from peerdescent.distributed.gloo import CONNECT_TIMEOUT, reason_of
from peerdescent.distributed.heartbeat import Heartbeat
from peerdescent.distributed.heartbeat_client import HeartbeatClient
from peerdescent.distributed.heartbeat_server import HeartbeatServer
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.sockets import address_towards
from peerdescent.errors import InputError, PeerdescentError, PeerLostError

LOCALHOST = "127.0.0.1"


def join_torchrun() -> ProcessGroup:
    """Join the processes that torchrun started, at the rendezvous address that it sets.

    Each attempt of `torchrun --max-restarts` has its own prefix in the store: keys of the previous one are stale.
    """
    host = os.environ["MASTER_ADDR"]
    try:
        rank, size, port = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT"))
    except ValueError:
        raise InputError("RANK, WORLD_SIZE and MASTER_PORT must be whole numbers: let torchrun set them.") from None
    serves_store = rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True"  # else torchrun itself does
    if not serves_store:
        _wait_for_port(host, port)  # torch would retry for longer, and print pages
    try:
        store = TCPStore(host, port, is_master=serves_store, wait_for_workers=False, timeout=CONNECT_TIMEOUT)
    except RuntimeError as error:
        raise PeerdescentError(f"the rendezvous address {host}:{port} cannot be used: {reason_of(error)}.") from error
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return join(PrefixStore(f"attempt-{attempt}", store), rank, size, host=host)


def _wait_for_port(host: str, port: int) -> None:
    """Return when a server accepts connections at an address."""
    end = time.monotonic() + CONNECT_TIMEOUT.total_seconds()
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, end - time.monotonic())).close()
            return
        except OSError as error:
            if time.monotonic() > end:
                raise PeerdescentError(
                    f"the rendezvous address {host}:{port} cannot be reached within {CONNECT_TIMEOUT.seconds} s "
                    f"({error}): check MASTER_ADDR, MASTER_PORT and the network between the hosts."
                ) from error
        time.sleep(0.2)


def join(
    store: Store,
    rank: int,
    size: int,
    timeout: timedelta = CONNECT_TIMEOUT,
    check: Callable[[], None] | None = None,
    host: str = LOCALHOST,
) -> ProcessGroup:
    """Join the other processes through a store on some host; `check` is called while waiting, and may raise.

    Raises:
        PeerdescentError: a process does not join, or cannot be reached, in time; the message names it.
    """
    hosts = _wait_for_all(store, rank, size, timeout, check, host)
    heartbeat: Heartbeat | None = None
    if size > 1:
        heartbeat = (
            HeartbeatServer(hosts, store, host, check or (lambda: None))
            if rank == 0
            else HeartbeatClient(rank, size, store)
        )
    group = ProcessGroup(rank, size, store, hosts, heartbeat)
    try:
        if host != LOCALHOST:  # a machine reaches itself
            check_connectivity(group, host, CONNECT_TIMEOUT)
        group.connect()
    except PeerdescentError:
        group.close(clean=False)
        raise
    except RuntimeError as error:
        lost = group.lost()
        group.close(clean=False)
        if lost:
            raise group.name_lost(PeerLostError(lost)) from error
        raise PeerdescentError(_unreachable(error, hosts)) from error
    return group


def _wait_for_all(
    store: Store, rank: int, size: int, timeout: timedelta, check: Callable[[], None] | None, host: str
) -> tuple[str, ...]:
    """Where every process runs, in words, once all have joined."""
    store.set(f"host/{rank}", f"{socket.gethostname()} ({address_towards(host)})")
    end = time.monotonic() + timeout.total_seconds()
    while missing := [peer for peer in range(size) if not store.check([f"host/{peer}"])]:
        if time.monotonic() > end:
            names = ", ".join(map(str, missing))
            raise PeerdescentError(
                f"process {names} of {size} did not join within {timeout.seconds} s: check whether it was started, "
                "and with the same rendezvous address."
            )
        if check is not None:
            check()
        time.sleep(0.02)
    return tuple(store.get(f"host/{peer}").decode() for peer in range(size))


def _unreachable(error: RuntimeError, hosts: Sequence[str]) -> str:
    """Which process gloo could not reach: gloo gives an address, and the processes there are looked up."""
    text = reason_of(error)
    suspects = [f"{rank} on {host}" for rank, host in enumerate(hosts) if host.rpartition("(")[2].rstrip(")") in text]
    name = f"process {' or '.join(suspects)}" if suspects else "a process"
    return (
        f"{name} cannot be reached within {CONNECT_TIMEOUT.seconds} s ({text}): check the network, open ports between "
        "the hosts, and choose the interface with GLOO_SOCKET_IFNAME."
    )
