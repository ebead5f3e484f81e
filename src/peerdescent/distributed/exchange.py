"""Rows of one array, exchanged with other processes.

No process waits for its sends (see `gloo`). Messages leave from two buffers in turn: a peer sends its next message only
after it has received ours, so when that message is here, the buffer of our previous message is free again. The same
holds for memory that processes of one machine share. Where rows go in one direction only, an empty message goes back.
Receives are posted before sends, and without peers nothing is posted at all.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import torch
import torch.distributed as dist

from peerdescent.distributed.gloo import GlooChannel, reason_of
from peerdescent.distributed.placement import ExchangePlan, Places, Routes
from peerdescent.distributed.shared_memory import Pair, SharedMemory
from peerdescent.errors import PeerLostError


@dataclass
class Traffic:
    """What this process has sent, and which peer it waits for; shared by all its exchanges."""

    bytes_sent: int = 0
    messages_sent: int = 0
    waiting_for: tuple[int, float] | None = None
    """During a wait: the rank of the peer, and when the wait began (time.monotonic)."""

    def count(self, message: torch.Tensor) -> None:
        """Count a message; an empty one only says that another one has arrived."""
        if message.numel():
            self.bytes_sent += message.numel() * message.element_size()
            self.messages_sent += 1

    @contextlib.contextmanager
    def waiting(self, peer: int) -> Iterator[None]:
        """Set `waiting_for` during a wait."""
        self.waiting_for = peer, time.monotonic()
        try:
            yield
        finally:
            self.waiting_for = None


class Channel(Protocol):
    """Messages between this process and one peer."""

    out: Pair
    """Send buffers, used in turn; each has the size of the largest message."""

    def start(self, turn: int, sent: int, received: int, place: torch.Tensor | None) -> None:
        """Send the first rows of out[turn] and prepare to receive the peer's message; returns at once.

        Args:
            turn: 0 or 1.
            sent: how many rows to send.
            received: how many rows the peer sends.
            place: where these rows go, if they are contiguous.
        """

    def wait(self, turn: int) -> torch.Tensor | None:
        """Return the peer's rows when they are here; None if they are in place."""


class Exchange:
    """One array's rows to and from the other processes, one message per pair of processes.

    The array holds the rows that the plan names: `own`, which the caller writes before `start`, and those received,
    which are there after `wait`. In every round, two processes send each other one message, or none.

    Args:
        plan: all rows that are ever exchanged, and where they go.
        columns: entries per row.
        dtype: of the array.
        tag: different for every exchange that can be in flight at the same time.
        message_dtype: the dtype of messages, by default the array's; bfloat16 halves what single precision sends.
        traffic: counts what is sent.
        shared_memory: memory that all processes share, used instead of torch.distributed.
        torch_group: the group of torch.distributed to send in, by default the default one.
        device: where the array is.
        channel: what sends through torch.distributed.
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
        torch_group: dist.ProcessGroup | None = None,
        device: torch.device | None = None,
        channel: type[GlooChannel] = GlooChannel,
    ) -> None:
        self.plan, self.traffic = plan, traffic or Traffic()
        self.rows = torch.zeros(len(plan.rows), columns, dtype=dtype, device=device)
        """What L and W act on: the rows of the agents hosted here, and those received."""
        self.own = self.rows[plan.own_rows]
        """The rows of the agents hosted here: a view."""
        self.outgoing = self.own
        """Where the caller writes what is sent; other exchanges change it before neighbours read it."""
        self.memory: dict[str, torch.Tensor] = {}
        """What is kept from one iteration to the next, one row for each agent hosted here."""
        self._channels: dict[int, Channel] = {}
        for peer in plan.peers:
            sizes = len(plan.sent.get(peer, ())), len(plan.received.get(peer, ()))
            message = peer, sizes, self.rows, message_dtype or dtype
            self._channels[peer] = (
                shared_memory.channel(*message) if shared_memory is not None else channel(*message, tag, torch_group)
            )
        self._turns = dict.fromkeys(plan.peers, 0)
        self._in_flight: dict[int, tuple[int, Places]] = {}
        self._started = False
        self.select(plan.routes())

    def select(self, routes: Routes) -> None:
        """Exchange only these rows until further notice: those of a round."""
        self._routes = routes

    def start(self, k: int = 0) -> None:
        """Send the local rows of iteration k and prepare to receive the others; returns at once.

        Raises:
            PeerLostError: a peer is lost; messages to and from the others are in flight all the same.
        """
        assert not self._started, "wait for an exchange before starting it again"
        self._started, lost = True, dict[int, str]()
        for peer, (picked, placed) in self._routes.items():
            turn = self._turns[peer] = 1 - self._turns[peer]
            sent, received = count(picked), count(placed)
            out = self._channels[peer].out[turn][:sent]
            self._pack(picked, out)
            self._in_flight[peer] = turn, placed
            place = self.rows[placed] if isinstance(placed, slice) else None
            try:
                self._channels[peer].start(turn, sent, received, place)
                self.traffic.count(out)
            except (RuntimeError, OSError) as error:
                lost[peer] = reason_of(error)
        if lost:
            raise PeerLostError(lost)

    def _pack(self, picked: Places, out: torch.Tensor) -> None:
        if isinstance(picked, slice) or self.rows.device.type != "cpu":
            out.copy_(self.rows[picked])
        else:
            for place, row in enumerate(picked):
                out[place].copy_(self.rows[row])

    def wait(self) -> None:
        """Return when all rows have arrived.

        Raises:
            PeerLostError: peers are lost; the rows of all others have arrived.
        """
        lost: dict[int, str] = {}
        for peer, (turn, placed) in self._in_flight.items():
            try:
                with self.traffic.waiting(peer):
                    arrived = self._channels[peer].wait(turn)
                if arrived is not None:
                    self._unpack(placed, arrived)
            except (RuntimeError, OSError) as error:
                lost[peer] = reason_of(error)
        self._in_flight.clear()
        self._started = False
        if lost:
            raise PeerLostError(lost)

    def _unpack(self, placed: Places, arrived: torch.Tensor) -> None:
        if count(placed):
            self.rows[placed] = arrived.to(self.rows.dtype)

    def synchronize(self) -> None:
        """Tell the neighbours what `memory` holds, after it was written; all processes call this together."""


def count(places: Places) -> int:
    """How many rows these are."""
    return places.stop - places.start if isinstance(places, slice) else len(places)
