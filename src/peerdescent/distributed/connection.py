"""Messages over a socket between two processes that have proved to each other that they know the token.

The server sends a nonce; the client answers with one of its own, its rank and a MAC of all; the server confirms with
another MAC. Each direction then has its own key, and each message a sequence number: what was recorded can be sent
again neither on this connection nor on another one. A client that does not know the token learns a random number.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import secrets
import socket
import struct
import threading
import time
from typing import Any

from peerdescent.distributed.authentication import MAC_SIZE, authenticate

MAX_MESSAGE = 1 << 20
"""Bytes of a message; a longer one ends the connection."""
NONCE_SIZE = 32
_RANK, _LENGTH, _SEQUENCE = struct.Struct(">I"), struct.Struct(">I"), struct.Struct(">Q")
_HELLO_SIZE = NONCE_SIZE + _RANK.size + MAC_SIZE


class RejectedError(Exception):
    """The other side has not proved that it knows the token."""


class Connection:
    """A socket that carries authenticated JSON messages.

    Args:
        sock: connected, and through the handshake.
        rank: of the other side.
        send_key: authenticates what is sent.
        receive_key: authenticates what is received.
    """

    def __init__(self, sock: socket.socket, rank: int, send_key: bytes, receive_key: bytes) -> None:
        self.sock, self.rank, self.last_received = sock, rank, time.monotonic()
        self._send_key, self._receive_key = send_key, receive_key
        self._sent = self._received = 0
        self._rest, self._lock = b"", threading.Lock()

    def send(self, **message: Any) -> None:
        """Send a message; if the other side is gone, `receive` finds out."""
        content = json.dumps(message).encode()
        with self._lock, contextlib.suppress(OSError):
            mac = authenticate(self._send_key, _SEQUENCE.pack(self._sent), content)
            self._sent += 1
            self.sock.sendall(_LENGTH.pack(len(content)) + mac + content)

    def receive(self) -> list[dict[str, Any]] | None:
        """The messages that have arrived; None at the end of the connection, or if one is not genuine."""
        try:
            data = self.sock.recv(65536)
            self._rest += data
            messages = self._complete()
        except (OSError, ValueError, TypeError, RecursionError, RejectedError):
            return None
        self.last_received = time.monotonic()
        return messages if data else None

    def _complete(self) -> list[dict[str, Any]]:
        messages = []
        while len(self._rest) >= _LENGTH.size + MAC_SIZE:
            (length,) = _LENGTH.unpack_from(self._rest)
            if length > MAX_MESSAGE:
                raise RejectedError
            start = _LENGTH.size + MAC_SIZE
            if len(self._rest) < start + length:
                break
            mac, content = self._rest[_LENGTH.size : start], self._rest[start : start + length]
            self._rest = self._rest[start + length :]
            if not hmac.compare_digest(mac, authenticate(self._receive_key, _SEQUENCE.pack(self._received), content)):
                raise RejectedError
            self._received += 1
            messages.append(dict(json.loads(content)))
        return messages


class Challenge:
    """The server's side of a connection whose client has not proved anything yet."""

    def __init__(self, sock: socket.socket, key: bytes) -> None:
        self.sock, self.since = sock, time.monotonic()
        self._key, self._nonce, self._answer = key, secrets.token_bytes(NONCE_SIZE), b""
        sock.setblocking(False)
        sock.sendall(self._nonce)  # a new connection has room for it

    def receive(self) -> Connection | None:
        """The connection, once the client has proved that it knows the token.

        Raises:
            RejectedError: it does not.
            OSError: the connection is broken.
        """
        data = self.sock.recv(_HELLO_SIZE - len(self._answer))
        self._answer += data
        if not data:
            raise RejectedError
        if len(self._answer) < _HELLO_SIZE:
            return None
        theirs, rank = self._answer[:NONCE_SIZE], self._answer[NONCE_SIZE:-MAC_SIZE]
        handshake = (self._nonce, theirs, rank)
        if not hmac.compare_digest(self._answer[-MAC_SIZE:], authenticate(self._key, b"client", *handshake)):
            raise RejectedError
        self.sock.sendall(authenticate(self._key, b"server", *handshake))
        self.sock.setblocking(True)
        return Connection(self.sock, _RANK.unpack(rank)[0], *_keys(self._key, handshake))


def connect(address: tuple[str, int], rank: int, key: bytes, timeout: float) -> Connection:
    """Connect to rank 0 as the process of a rank.

    Raises:
        RejectedError: the server closes the connection, or does not know the token itself.
        OSError: it cannot be reached.
    """
    sock = socket.create_connection(address, timeout=timeout)
    try:
        nonce, mine, own_rank = _read(sock, NONCE_SIZE), secrets.token_bytes(NONCE_SIZE), _RANK.pack(rank)
        handshake = (nonce, mine, own_rank)
        sock.sendall(mine + own_rank + authenticate(key, b"client", *handshake))
        if not hmac.compare_digest(_read(sock, MAC_SIZE), authenticate(key, b"server", *handshake)):
            raise RejectedError
    except BaseException:
        sock.close()
        raise
    sock.settimeout(None)
    server, client = _keys(key, handshake)
    return Connection(sock, 0, client, server)


def _keys(key: bytes, handshake: tuple[bytes, ...]) -> tuple[bytes, bytes]:
    """The keys for messages from the server and from the client."""
    return authenticate(key, b"from server", *handshake), authenticate(key, b"from client", *handshake)


def _read(sock: socket.socket, size: int) -> bytes:
    content = b""
    while len(content) < size:
        data = sock.recv(size - len(content))
        if not data:
            raise RejectedError
        content += data
    return content
