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

from peerdescent.distributed.exchange import Exchange, count
from peerdescent.distributed.gloo import GlooChannel, reason_of
from peerdescent.distributed.placement import Places
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

    def _message_buffer(self, rows: int) -> torch.Tensor:
        return host_buffer(rows, self._rows.shape[1], self._dtype)

    @property
    def _receives_in_place(self) -> bool:
        return False


class DirectBuffers(GlooChannel):
    """Buffers on the device; `BatchedExchange` sends and receives them for all peers at once."""

    def _send_buffers(self) -> Pair:
        out = self._message_buffer(self._sizes[0])
        return out, out

    def _message_buffer(self, rows: int) -> torch.Tensor:
        return torch.empty(rows, self._rows.shape[1], dtype=self._dtype, device=self._rows.device)

    def operations(
        self, sent: int, received: int, place: torch.Tensor | None
    ) -> tuple[list[dist.P2POp], torch.Tensor | None]:
        """The receive and the send, as parts of a batch, and where rows arrive unless that is their place."""
        into, buffer = self._into(received, place)
        ends = (dist.irecv, into), (dist.isend, self._from(0, sent))
        return [dist.P2POp(op, tensor, self._peer, self._group, self._tag) for op, tensor in ends], buffer


class BatchedExchange(Exchange):
    """An exchange in one batch, as NCCL needs it: separate sends and receives between pairs could deadlock.

    NCCL runs the batch on a stream of the process group while the default stream computes the gradient, and a wait
    holds up only the device. All processes start their exchanges in the same order, which is how NCCL matches them.
    """

    _channels: dict[int, DirectBuffers]  # type: ignore[assignment]

    def start(self, k: int = 0) -> None:
        """Send the local rows of iteration k and prepare to receive the others; returns at once."""
        assert not self._started, "wait for an exchange before starting it again"
        self._started, operations = True, list[dist.P2POp]()
        self._arriving = list[tuple[Places, torch.Tensor]]()
        for peer, (picked, placed) in self._routes.items():
            channel, sent = self._channels[peer], count(picked)
            out = channel.out[0][:sent]
            self._pack(picked, out)
            place = self.rows[placed] if isinstance(placed, slice) else None
            both, buffer = channel.operations(sent, count(placed), place)
            operations += both
            self._arriving += [] if buffer is None else [(placed, buffer)]
            self.traffic.count(out)
        self._works: list[dist.Work] = []
        try:
            self._works = dist.batch_isend_irecv(operations) if operations else []
        except RuntimeError as error:
            raise PeerLostError(dict.fromkeys(self._routes, reason_of(error))) from error

    def wait(self) -> None:
        """Return when the batch has ended, on a device with streams when everything after it waits for it."""
        self._started = False
        try:
            for work in self._works:
                work.wait()
        except RuntimeError as error:
            raise PeerLostError(dict.fromkeys(self._routes, reason_of(error))) from error
        for placed, buffer in self._arriving:
            self._unpack(placed, buffer)
