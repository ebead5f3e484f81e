"""Rows that live on an accelerator: through pinned host memory for gloo, or device to device for NCCL.

Which one is used follows from where the tensors are and from the backend that the processes have for that device:

| tensors | backend | messages |
|---|---|---|
| CPU | any | shared memory or gloo, see `exchange` |
| device | gloo | `StagedChannel`: copied to pinned memory, sent by gloo, copied to the device |
| device | NCCL, or another of the device's own | `BatchedExchange`: one `batch_isend_irecv` for all peers |
"""

from __future__ import annotations

import torch
import torch.distributed as dist

from peerdescent.distributed.exchange import Exchange
from peerdescent.distributed.gloo import GlooChannel, reason_of
from peerdescent.distributed.shared_memory import Pair
from peerdescent.errors import PeerLostError


def device_backend(device_type: str, backends: str) -> str:
    """The backend for tensors of a device in the backend configuration of a process group, "" if it has none.

    >>> device_backend("cuda", "cpu:gloo,cuda:nccl"), device_backend("mps", "cpu:gloo,cuda:nccl")
    ('nccl', '')
    """
    return dict(pair.split(":") for pair in backends.split(",")).get(device_type, "")


def host_buffer(rows: int, columns: int, dtype: torch.dtype) -> torch.Tensor:
    """Memory of the host for messages, pinned where a device can read it directly."""
    pinned = torch.cuda.is_available() or (hasattr(torch, "xpu") and torch.xpu.is_available())
    return torch.empty(rows, columns, dtype=dtype, pin_memory=pinned)


class StagedChannel(GlooChannel):
    """Messages of a tensor on a device, through host memory.

    Copies to the host wait for the device, so a message is complete when gloo sends it; copies to the device end
    before the buffer is used again.
    """

    def _buffers(self, rows: int, place: torch.Tensor, message_dtype: torch.dtype) -> tuple[Pair, torch.Tensor]:
        columns = place.shape[1]
        out = host_buffer(rows, columns, message_dtype), host_buffer(rows, columns, message_dtype)
        return out, host_buffer(len(place), columns, message_dtype)


class DirectBuffers(GlooChannel):
    """Buffers on the device; `BatchedExchange` sends and receives them for all peers at once."""

    def _buffers(self, rows: int, place: torch.Tensor, message_dtype: torch.dtype) -> tuple[Pair, torch.Tensor]:
        out, into = (
            torch.empty(n, place.shape[1], dtype=message_dtype, device=place.device) for n in (rows, len(place))
        )
        return (out, out), place if message_dtype == place.dtype else into

    def operations(self) -> list[dist.P2POp]:
        """The receive and the send, as parts of a batch."""
        ends = (dist.irecv, self._into), (dist.isend, self.out[0])
        return [dist.P2POp(op, tensor, self._peer, self._group, self._tag) for op, tensor in ends]

    def deliver(self) -> None:
        """Put the rows in place after the batch has ended."""
        if self._into is not self._place:
            self._place.copy_(self._into)


class BatchedExchange(Exchange):
    """An exchange in one batch, as NCCL needs it: separate sends and receives between pairs could deadlock.

    NCCL runs the batch on a stream of the process group while the default stream computes the gradient, and a wait
    holds up only the device. All processes start their exchanges in the same order, which is how NCCL matches them.
    """

    _channels: dict[int, DirectBuffers]  # type: ignore[assignment]

    def start(self) -> None:
        """Send the local rows and prepare to receive the others; returns at once."""
        assert not self._in_flight, "wait for an exchange before starting it again"
        self._in_flight, operations = True, list[dist.P2POp]()
        for peer, channel in self._channels.items():
            out = channel.out[0]
            self._pack(self._picked[peer], out)
            operations += channel.operations()
            self.traffic.bytes_sent += out.numel() * out.element_size()
            self.traffic.messages_sent += 1
        self._works: list[dist.Work] = []
        try:
            self._works = dist.batch_isend_irecv(operations) if operations else []
        except RuntimeError as error:
            raise PeerLostError(dict.fromkeys(self._channels, reason_of(error))) from error

    def wait(self) -> None:
        """Return when the batch has ended, on a device with streams when everything after it waits for it."""
        self._in_flight = False
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            raise PeerLostError(dict.fromkeys(self._channels, reason_of(error))) from error
        for channel in self._channels.values():
            channel.deliver()
