"""Signs of life between two sides of one connection: who is lost, who is silent, who is waited for."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.conftest import until
from torch.distributed import HashStore

from peerdescent.engine import hub as hub_module
from peerdescent.engine.hub import Hub
from peerdescent.engine.spoke import Spoke
from peerdescent.engine.watch import CLOSED

HERE = "127.0.0.1"


class Pair:
    """Rank 0 and rank 1 in one process, and what the first one tells the user."""

    def __init__(self) -> None:
        store, self.said = HashStore(), list[str]()
        store.set_timeout(timedelta(seconds=30))
        spokes: list[Spoke] = []
        coming = threading.Thread(target=lambda: spokes.append(Spoke(1, 2, store)))
        coming.start()
        self.hub = Hub(["a", "b"], store, HERE, lambda: None)
        coming.join()
        (self.spoke,) = spokes
        self.hub.say = self.said.append

    def stop_giving_signs(self) -> None:
        """The second one falls silent, without closing anything."""
        self.spoke._closing = True
        self.spoke._thread.join()


@pytest.fixture
def pair() -> Iterator[Pair]:
    both = Pair()
    yield both
    both.spoke.close(farewell=False)
    both.hub.close(farewell=False)


def test_one_that_falls_silent_while_it_waits_is_named(pair: Pair) -> None:
    """Its last word was that it waits for the first one; so both would seem to wait for each other."""
    pair.spoke.waiting = lambda: (0, 0.1)
    until(lambda: 1 in pair.hub._waits)
    pair.hub.waiting = lambda: (1, 12.0)
    pair.stop_giving_signs()
    until(lambda: pair.said)
    assert pair.said[0] == "waiting for process 1 for 12 s"


def test_one_that_waits_is_not_to_blame(pair: Pair) -> None:
    """The second waits for the first, which computes."""
    pair.spoke.waiting = lambda: (0, 12.0)
    until(lambda: pair.said)
    assert pair.said[0] == "waiting for process 0 for 12 s"


def test_who_does_not_come_to_a_meeting_is_named(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub_module, "STALLED", 0.2)
    met = threading.Thread(target=pair.hub.meet, args=((0, 5),))
    met.start()
    until(lambda: pair.said)
    assert pair.said[0].startswith("waiting for process 1")
    assert pair.spoke.meet((0, 3)) == (1, (0, 1), (0, 3))
    met.join()


def test_an_ending_is_a_loss_unless_it_is_a_farewell(pair: Pair) -> None:
    pair.spoke.close(farewell=False)
    assert pair.hub.verdict(30) == {1: CLOSED}
    assert pair.said == [f"lost process 1: {CLOSED}"]


def test_a_farewell_is_no_loss(pair: Pair) -> None:
    pair.spoke.close(farewell=True)
    until(lambda: 1 in pair.hub._gone and not pair.hub._lines)
    assert not pair.hub.lost
    assert not pair.said


def test_strangers_are_turned_away(pair: Pair) -> None:
    place = pair.hub._door.getsockname()
    for words in (b"hello\n", b"{}\n", b'{"token": "x", "rank": 1}\n', b"[1]\n"):
        with socket.create_connection(place, timeout=30) as stranger:
            stranger.sendall(words)
            assert stranger.recv(10) == b""
    assert not pair.hub.lost
