"""Rows of one array, exchanged with other processes.

No process waits for its sends (see `gloo`). Messages leave from two buffers in turn: a peer sends its next message only
after it has received ours, so when that message is here, the buffer of our previous message is free again. The same
holds for memory that processes of one machine share. Receives are posted before sends, and without peers nothing is
posted at all.
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
from peerdescent.distributed.placement import ExchangePlan
from peerdescent.distributed.shared_memory import Pair, SharedMemory
from peerdescent.errors import PeerLostError


@dataclass
class Traffic:
    """What this process has sent, and which peer it waits for; shared by all its exchanges."""

    bytes_sent: int = 0
    messages_sent: int = 0
    waiting_for: tuple[int, float] | None = None
    """During a wait: the rank of the peer, and when the wait began (time.monotonic)."""

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
    """Send buffers, used in turn; each has exactly the size of a message."""

    def start(self, turn: int) -> None:
        """Send out[turn] and prepare to receive the peer's message; returns at once."""

    def wait(self, turn: int) -> None:
        """Return when the peer's rows are in place."""


class Exchange:
    """One array's rows to and from the other processes, one message per pair of processes.

    The array holds the rows that the plan names: `own`, which the caller writes before `start`, and those received,
    which are there after `wait`. In every plan, a process receives from exactly the peers that it sends to.

    Args:
        plan: which rows go where.
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
        self.own = self.rows[plan.own_rows]
        """The rows of the agents hosted here: a view."""
        self._channels: dict[int, Channel] = {}
        self._picked: dict[int, slice | list[int] | torch.Tensor] = {}
        for peer in plan.peers:
            where = plan.rows_of(plan.received[peer])
            assert isinstance(where, slice)  # a process hosts a contiguous block, and rows are in order
            message = peer, len(plan.sent[peer]), self.rows[where], message_dtype or dtype
            self._channels[peer] = (
                shared_memory.channel(*message) if shared_memory is not None else channel(*message, tag, torch_group)
            )
            picked = plan.rows_of(plan.sent[peer])
            on_device = isinstance(picked, list) and self.rows.device.type != "cpu"  # one copy instead of many
            self._picked[peer] = torch.tensor(picked, device=device) if on_device else picked
        self._in_flight, self._turn = False, 0

    def start(self) -> None:
        """Send the local rows and prepare to receive the others; returns at once.

        Raises:
            PeerLostError: a peer is lost; messages to and from the others are in flight all the same.
        """
        assert not self._in_flight, "wait for an exchange before starting it again"
        self._in_flight, self._turn, lost = True, 1 - self._turn, dict[int, str]()
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

    def _pack(self, picked: slice | list[int] | torch.Tensor, out: torch.Tensor) -> None:
        if not isinstance(picked, list):
            out.copy_(self.rows[picked])
            return
        for place, row in enumerate(picked):
            out[place].copy_(self.rows[row])

    def wait(self) -> None:
        """Return when all rows have arrived.

        Raises:
            PeerLostError: peers are lost; the rows of all others have arrived.
        """
        lost: dict[int, str] = {}
        for peer, channel in self._channels.items():
            try:
                with self.traffic.waiting(peer):
                    channel.wait(self._turn)
            except (RuntimeError, OSError) as error:
                lost[peer] = reason_of(error)
        self._in_flight = False
        if lost:
            raise PeerLostError(lost)
