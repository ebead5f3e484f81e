"""Rows of one array, exchanged with other processes over torch.distributed.

What gloo asks for, and what is done about it here: every exchange has a tag of its own, since untagged messages can
be swapped in silence; buffers are allocated once and have exactly the size of the message; a buffer that is being
sent stays untouched until `wait`; receives are posted before sends; without peers nothing is posted at all.
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

    def __init__(self, reasons: Mapping[int, str]) -> None:
        self.reasons = dict(reasons)
        """Why, by the rank of the process."""
        names = ", ".join(str(rank) for rank in self.reasons)
        first = next(iter(self.reasons.values()))
        super().__init__(f"the connection to process {names} is lost: {first}")

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
    """What passes between this process and one other: views or buffers of exactly a message's size."""

    out: torch.Tensor | None = None
    picked: torch.Tensor | None = None
    """The rows to copy into `out` before it is sent; None where `out` is a view of them."""
    into: torch.Tensor | None = None
    place: torch.Tensor | None = None
    """The rows to copy `into` to after it has come; None where it is a view of them."""
    source: torch.Tensor | None = None
    work: list[dist.Work] = field(default_factory=list)


class Exchange:
    """One array's rows to and from the other processes, one message for each pair of processes.

    The array holds the rows that the plan names: `own`, which the caller writes before `start`, and those heard,
    which are there after `wait`. Own rows must not change in between.

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
        self._under_way = False

    def _lane(self, peer: int, columns: int, wire: torch.dtype) -> _Lane:
        lane, exact = _Lane(), wire == self.rows.dtype
        if sent := self.plan.sent.get(peer):
            where = self.plan.rows_of(sent)
            if exact and isinstance(where, slice):
                lane.out = self.rows[where]
            else:
                lane.out = torch.empty(len(sent), columns, dtype=wire)
                lane.picked = torch.tensor([self.plan.rows.index(agent) for agent in sent])
                lane.source = lane.out if exact else torch.empty(len(sent), columns, dtype=self.rows.dtype)
        if heard := self.plan.heard.get(peer):
            where = self.plan.rows_of(heard)
            assert isinstance(where, slice)  # one process hosts a contiguous block, and rows are in order
            lane.place = None if exact else self.rows[where]
            lane.into = self.rows[where] if exact else torch.empty(len(heard), columns, dtype=wire)
        return lane

    def start(self) -> None:
        """Send the own rows and make ready for the others'; returns at once.

        Raises:
            PeerLostError: a process is gone; messages with the others are under way all the same.
        """
        assert not self._under_way, "an exchange is awaited before it is started again"
        self._under_way, lost = True, dict[int, str]()
        for peer, lane in self._lanes.items():
            try:
                if lane.into is not None:
                    lane.work.append(_posted(dist.irecv(lane.into, peer, self.group, self.tag)))
                if lane.out is not None:
                    self._pack(lane)
                    lane.work.append(_posted(dist.isend(lane.out, peer, self.group, self.tag)))
                    self.traffic.bytes_sent += lane.out.numel() * lane.out.element_size()
                    self.traffic.messages_sent += 1
            except RuntimeError as error:
                lost[peer] = reason_of(error)
        if lost:
            raise PeerLostError(lost)

    def _pack(self, lane: _Lane) -> None:
        if lane.picked is not None:
            assert lane.out is not None
            assert lane.source is not None
            torch.index_select(self.rows, 0, lane.picked, out=lane.source)
            if lane.source is not lane.out:
                lane.out.copy_(lane.source)

    def wait(self) -> None:
        """Return when all rows have come and the own rows may change again.

        Raises:
            PeerLostError: processes are gone; the rows of all others have come.
        """
        lost: dict[int, str] = {}
        for peer, lane in self._lanes.items():
            self.traffic.waiting_for = peer, time.monotonic()
            try:
                for work in lane.work:
                    work.wait(PATIENCE)
            except RuntimeError as error:
                lost[peer] = reason_of(error)
            lane.work.clear()
            if lane.place is not None and peer not in lost:
                assert lane.into is not None
                lane.place.copy_(lane.into)
        self.traffic.waiting_for, self._under_way = None, False
        if lost:
            raise PeerLostError(lost)

    def drop(self, peer: int) -> None:
        """Neither send to nor hear from a process any more; its rows keep their last values."""
        self._lanes.pop(peer, None)


def _posted(work: dist.Work | None) -> dist.Work:
    assert work is not None  # None is for processes outside the group
    return work


def reason_of(error: Exception) -> str:
    """The part of gloo's message that says what happened: no source lines, no advice."""
    text = str(error).partition("] ")[2] or str(error)
    return text.partition(". This is")[0].splitlines()[0].rstrip(".")
