"""Objects and tensors from one process to another, each acknowledged: everything but a method's messages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from peerdescent.distributed.exchange import Traffic
from peerdescent.distributed.gloo import WAIT_TIMEOUT, global_rank, reason_of
from peerdescent.errors import PeerLostError

OBJECT, TENSOR, ACK = 1, 2, 3
"""Tags of the messages here; those of a method's messages follow."""


class PointToPoint:
    """What this process sends to others and receives from them, over torch.distributed.

    Args:
        traffic: records which peer this process waits for.
        torch_group: the group of torch.distributed to send in, by default the default one.
    """

    def __init__(self, traffic: Traffic, torch_group: dist.ProcessGroup | None = None) -> None:
        self.traffic, self.torch_group = traffic, torch_group
        self._acks: dict[int, tuple[torch.Tensor, dist.Work | None]] = {}

    def send(self, rows: torch.Tensor, peer: int) -> None:
        """Send a contiguous tensor to a peer; returns when it has arrived. Tensors on a device go through the host."""
        PendingSend([rows.cpu()], peer, TENSOR, self.traffic, self.torch_group).wait()

    def recv(self, rows: torch.Tensor, peer: int) -> None:
        """Receive a tensor from a peer into a contiguous tensor of the same size."""
        host = rows if rows.device.type == "cpu" else torch.empty_like(rows, device="cpu")
        self._receive(host, peer, TENSOR)
        self._acknowledge(peer)
        if host is not rows:
            rows.copy_(host)

    def send_object(self, value: Any, peer: int) -> PendingSend:
        """Send a JSON value to a peer; returns at once."""
        content = json.dumps(value).encode()
        parts = [torch.tensor([len(content)]), torch.frombuffer(bytearray(content), dtype=torch.uint8)]
        return PendingSend(parts, peer, OBJECT, self.traffic, self.torch_group)

    def recv_object(self, peer: int) -> Any:
        """Receive a JSON value from a peer."""
        length = torch.zeros(1, dtype=torch.int64)
        self._receive(length, peer, OBJECT)
        content = torch.empty(int(length), dtype=torch.uint8)
        self._receive(content, peer, OBJECT)
        self._acknowledge(peer)
        return json.loads(content.numpy().tobytes())

    def forget(self) -> None:
        """Drop what was in flight when the connections closed."""
        self._acks.clear()

    def _receive(self, rows: torch.Tensor, peer: int, tag: int) -> None:
        with _naming(peer), self.traffic.waiting(peer):
            work = dist.irecv(rows, global_rank(peer, self.torch_group), self.torch_group, tag)
            assert work is not None
            work.wait(WAIT_TIMEOUT)

    def _acknowledge(self, peer: int) -> None:
        """Confirm a message; the previous ACK has arrived, since the peer has sent another message."""
        ack = torch.zeros(1, dtype=torch.uint8)
        with _naming(peer):
            self._acks[peer] = ack, dist.isend(ack, global_rank(peer, self.torch_group), self.torch_group, ACK)


class PendingSend:
    """Messages in flight to one peer, in order.

    A wait for a send would not end if the peer died meanwhile; a wait for its ACK does.
    """

    def __init__(
        self,
        parts: Sequence[torch.Tensor],
        peer: int,
        tag: int,
        traffic: Traffic,
        torch_group: dist.ProcessGroup | None,
    ) -> None:
        self._peer, self._traffic, self._ack = peer, traffic, torch.zeros(1, dtype=torch.uint8)
        to = global_rank(peer, torch_group)
        with _naming(peer):
            self._acknowledged = dist.irecv(self._ack, to, torch_group, ACK)
            self._kept = [(part, dist.isend(part, to, torch_group, tag)) for part in parts]

    def wait(self) -> None:
        """Return when everything has arrived."""
        assert self._acknowledged is not None
        with _naming(self._peer), self._traffic.waiting(self._peer):
            self._acknowledged.wait(WAIT_TIMEOUT)


@contextlib.contextmanager
def _naming(peer: int) -> Iterator[None]:
    """Turn gloo's error into one that names the peer."""
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError({peer: reason_of(error)}) from error
