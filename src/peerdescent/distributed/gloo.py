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
    """Messages over torch.distributed to and from one peer.

    Args:
        peer: its rank in the group.
        sizes: the most rows that are ever sent to it and received from it.
        rows: the array whose rows are exchanged.
        message_dtype: the dtype of messages.
        tag: of these messages.
        torch_group: the group to send in.
    """

    def __init__(
        self,
        peer: int,
        sizes: tuple[int, int],
        rows: torch.Tensor,
        message_dtype: torch.dtype,
        tag: int,
        torch_group: dist.ProcessGroup | None = None,
    ) -> None:
        self._sizes, self._rows, self._dtype = sizes, rows, message_dtype
        self._peer, self._tag, self._group = global_rank(peer, torch_group), tag, torch_group
        self.out = self._send_buffers()
        self._buffer: torch.Tensor | None = None
        self._empty = torch.zeros(2, dtype=torch.uint8, device=self.out[0].device)
        """For a direction without rows: gloo's messages are at least one byte long."""
        self._sent: list[dist.Work | None] = [None, None]  # keeps the work alive, since gloo does not
        self._received: tuple[dist.Work, torch.Tensor | None] | None = None

    def _send_buffers(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Two send buffers, used in turn."""
        return self._message_buffer(self._sizes[0]), self._message_buffer(self._sizes[0])

    def _message_buffer(self, rows: int) -> torch.Tensor:
        return torch.empty(rows, self._rows.shape[1], dtype=self._dtype)

    def _into(self, received: int, place: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor | None]:
        """Where a message is received, and the same again unless that is its place: in place where possible."""
        if not received:
            return self._empty[:1], None
        if place is not None and self._receives_in_place:
            return place, None
        if self._buffer is None:
            self._buffer = self._message_buffer(self._sizes[1])
        return self._buffer[:received], self._buffer[:received]

    @property
    def _receives_in_place(self) -> bool:
        return self._dtype == self._rows.dtype

    def _from(self, turn: int, sent: int) -> torch.Tensor:
        return self.out[turn][:sent] if sent else self._empty[1:]

    def start(self, turn: int, sent: int, received: int, place: torch.Tensor | None) -> None:
        """Post the receive, then the send."""
        into, buffer = self._into(received, place)
        self._received = _posted(dist.irecv(into, self._peer, self._group, self._tag)), buffer
        self._sent[turn] = _posted(dist.isend(self._from(turn, sent), self._peer, self._group, self._tag))

    def wait(self, turn: int) -> torch.Tensor | None:
        """Return the peer's rows when they are here; None if they are in place."""
        if self._received is None:
            return None
        (work, buffer), self._received = self._received, None
        work.wait(WAIT_TIMEOUT)
        return buffer


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
