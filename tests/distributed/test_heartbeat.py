"""Heartbeats over one connection: which process is lost, unresponsive, or waited for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.commands import until
from torch.distributed import HashStore

from peerdescent.distributed import heartbeat_server as server_module
from peerdescent.distributed.heartbeat import CLOSED
from peerdescent.distributed.heartbeat_client import HeartbeatClient
from peerdescent.distributed.heartbeat_server import HeartbeatServer

LOCALHOST = "127.0.0.1"


class Pair:
    """Rank 0 and rank 1 in one process, and the notes that rank 0 shows the user."""

    def __init__(self) -> None:
        store, self.notes = HashStore(), list[str]()
        store.set_timeout(timedelta(seconds=30))
        clients: list[HeartbeatClient] = []
        connecting = threading.Thread(target=lambda: clients.append(HeartbeatClient(1, 2, store)))
        connecting.start()
        self.server = HeartbeatServer(["a", "b"], store, LOCALHOST, lambda: None)
        connecting.join()
        (self.client,) = clients
        self.server.notify_user = self.notes.append

    def stop_heartbeats(self) -> None:
        """The client stops sending, without closing its connection."""
        self.client._closing = True
        self.client._thread.join()


@pytest.fixture
def pair() -> Iterator[Pair]:
    both = Pair()
    yield both
    both.client.close(clean=False)
    both.server.close(clean=False)


def test_a_process_that_becomes_unresponsive_during_a_wait_is_named(pair: Pair) -> None:
    """Its last heartbeat reported a wait for rank 0; so both seem to wait for each other."""
    pair.client.waiting_for = lambda: (0, 0.1)
    until(lambda: 1 in pair.server._waits)
    pair.server.waiting_for = lambda: (1, 12.0)
    pair.stop_heartbeats()
    until(lambda: pair.notes)
    assert pair.notes[0] == "waiting for process 1 for 12 s"


def test_a_process_that_waits_is_not_a_straggler(pair: Pair) -> None:
    """Rank 1 waits for rank 0, which computes."""
    pair.client.waiting_for = lambda: (0, 12.0)
    until(lambda: pair.notes)
    assert pair.notes[0] == "waiting for process 0 for 12 s"


def test_a_process_that_does_not_regroup_is_named(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STRAGGLER_AFTER", 0.2)
    regrouping = threading.Thread(target=pair.server.regroup, args=((0, 5),))
    regrouping.start()
    until(lambda: pair.notes)
    assert pair.notes[0].startswith("waiting for process 1")
    assert pair.client.regroup((0, 3)) == (1, (0, 1), (0, 3))
    regrouping.join()


def test_a_connection_that_closes_is_a_loss(pair: Pair) -> None:
    pair.client.close(clean=False)
    assert pair.server.wait_for_loss(30) == {1: CLOSED}
    assert pair.notes == [f"lost process 1: {CLOSED}"]


def test_a_clean_close_is_not_a_loss(pair: Pair) -> None:
    pair.client.close(clean=True)
    until(lambda: 1 in pair.server._left and not pair.server._connections)
    assert not pair.server.lost
    assert not pair.notes


def test_connections_without_the_token_are_closed(pair: Pair) -> None:
    address = pair.server._listener.getsockname()
    for message in (b"hello\n", b"{}\n", b'{"token": "x", "rank": 1}\n', b"[1]\n"):
        with socket.create_connection(address, timeout=30) as stranger:
            stranger.sendall(message)
            assert stranger.recv(10) == b""
    assert not pair.server.lost
