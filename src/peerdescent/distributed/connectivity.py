"""Check that every process can reach every other before gloo tries: gloo takes five times as long and names none."""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from datetime import timedelta

from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.sockets import address_towards, family_of
from peerdescent.errors import PeerdescentError

POLL_INTERVAL = 0.02
SLACK = 5.0
"""Extra seconds in which another process can report that it could not reach a peer."""


def check_connectivity(group: ProcessGroup, rendezvous_host: str, timeout: timedelta) -> None:
    """Connect once to every process of a higher rank, at its address towards the rendezvous host.

    Raises:
        PeerdescentError: a process does not answer in time; all processes raise it, with its name and address.
    """
    end, address = time.monotonic() + timeout.total_seconds(), address_towards(rendezvous_host)
    with socket.create_server((address, 0), family=family_of(address), backlog=group.size) as listener:  # never accepts
        group.entries.set(f"listener/{group.rank}", [address, listener.getsockname()[1]])
        try:
            for peer in range(group.rank + 1, group.size):
                _connect_once(group, peer, end)
        except PeerdescentError as error:
            group.record_failure(error)
            raise
        group.entries.set(f"connected/{group.rank}", True)
        _wait_for_keys(group, [f"connected/{rank}" for rank in range(group.size)], end + SLACK)


def _connect_once(group: ProcessGroup, peer: int, end: float) -> None:
    _wait_for_keys(group, [f"listener/{peer}"], end)
    host, port = group.entries.get(f"listener/{peer}")
    begin, reason = time.monotonic(), "no answer"
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, end - time.monotonic())).close()
            return
        except OSError as error:
            reason = str(error)
        if time.monotonic() > end:
            raise PeerdescentError(
                f"process {peer} on {group.hosts[peer]} cannot be reached from process {group.rank} on "
                f"{group.hosts[group.rank]} within {time.monotonic() - begin:.0f} s ({reason}): check the network, "
                "open ports between the hosts, and choose the interface with GLOO_SOCKET_IFNAME."
            )
        time.sleep(POLL_INTERVAL)


def _wait_for_keys(group: ProcessGroup, keys: Sequence[str], end: float) -> None:
    """Return when the store has these keys; raises the error that another process ended with instead."""
    while absent := [key for key in keys if group.entries.find(key) is None]:
        group.raise_failure()
        if time.monotonic() > end:
            ranks = [int(key.partition("/")[2]) for key in absent]
            names = " and ".join(f"process {rank} on {group.hosts[rank]}" for rank in ranks)
            raise PeerdescentError(f"{names} stopped responding during the rendezvous: check whether it still runs.")
        time.sleep(POLL_INTERVAL)
