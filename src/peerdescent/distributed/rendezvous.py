"""How the processes of a run find each other: at the address that torchrun sets, or through any store."""

from __future__ import annotations

import json
import secrets
import socket
import time
from collections.abc import Callable, Sequence
from datetime import timedelta

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import PrefixStore, Store

from peerdescent.distributed.authentication import Token
from peerdescent.distributed.connectivity import check_connectivity
from peerdescent.distributed.gloo import CONNECT_TIMEOUT, reason_of
from peerdescent.distributed.heartbeat import Heartbeat
from peerdescent.distributed.heartbeat_client import HeartbeatClient
from peerdescent.distributed.heartbeat_server import HeartbeatServer
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.sockets import address_towards
from peerdescent.distributed.token_agreement import check_same_token, publish_fingerprint, shared_token
from peerdescent.distributed.torchrun import torchrun_environment
from peerdescent.errors import PeerdescentError, PeerLostError

LOCALHOST = "127.0.0.1"


def join_torchrun() -> ProcessGroup:
    """Join the processes that torchrun started, at the rendezvous address that it sets.

    Each attempt of `torchrun --max-restarts` has its own prefix in the store: keys of the previous one are stale.
    """
    given = torchrun_environment()
    rank, host, port = given.rank, given.host, given.port
    serves_store = rank == 0 and not given.agent_store
    if not serves_store:
        _wait_for_port(host, port)  # torch would retry for longer, and print pages
    try:
        store = TCPStore(host, port, is_master=serves_store, wait_for_workers=False, timeout=CONNECT_TIMEOUT)
    except RuntimeError as error:
        raise PeerdescentError(f"the rendezvous address {host}:{port} cannot be used: {reason_of(error)}.") from error
    scope = PrefixStore(f"attempt-{given.restarts}", store)
    with shared_token(scope, rank, given.size, given.one_host) as token:
        return join(scope, rank, given.size, token, host=host)


def local_store() -> TCPStore:
    """A store that only processes of this machine can reach; torch alone would listen on all interfaces."""
    listener = socket.create_server((LOCALHOST, 0), backlog=socket.SOMAXCONN)
    port = listener.getsockname()[1]
    return TCPStore(
        LOCALHOST, port, is_master=True, wait_for_workers=False, timeout=CONNECT_TIMEOUT,
        master_listen_fd=listener.detach(),
    )  # fmt: skip


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
    token: Token,
    timeout: timedelta = CONNECT_TIMEOUT,
    check: Callable[[], None] = lambda: None,
    host: str = LOCALHOST,
) -> ProcessGroup:
    """Join the other processes through a store on some host; `check` is called while waiting, and may raise.

    Raises:
        InputError: the processes have different tokens.
        PeerdescentError: a process does not join, or cannot be reached, in time; the message names it.
    """
    hosts, key = _wait_for_all(store, rank, size, token, timeout, check, host)
    entries = SignedStore(store, key)
    heartbeat: Heartbeat | None = None
    if size > 1 and rank == 0:
        heartbeat = HeartbeatServer(hosts, entries, host, check)
    elif size > 1:
        heartbeat = HeartbeatClient(rank, size, entries)
    group = ProcessGroup(rank, size, entries, hosts, heartbeat)
    group.on_loopback = host == LOCALHOST
    try:
        if not group.on_loopback:  # a machine reaches itself
            check_connectivity(group, host, CONNECT_TIMEOUT)
        group.connect()
    except RuntimeError as error:
        lost = group.lost()
        group.close(clean=False)
        if lost:
            raise group.name_lost(PeerLostError(lost)) from error
        raise PeerdescentError(_unreachable(error, hosts)) from error
    except BaseException:
        group.close(clean=False)
        raise
    return group


def _wait_for_all(
    store: Store, rank: int, size: int, token: Token, timeout: timedelta, check: Callable[[], None], host: str
) -> tuple[tuple[str, ...], bytes]:
    """Where every process runs, in words, and the key of this session, once all have joined.

    Each process contributes a random number to the key, so that nothing signed in an earlier session counts in this.
    """
    entries = SignedStore(store, token.secret)
    publish_fingerprint(store, rank, token)
    entries.set(f"host/{rank}", [f"{socket.gethostname()} ({address_towards(host)})", secrets.token_hex(16)])
    end = time.monotonic() + timeout.total_seconds()
    while missing := [peer for peer in range(size) if not entries.has(f"host/{peer}")]:
        check_same_token(store, rank, size)
        if time.monotonic() > end:
            names = ", ".join(map(str, missing))
            raise PeerdescentError(
                f"process {names} of {size} did not join within {timeout.seconds} s: check whether it was started, "
                "and with the same rendezvous address."
            )
        check()
        time.sleep(0.02)
    check_same_token(store, rank, size)
    joined = [entries.get(f"host/{peer}") for peer in range(size)]
    return tuple(str(place) for place, _ in joined), token.key(json.dumps(joined).encode())


def _unreachable(error: RuntimeError, hosts: Sequence[str]) -> str:
    """Which process gloo could not reach: gloo gives an address, and the processes there are looked up."""
    text = reason_of(error)
    suspects = [f"{rank} on {host}" for rank, host in enumerate(hosts) if host.rpartition("(")[2].rstrip(")") in text]
    name = f"process {' or '.join(suspects)}" if suspects else "a process"
    return (
        f"{name} cannot be reached within {CONNECT_TIMEOUT.seconds} s ({text}): check the network, open ports between "
        "the hosts, and choose the interface with GLOO_SOCKET_IFNAME."
    )
