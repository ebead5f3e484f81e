"""Heartbeats over one connection: which process is lost, unresponsive, or waited for, whatever strangers send."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.support.commands import until
from torch.distributed import HashStore

from peerdescent.distributed import heartbeat_server as server_module
from peerdescent.distributed.authentication import authenticate
from peerdescent.distributed.connection import MAX_MESSAGE, NONCE_SIZE, Connection, RejectedError, connect
from peerdescent.distributed.heartbeat import CLOSED
from peerdescent.distributed.heartbeat_client import HeartbeatClient
from peerdescent.distributed.heartbeat_server import HeartbeatServer
from peerdescent.distributed.signed_store import SignedStore

LOCALHOST = "127.0.0.1"
KEY = b"the key of this session"


class Pair:
    """Rank 0 and rank 1 in one process, and the notes that rank 0 shows the user."""

    def __init__(self) -> None:
        self.store, self.notes = HashStore(), list[str]()
        store = SignedStore(self.store, KEY)
        self.store.set_timeout(timedelta(seconds=30))
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


# ---- Strangers ------------------------------------------------------------------------------------------------


@pytest.fixture
def attacked(pair: Pair) -> Iterator[Pair]:
    """After the attack the thread is alive, a note is not shown, and a real loss is still noticed."""
    yield pair
    assert pair.server._thread.is_alive()
    assert not pair.server.lost
    assert not pair.notes
    pair.client.close(clean=False)
    assert pair.server.wait_for_loss(30) == {1: CLOSED}


def stranger(pair: Pair) -> socket.socket:
    return socket.create_connection(pair.server._listener.getsockname(), timeout=30)


def learned(sock: socket.socket) -> bytes:
    """What the server has sent until it closes the connection."""
    content = b""
    try:
        while data := sock.recv(65536):
            content += data
    except ConnectionResetError:  # it was closed before everything that was sent had been read
        pass
    return content


@pytest.mark.parametrize(
    "content",
    [b"hello\n" * 30, b"{}\n" * 40, b"[" * 60_000, struct.pack(">I", 2**31) + b"x" * 200, bytes(1000), b"\xff" * 68],
)
def test_a_stranger_learns_a_random_number_only(attacked: Pair, content: bytes) -> None:
    with stranger(attacked) as sock:
        sock.sendall(content)
        assert len(learned(sock)) <= NONCE_SIZE


def test_a_wrong_token_is_rejected(attacked: Pair) -> None:
    with pytest.raises((RejectedError, ConnectionError)):
        connect(attacked.server._listener.getsockname(), 1, b"another key", 30)


@pytest.mark.parametrize("rank", [0, 1, 2, 2**31])
def test_no_process_connects_twice_or_under_another_rank(attacked: Pair, rank: int) -> None:
    """Even with the token."""
    again = connect(attacked.server._listener.getsockname(), rank, KEY, 30)
    assert learned(again.sock) == b""


def test_a_recorded_handshake_cannot_be_sent_again(attacked: Pair) -> None:
    with socket.create_server((LOCALHOST, 0)) as between:
        recorded: list[bytes] = []

        def record() -> None:
            with between.accept()[0] as client, stranger(attacked) as server:
                client.sendall(server.recv(NONCE_SIZE))
                recorded.append(client.recv(1000))

        recording = threading.Thread(target=record)
        recording.start()
        with pytest.raises((RejectedError, ConnectionError)):
            connect(between.getsockname(), 1, KEY, 30)
        recording.join()
    with stranger(attacked) as sock:
        sock.sendall(recorded[0])
        assert len(learned(sock)) == NONCE_SIZE


def frame(content: bytes, sequence: int) -> bytes:
    return struct.pack(">I", len(content)) + authenticate(KEY, sequence.to_bytes(8, "big"), content) + content


GENUINE = b'{"waiting": null}'


@pytest.mark.parametrize(
    "content",
    {
        "sent again": frame(GENUINE, 0),
        "another MAC": frame(GENUINE, 1)[:4] + bytes(32) + GENUINE,
        "too long": struct.pack(">I", MAX_MESSAGE + 1) + bytes(100),
        "nested brackets": frame(b"[" * 60_000, 1),
        "not an object": frame(b"5", 1),
        "not JSON": frame(b"\xff", 1),
    }.values(),
)
def test_a_message_that_is_not_genuine_ends_the_connection(content: bytes) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        receiver = Connection(theirs, 1, b"", KEY)
        ours.sendall(frame(GENUINE, 0))
        assert receiver.receive() == [{"waiting": None}]
        ours.sendall(content)
        assert receiver.receive() is None


def test_silence_and_half_a_handshake_time_out(attacked: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "HANDSHAKE_SECONDS", 0.2)
    with stranger(attacked) as silent, stranger(attacked) as slow, stranger(attacked) as half_open:
        slow.sendall(b"x")
        half_open.shutdown(socket.SHUT_WR)
        for sock in (silent, slow, half_open):
            assert len(learned(sock)) == NONCE_SIZE


def test_of_two_hundred_connections_the_oldest_are_closed(attacked: Pair) -> None:
    crowd = [stranger(attacked) for _ in range(200)]
    assert len(learned(crowd[0])) == NONCE_SIZE
    assert len(attacked.server._unproved) <= server_module.MAX_UNPROVED
    with stranger(attacked) as newest:  # it gets its turn
        newest.sendall(bytes(68))
        assert len(learned(newest)) == NONCE_SIZE
    for sock in crowd:
        sock.close()
    until(lambda: not attacked.server._unproved)


def test_an_invalid_message_of_a_process_ends_its_connection(pair: Pair) -> None:
    """As from another version: it counts as a loss, and the thread goes on."""
    pair.client._connection.send(unknown=1)
    assert pair.server.wait_for_loss(30) == {1: server_module.INVALID}
    assert pair.server._thread.is_alive()
