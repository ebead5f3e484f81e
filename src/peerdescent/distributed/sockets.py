"""What torch does not offer: this machine's address towards a host, and shutting down sockets that threads wait on."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterable

SocketId = tuple[int, int]
"""A socket's file descriptor, and its inode, since descriptors are reused."""


def address_towards(host: str) -> str:
    """This machine's address on the interface that leads to a host."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:  # a datagram socket: nothing is sent
        probe.connect(address)
        return str(probe.getsockname()[0])


def family_of(address: str) -> socket.AddressFamily:
    """The address family of a numeric address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def loopback() -> str | None:
    """The name of the interface that no other machine can reach; None if it is not known."""
    names = [name for _, name in socket.if_nameindex()] if hasattr(socket, "if_nameindex") else []
    return next((name for name in ("lo", "lo0") if name in names), None)


def open_sockets() -> set[SocketId]:
    """The open sockets of this process."""
    found = set()
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []:
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed by now
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found.add((int(name), status.st_ino))
    return found


def shut_down(sockets: Iterable[SocketId], spared_port: int) -> None:
    """End all waits on connections of this process, except those from or to a port; listening sockets stay open."""
    for number, inode in sockets:
        with contextlib.suppress(OSError):
            if os.fstat(number).st_ino == inode:
                with socket.socket(fileno=os.dup(number)) as connection:
                    ends = connection.getpeername(), connection.getsockname()  # a listening socket has no peer: OSError
                    if all(end[1] != spared_port for end in ends):
                        connection.shutdown(socket.SHUT_RDWR)
