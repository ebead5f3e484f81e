"""Words and rows from one process to another, each of them answered: what passes besides a method's messages."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from peerdescent.distributed.exchange import PATIENCE, PeerLostError, Traffic, reason_of

OBJECT, TENSOR, ACK = 1, 2, 3
"""Tags of what passes here; those of a method's messages come after."""


class PointToPoint:
    """What this process sends to others and receives from them, over torch.distributed.

    Args:
        traffic: where to say whom this process waits for.
    """

    def __init__(self, traffic: Traffic) -> None:
        self.traffic = traffic
        self._acks: dict[int, tuple[torch.Tensor, dist.Work | None]] = {}

    def send(self, rows: torch.Tensor, peer: int) -> None:
        """A contiguous tensor to one process; returns when it has come."""
        PendingSend([rows], peer, TENSOR, self.traffic).wait()

    def recv(self, rows: torch.Tensor, peer: int) -> None:
        """What one process sends, into a contiguous tensor of the same size."""
        self._receive(rows, peer, TENSOR)
        self._acknowledge(peer)

    def send_object(self, value: Any, peer: int) -> PendingSend:
        """A value (of JSON's kinds) to one process; returns at once."""
        content = json.dumps(value).encode()
        parts = [torch.tensor([len(content)]), torch.frombuffer(bytearray(content), dtype=torch.uint8)]
        return PendingSend(parts, peer, OBJECT, self.traffic)

    def recv_object(self, peer: int) -> Any:
        """The value that one process says."""
        length = torch.zeros(1, dtype=torch.int64)
        self._receive(length, peer, OBJECT)
        content = torch.empty(int(length), dtype=torch.uint8)
        self._receive(content, peer, OBJECT)
        self._acknowledge(peer)
        return json.loads(content.numpy().tobytes())

    def forget(self) -> None:
        """Let go of what was on its way when the connections closed."""
        self._acks.clear()

    def _receive(self, rows: torch.Tensor, peer: int, tag: int) -> None:
        with _naming(peer), self.traffic.waiting(peer):
            work = dist.irecv(rows, peer, tag=tag)
            assert work is not None
            work.wait(PATIENCE)

    def _acknowledge(self, peer: int) -> None:
        """Say that a message has come; the one before was heard, since another has been sent."""
        ack = torch.zeros(1, dtype=torch.uint8)
        with _naming(peer):
            self._acks[peer] = ack, dist.isend(ack, peer, tag=ACK)


class PendingSend:
    """Messages on their way to one process, one after the other; it says when the last has come.

    A wait for a send would not end if that process died meanwhile, but one for its answer does.
    """

    def __init__(self, parts: Sequence[torch.Tensor], peer: int, tag: int, traffic: Traffic) -> None:
        self._peer, self._traffic, self._answer = peer, traffic, torch.zeros(1, dtype=torch.uint8)
        with _naming(peer):
            self._heard = dist.irecv(self._answer, peer, tag=ACK)
            self._kept = [(part, dist.isend(part, peer, tag=tag)) for part in parts]

    def wait(self) -> None:
        """Return when all has come."""
        assert self._heard is not None
        with _naming(self._peer), self._traffic.waiting(self._peer):
            self._heard.wait(PATIENCE)


@contextlib.contextmanager
def _naming(peer: int) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        raise PeerLostError({peer: reason_of(error)}) from error
