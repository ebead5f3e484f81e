"""What torchrun tells a process that it starts, through environment variables; needs no torch."""

from __future__ import annotations

import os
import socket
from typing import NamedTuple

from peerdescent.errors import InputError

REQUIRED = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
LOOPBACK = ("127.0.0.1", "localhost", "::1")
MANY = 1_000_000
"""More processes, or restarts, than anyone has."""


class TorchrunEnvironment(NamedTuple):
    """What torchrun sets, checked."""

    rank: int
    size: int
    host: str
    """The rendezvous host."""
    port: int
    restarts: int
    """How often torchrun has restarted this process."""
    one_host: bool
    """Whether all processes are known to be on this machine."""
    agent_store: bool
    """Whether torchrun serves the store itself."""


def under_torchrun() -> bool:
    """Whether this process was started as one of several."""
    return all(name in os.environ for name in REQUIRED)


def restarts_of_torchrun() -> int:
    """How often torchrun has restarted this process."""
    return _number("TORCHELASTIC_RESTART_COUNT", 0, MANY, default=0)


def torchrun_environment() -> TorchrunEnvironment:
    """What torchrun tells this process.

    Raises:
        InputError: a variable has a value that torchrun would not set.
    """
    size = _number("WORLD_SIZE", 1, MANY)
    rank, port = _number("RANK", 0, size - 1), _number("MASTER_PORT", 1, 65535)
    local_size = _number("LOCAL_WORLD_SIZE", 1, size, default=0)
    _number("LOCAL_RANK", 0, max(local_size, 1) - 1 if local_size else size - 1, default=0)
    host = os.environ["MASTER_ADDR"]
    try:
        socket.getaddrinfo(host or "-", port)
    except (OSError, UnicodeError):
        raise InputError(f"MASTER_ADDR = {host!r} is not an address: give the address or name of a host.") from None
    one_host = local_size == size or host in LOOPBACK
    agent_store = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    return TorchrunEnvironment(rank, size, host, port, restarts_of_torchrun(), one_host, agent_store)


def _number(name: str, low: int, high: int, default: int | None = None) -> int:
    text = os.environ.get(name, "" if default is None else str(default))
    if name not in os.environ and default is not None:
        return default
    if text.isascii() and text.isdigit() and len(text) <= len(str(MANY)) and low <= int(text) <= high:
        return int(text)
    raise InputError(f"{name} = {text!r}: expected a whole number from {low} to {high}; let torchrun set it.")
