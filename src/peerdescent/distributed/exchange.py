"""Rows of one array, exchanged with other processes over torch.distributed.

What gloo asks for, and what is done about it here: every exchange has a tag of its own, since untagged messages can
be swapped in silence; buffers are allocated once and have exactly the size of the message; a buffer that is being
sent stays untouched until it has come; receives are posted before sends; without peers nothing is posted at all.

A wait for a send never ends if the other process dies while the message is on its way; only a wait for a receive
does. So sends are not waited for. They leave from two buffers in turn: a process sends its next message after it has
received ours, so when that one is here, the buffer of the message before is free again. The same holds of memory
that processes of one machine share.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import torch
import torch.distributed as dist

from peerdescent.distributed.placement import ExchangePlan
from peerdescent.distributed.shared_memory import Pair, SharedMemory
from peerdescent.errors import PeerdescentError

PATIENCE = timedelta(days=365)
"""A wait of gloo that times out closes all connections of its process, so none ever does."""


class PeerLostError(PeerdescentError):
    """Other processes of the run can no longer be reached."""

    def __init__(self, reasons: Mapping[int, str], sentence: str = "") -> None:
        self.reasons = dict(reasons)
        """Why, by the rank of the process."""
        names = ", ".join(str(rank) for rank in self.reasons)
        first = next(iter(self.reasons.values()), "")
        self.named = bool(sentence)
        """Whether the message names who is lost, or only whose connection broke."""
        super().__init__(sentence or f"the connection to process {names} is lost: {first}")

    @property
    def ranks(self) -> tuple[int, ...]:
        """The processes that are lost."""
        return tuple(self.reasons)


@dataclass
class Traffic:
    """What this process has put on the message_dtype, and whom it waits for; shared by all its exchanges."""

    bytes_sent: int = 0
    messages_sent: int = 0
    waiting_for: tuple[int, float] | None = None
    """The rank of the process waited for, and since when (time.monotonic), while a wait lasts."""

    @contextlib.contextmanager
    def waiting(self, peer: int) -> Iterator[None]:
        """Say so while a wait for this process lasts."""
        self.waiting_for = peer, time.monotonic()
        try:
            yield
        finally:
            self.waiting_for = None


class Channel(Protocol):
    """What passes between this process and one other."""

    out: Pair
    """Where messages are put, in turn; of exactly a message's size."""

    def start(self, turn: int) -> None:
        """Send out[turn] and make ready for the other's message; returns at once."""

    def wait(self, turn: int) -> None:
        """Return when the other's rows are in their place."""


class GlooChannel:
    """Messages over torch.distributed: so many rows to a process, and those at `place` from it."""

    def __init__(self, peer: int, rows: int, place: torch.Tensor, message_dtype: torch.dtype, tag: int) -> None:
        columns = place.shape[1]
        self.out = torch.empty(rows, columns, dtype=message_dtype), torch.empty(rows, columns, dtype=message_dtype)
        self._into = place if message_dtype == place.dtype else torch.empty(len(place), columns, dtype=message_dtype)
        self._place, self._peer, self._tag = place, peer, tag
        self._sent: list[dist.Work | None] = [None, None]  # kept while on the way, since gloo does not
        self._received: dist.Work | None = None

    def start(self, turn: int) -> None:
        """Post the receive, then the send."""
        self._received = _posted(dist.irecv(self._into, self._peer, tag=self._tag))
        self._sent[turn] = _posted(dist.isend(self.out[turn], self._peer, tag=self._tag))

    def wait(self, turn: int) -> None:
        """Return when the other's rows are in their place."""
        received, self._received = self._received, None
        if received is not None:
            received.wait(PATIENCE)
            if self._into is not self._place:
                self._place.copy_(self._into)


class Exchange:
    """One array's rows to and from the other processes, one message for each pair of processes.

    The array holds the rows that the plan names: `own`, which the caller writes before `start`, and those received,
    which are there after `wait`. Whoever is sent to is heard too, in every plan.

    Args:
        plan: whose rows go where.
        columns: entries per row.
        dtype: of the array.
        tag: different for every exchange that can be under way at the same time.
        message_dtype: the dtype of messages, the array's own unless given; bfloat16 halves what single precision sends.
        traffic: where to count.
        shared_memory: memory that all processes share, to be used instead of torch.distributed.
    """

    def __init__(
        self,
        plan: ExchangePlan,
        columns: int,
        dtype: torch.dtype,
        tag: int,
        message_dtype: torch.dtype | None = None,
        traffic: Traffic | None = None,
        shared_memory: SharedMemory | None = None,
    ) -> None:
        self.plan, self.traffic = plan, traffic or Traffic()
        self.rows = torch.zeros(len(plan.rows), columns, dtype=dtype)
        self.own = self.rows[plan.own_rows]
        """The rows of the agents hosted here: a view."""
        self._channels: dict[int, Channel] = {}
        self._picked: dict[int, slice | list[int]] = {}
        for peer in plan.peers:
            where = plan.rows_of(plan.received[peer])
            assert isinstance(where, slice)  # one process hosts a contiguous block, and rows are in order
            passing = peer, len(plan.sent[peer]), self.rows[where], message_dtype or dtype
            self._channels[peer] = (
                shared_memory.channel(*passing) if shared_memory is not None else GlooChannel(*passing, tag)
            )
            self._picked[peer] = plan.rows_of(plan.sent[peer])
        self._under_way, self._turn = False, 0

    def start(self) -> None:
        """Send the own rows and make ready for the others'; returns at once.

        Raises:
            PeerLostError: a process is gone; messages with the others are under way all the same.
        """
        assert not self._under_way, "an exchange is awaited before it is started again"
        self._under_way, self._turn, lost = True, 1 - self._turn, dict[int, str]()
        for peer, channel in self._channels.items():
            out = channel.out[self._turn]
            self._pack(self._picked[peer], out)
            try:
                channel.start(self._turn)
                self.traffic.bytes_sent += out.numel() * out.element_size()
                self.traffic.messages_sent += 1
            except (RuntimeError, OSError) as error:
                lost[peer] = reason_of(error)
        if lost:
            raise PeerLostError(lost)

    def _pack(self, picked: slice | list[int], out: torch.Tensor) -> None:
        if isinstance(picked, slice):
            out.copy_(self.rows[picked])
            return
        for place, row in enumerate(picked):
            out[place].copy_(self.rows[row])

    def wait(self) -> None:
        """Return when all rows have come.

        Raises:
            PeerLostError: processes are gone; the rows of all others have come.
        """
        lost: dict[int, str] = {}
        for peer, channel in self._channels.items():
            try:
                with self.traffic.waiting(peer):
                    channel.wait(self._turn)
            except (RuntimeError, OSError) as error:
                lost[peer] = reason_of(error)
        self._under_way = False
        if lost:
            raise PeerLostError(lost)


def _posted(work: dist.Work | None) -> dist.Work:
    assert work is not None  # None is for processes outside the group
    return work


def reason_of(error: Exception) -> str:
    """The part of gloo's message that says what happened: no source lines, no advice."""
    text = str(error).partition("] ")[2] or str(error)
    return text.partition(". This is")[0].splitlines()[0].rstrip(".")
