"""What torch does not offer: this machine's address towards another; connections shut under who waits on them."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Iterable

Known = tuple[int, int]
"""A socket's number, and its inode to know it again by."""


def address_towards(host: str) -> str:
    """This machine's address as those see it who meet at a host."""
    family, kind, protocol, _, place = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:  # a datagram socket: nothing is sent
        probe.connect(place)
        return str(probe.getsockname()[0])


def family_of(address: str) -> socket.AddressFamily:
    """The kind of an address."""
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def open_sockets() -> set[Known]:
    """The sockets that this process has."""
    found = set()
    for name in os.listdir("/dev/fd") if os.path.isdir("/dev/fd") else []:
        with contextlib.suppress(OSError):  # the listing's own descriptor is gone by now
            status = os.fstat(int(name))
            if stat.S_ISSOCK(status.st_mode):
                found.add((int(name), status.st_ino))
    return found


def shut(sockets: Iterable[Known], spared: int) -> None:
    """End all waits on connections of this process; those from or to a port are spared, and so is what only listens."""
    for number, inode in sockets:
        with contextlib.suppress(OSError):
            if os.fstat(number).st_ino == inode:
                with socket.socket(fileno=os.dup(number)) as connection:
                    ends = connection.getpeername(), connection.getsockname()  # one that listens has no peer
                    if all(end[1] != spared for end in ends):
                        connection.shutdown(socket.SHUT_RDWR)
