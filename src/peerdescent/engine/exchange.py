"""Rows of one array, exchanged with other processes over torch.distributed.

What gloo asks for, and what is done about it here: every exchange has a tag of its own, since untagged messages can
be swapped in silence; buffers are allocated once and have exactly the size of the message; a buffer that is being
sent stays untouched until it has come; receives are posted before sends; without peers nothing is posted at all.

A wait for a send never ends if the other process dies while the message is on its way; only a wait for a receive
does. So sends are not waited for. They leave from two buffers in turn: a process sends its next message after it has
received ours, so when that one is here, the buffer of the message before is free again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import torch
import torch.distributed as dist

from peerdescent.engine.placement import Plan
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
    """What this process has put on the wire, and whom it waits for; shared by all its exchanges."""

    bytes_sent: int = 0
    messages_sent: int = 0
    waiting_for: tuple[int, float] | None = None
    """The rank of the process waited for, and since when (time.monotonic), while a wait lasts."""


@dataclass
class _Lane:
    """What passes between this process and one other, in buffers of exactly a message's size."""

    picked: slice | list[int]
    """The rows to send."""
    out: tuple[torch.Tensor, torch.Tensor]
    """From where they are sent, in turn."""
    into: torch.Tensor
    place: torch.Tensor | None
    """The rows to copy `into` to after it has come; None where it is a view of them."""
    sent: list[dist.Work | None] = field(default_factory=lambda: [None, None])
    """What is on its way from each of the buffers; kept, since gloo does not."""
    received: dist.Work | None = None


class Exchange:
    """One array's rows to and from the other processes, one message for each pair of processes.

    The array holds the rows that the plan names: `own`, which the caller writes before `start`, and those heard,
    which are there after `wait`. Whoever is sent to is heard too, in every plan.

    Args:
        plan: whose rows go where.
        columns: entries per row.
        dtype: of the array.
        tag: different for every exchange that can be under way at the same time.
        wire: the dtype of messages, the array's own unless given; bfloat16 halves what single precision sends.
        traffic: where to count.
        group: the process group; the default one unless given.
    """

    def __init__(
        self,
        plan: Plan,
        columns: int,
        dtype: torch.dtype,
        tag: int,
        wire: torch.dtype | None = None,
        traffic: Traffic | None = None,
        group: dist.ProcessGroup | None = None,
    ) -> None:
        self.plan, self.tag, self.group, self.traffic = plan, tag, group, traffic or Traffic()
        self.rows = torch.zeros(len(plan.rows), columns, dtype=dtype)
        self.own = self.rows[plan.own_rows]
        """The rows of the agents hosted here: a view."""
        wire = wire or dtype
        self._lanes = {peer: self._lane(peer, columns, wire) for peer in plan.peers}
        self._under_way, self._turn = False, 0

    def _lane(self, peer: int, columns: int, wire: torch.dtype) -> _Lane:
        sent, heard, exact = self.plan.sent[peer], self.plan.heard[peer], wire == self.rows.dtype
        picked, where = self.plan.rows_of(sent), self.plan.rows_of(heard)
        assert isinstance(where, slice)  # one process hosts a contiguous block, and rows are in order
        return _Lane(
            picked,
            (torch.empty(len(sent), columns, dtype=wire), torch.empty(len(sent), columns, dtype=wire)),
            self.rows[where] if exact else torch.empty(len(heard), columns, dtype=wire),
            None if exact else self.rows[where],
        )

    def start(self) -> None:
        """Send the own rows and make ready for the others'; returns at once.

        Raises:
            PeerLostError: a process is gone; messages with the others are under way all the same.
        """
        assert not self._under_way, "an exchange is awaited before it is started again"
        self._under_way, self._turn, lost = True, 1 - self._turn, dict[int, str]()
        for peer, lane in self._lanes.items():
            out = lane.out[self._turn]
            try:
                lane.received = _posted(dist.irecv(lane.into, peer, self.group, self.tag))
                self._pack(lane.picked, out)
                lane.sent[self._turn] = _posted(dist.isend(out, peer, self.group, self.tag))
                self.traffic.bytes_sent += out.numel() * out.element_size()
                self.traffic.messages_sent += 1
            except RuntimeError as error:
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
        for peer, lane in self._lanes.items():
            self.traffic.waiting_for = peer, time.monotonic()
            try:
                if lane.received is not None:
                    lane.received.wait(PATIENCE)
                if lane.place is not None:
                    lane.place.copy_(lane.into)
            except RuntimeError as error:
                lost[peer] = reason_of(error)
            lane.received = None
        self.traffic.waiting_for, self._under_way = None, False
        if lost:
            raise PeerLostError(lost)


def _posted(work: dist.Work | None) -> dist.Work:
    assert work is not None  # None is for processes outside the group
    return work


def reason_of(error: Exception) -> str:
    """The part of gloo's message that says what happened: no source lines, no advice."""
    text = str(error).partition("] ")[2] or str(error)
    return text.partition(". This is")[0].splitlines()[0].rstrip(".")
