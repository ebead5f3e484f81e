"""Signs of life between two sides of one connection: who is lost, who is silent, who is waited for."""

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

HERE = "127.0.0.1"


class Pair:
    """Rank 0 and rank 1 in one process, and what the first one tells the user."""

    def __init__(self) -> None:
        store, self.said = HashStore(), list[str]()
        store.set_timeout(timedelta(seconds=30))
        clients: list[HeartbeatClient] = []
        coming = threading.Thread(target=lambda: clients.append(HeartbeatClient(1, 2, store)))
        coming.start()
        self.server = HeartbeatServer(["a", "b"], store, HERE, lambda: None)
        coming.join()
        (self.client,) = clients
        self.server.say = self.said.append

    def stop_giving_signs(self) -> None:
        """The second one falls silent, without closing anything."""
        self.client._closing = True
        self.client._thread.join()


@pytest.fixture
def pair() -> Iterator[Pair]:
    both = Pair()
    yield both
    both.client.close(farewell=False)
    both.server.close(farewell=False)


def test_one_that_falls_silent_while_it_waits_is_named(pair: Pair) -> None:
    """Its last word was that it waits for the first one; so both would seem to wait for each other."""
    pair.client.waiting = lambda: (0, 0.1)
    until(lambda: 1 in pair.server._waits)
    pair.server.waiting = lambda: (1, 12.0)
    pair.stop_giving_signs()
    until(lambda: pair.said)
    assert pair.said[0] == "waiting for process 1 for 12 s"


def test_one_that_waits_is_not_to_blame(pair: Pair) -> None:
    """The second waits for the first, which computes."""
    pair.client.waiting = lambda: (0, 12.0)
    until(lambda: pair.said)
    assert pair.said[0] == "waiting for process 0 for 12 s"


def test_who_does_not_come_to_a_meeting_is_named(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "STALLED", 0.2)
    met = threading.Thread(target=pair.server.meet, args=((0, 5),))
    met.start()
    until(lambda: pair.said)
    assert pair.said[0].startswith("waiting for process 1")
    assert pair.client.meet((0, 3)) == (1, (0, 1), (0, 3))
    met.join()


def test_an_ending_is_a_loss_unless_it_is_a_farewell(pair: Pair) -> None:
    pair.client.close(farewell=False)
    assert pair.server.verdict(30) == {1: CLOSED}
    assert pair.said == [f"lost process 1: {CLOSED}"]


def test_a_farewell_is_no_loss(pair: Pair) -> None:
    pair.client.close(farewell=True)
    until(lambda: 1 in pair.server._gone and not pair.server._lines)
    assert not pair.server.lost
    assert not pair.said


def test_strangers_are_turned_away(pair: Pair) -> None:
    place = pair.server._door.getsockname()
    for words in (b"hello\n", b"{}\n", b'{"token": "x", "rank": 1}\n', b"[1]\n"):
        with socket.create_connection(place, timeout=30) as stranger:
            stranger.sendall(words)
            assert stranger.recv(10) == b""
    assert not pair.server.lost
