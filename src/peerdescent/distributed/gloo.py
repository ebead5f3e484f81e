"""What gloo requires, its timeouts, its error messages, and messages sent through it.

Facts that the code relies on, and what follows from each:

- Untagged messages can be swapped silently, so every exchange has its own tag.
- A receive buffer that is too small aborts the process, so buffers have exactly the size of the message.
- A send buffer must not change before the message has arrived, and a wait for a send never ends if the receiver dies;
  a wait for a receive does. So no process waits for its sends: see `exchange` for how buffers become free again.
- A wait that times out closes every connection of its process, so waits have no practical timeout.
- A pending receive cannot be cancelled, so its socket is shut down instead: see `sockets`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist

CONNECT_TIMEOUT = timedelta(seconds=30)
"""How long the processes of a run may take to find each other and to connect."""
WAIT_TIMEOUT = timedelta(days=365)
"""For every send and receive: practically none."""
INTERFACE = "GLOO_SOCKET_IFNAME"


@contextlib.contextmanager
def gloo_interface(name: str | None) -> Iterator[None]:
    """Gloo listens on this interface if it is started meanwhile; torch offers no other way to say so."""
    if name is None:
        yield
        return
    before = os.environ.get(INTERFACE)
    os.environ[INTERFACE] = name
    try:
        yield
    finally:
        if before is None:
            del os.environ[INTERFACE]
        else:
            os.environ[INTERFACE] = before


class GlooChannel:
    """Messages over torch.distributed: `rows` rows to a peer, and those at `place` from it."""

    def __init__(
        self,
        peer: int,
        rows: int,
        place: torch.Tensor,
        message_dtype: torch.dtype,
        tag: int,
        torch_group: dist.ProcessGroup | None = None,
    ) -> None:
        self.out, self._into = self._buffers(rows, place, message_dtype)
        self._place, self._peer, self._tag, self._group = place, global_rank(peer, torch_group), tag, torch_group
        self._sent: list[dist.Work | None] = [None, None]  # keeps the work alive, since gloo does not
        self._received: dist.Work | None = None

    def _buffers(
        self, rows: int, place: torch.Tensor, message_dtype: torch.dtype
    ) -> tuple[tuple[torch.Tensor, torch.Tensor], torch.Tensor]:
        """Two send buffers, and where messages are received: in place unless they are converted."""
        columns = place.shape[1]
        out = torch.empty(rows, columns, dtype=message_dtype), torch.empty(rows, columns, dtype=message_dtype)
        return out, place if message_dtype == place.dtype else torch.empty(len(place), columns, dtype=message_dtype)

    def start(self, turn: int) -> None:
        """Post the receive, then the send."""
        self._received = _posted(dist.irecv(self._into, self._peer, self._group, self._tag))
        self._sent[turn] = _posted(dist.isend(self.out[turn], self._peer, self._group, self._tag))

    def wait(self, turn: int) -> None:
        """Return when the peer's rows are in place."""
        received, self._received = self._received, None
        if received is not None:
            received.wait(WAIT_TIMEOUT)
            if self._into is not self._place:
                self._place.copy_(self._into)


def global_rank(rank: int, torch_group: dist.ProcessGroup | None) -> int:
    """The rank by which torch.distributed knows a process of a group."""
    return rank if torch_group is None else dist.get_global_rank(torch_group, rank)


def _posted(work: dist.Work | None) -> dist.Work:
    assert work is not None  # None is for processes outside the group
    return work


def reason_of(error: Exception) -> str:
    """The part of gloo's message that says what happened, without source lines and advice.

    >>> reason_of(RuntimeError("[pair.cc:534] Connection closed by peer [10.0.0.2]:1234. This is because …"))
    'Connection closed by peer [10.0.0.2]:1234'
    """
    text = str(error).partition("] ")[2] or str(error)
    return text.partition(". This is")[0].splitlines()[0].rstrip(".")
