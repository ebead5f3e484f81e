"""Whether every process reaches every other, before gloo tries: it would wait five times as long, and name nobody."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Sequence
from datetime import timedelta

from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.sockets import address_towards, family_of
from peerdescent.errors import PeerdescentError

POLL = 0.02
SLACK = 5.0
"""Seconds for the news to arrive that another process has not reached somebody."""


def check_connectivity(group: ProcessGroup, meeting_point: str, patience: timedelta) -> None:
    """Connect once to every process of a higher rank, at its address towards the meeting point.

    Raises:
        PeerdescentError: one of them does not answer in time; it is named with its address, in all processes.
    """
    end, address = time.monotonic() + patience.total_seconds(), address_towards(meeting_point)
    with socket.create_server((address, 0), family=family_of(address), backlog=group.size) as door:  # nobody lets in
        group.store.set(f"door/{group.rank}", json.dumps([address, door.getsockname()[1]]))
        try:
            for peer in range(group.rank + 1, group.size):
                _reach(group, peer, end)
        except PeerdescentError as error:
            group.record_failure(error)
            raise
        group.store.set(f"reached/{group.rank}", "")
        _await(group, [f"reached/{rank}" for rank in range(group.size)], end + SLACK)


def _reach(group: ProcessGroup, peer: int, end: float) -> None:
    _await(group, [f"door/{peer}"], end)
    host, port = json.loads(group.store.get(f"door/{peer}"))
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
        time.sleep(POLL)


def _await(group: ProcessGroup, keys: Sequence[str], end: float) -> None:
    """Return when others have said so; raises what one of them ended with instead."""
    while absent := [key for key in keys if not group.store.check([key])]:
        group.raise_failure()
        if time.monotonic() > end:
            ranks = [int(key.partition("/")[2]) for key in absent]
            names = " and ".join(f"process {rank} on {group.hosts[rank]}" for rank in ranks)
            raise PeerdescentError(f"{names} does not answer at the meeting point any more.")
        time.sleep(POLL)
