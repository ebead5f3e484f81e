"""Compressed messages with public copies, for any method.

Every agent keeps a public copy â of each array a that it sends, and so do its neighbours. It sends q = Q(a − â) alone,
everybody sets â ← â + q, and L and W act on the copies. As a comes to rest, so does a − â, and with it the error.
On decentralized SGD this is CHOCO-SGD, on gradient tracking BEER. References: Koloskova, Stich and Jaggi 2019;
Zhao et al. 2022.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from peerdescent.distributed.exchange import Exchange
from peerdescent.distributed.placement import Routes
from peerdescent.mixing.compressor import Compressor, Origin, as_bytes, from_bytes
from peerdescent.mixing.network import MakeExchange


@dataclass(frozen=True)
class Compression:
    """Every message between neighbours is compressed.

    Args:
        compressor: Q.
        seed: of the run, for compressors that draw random numbers.
    """

    compressor: Compressor
    seed: int

    def exchange(self, make: MakeExchange, like: torch.Tensor, number: int) -> Exchange:
        """An exchange of compressed rows."""
        p = like.shape[1]
        carrier = make(self.compressor.row_bytes(p, like.dtype), torch.uint8)
        return CompressedExchange(carrier, self.compressor, p, like.dtype, self.seed, number)


class CompressedExchange(Exchange):
    """An exchange whose `rows` are public copies: they start at zero, and grow by the decoded messages.

    Args:
        carrier: exchanges the bytes of the rows.
        compressor: Q.
        p: entries per row.
        dtype: of the rows.
        seed: of the run.
        number: of the message in a step.
    """

    def __init__(
        self, carrier: Exchange, compressor: Compressor, p: int, dtype: torch.dtype, seed: int, number: int
    ) -> None:
        self.plan, self.traffic = carrier.plan, carrier.traffic
        device, plan = carrier.rows.device, carrier.plan
        self.rows = torch.zeros(len(plan.rows), p, dtype=dtype, device=device)
        self.own = self.rows[plan.own_rows]
        self.outgoing = torch.zeros_like(self.own)
        self.memory = {"copy": self.own}
        self._carrier, self._compressor, self._seed, self._number = carrier, compressor, seed, number
        received = [place for place, agent in enumerate(plan.rows) if agent not in plan.own]
        self._received = torch.tensor(received, dtype=torch.int64, device=device)
        self._senders = [plan.rows[place] for place in received]
        self._iteration = 0
        self._encoded = carrier.outgoing.clone()

    def select(self, routes: Routes) -> None:
        """The carrier follows: all rows travel in every round, or, before late messages arrive, none."""
        self._carrier.select(routes)

    def start(self, k: int = 0) -> None:
        """Send q = Q(outgoing − â)."""
        self._iteration = k
        self._encoded = self._compressor.encode(self.outgoing - self.own, self._origin(self.plan.own))
        self._carrier.outgoing.copy_(self._encoded)
        self._carrier.start(k)

    def wait(self) -> None:
        """Add the messages, those sent here too, to the copies: until then a copy is that of the last iteration."""
        self._carrier.wait()
        self.own += self._decoded(self._encoded, self.plan.own)
        if self._senders:
            arrived = self._carrier.rows.index_select(0, self._received)
            self.rows.index_add_(0, self._received, self._decoded(arrived, self._senders))

    def _decoded(self, encoded: torch.Tensor, agents: range | list[int]) -> torch.Tensor:
        return self._compressor.decode(encoded, self.rows.shape[1], self.rows.dtype, self._origin(agents))

    def _origin(self, agents: range | list[int]) -> Origin:
        return Origin(self._seed, agents, self._iteration, self._number)

    def synchronize(self) -> None:
        """Send the local copies themselves, in parts that the carrier can hold; uncounted."""
        if not self.plan.peers:
            return
        self.rows[self._received] = swap_exactly(self._carrier, self.own, self._received, self._iteration)


def swap_exactly(carrier: Exchange, rows: torch.Tensor, received: torch.Tensor, k: int) -> torch.Tensor:
    """Send rows as they are through an exchange of bytes, in parts that it can hold; uncounted.

    Args:
        carrier: the exchange of bytes.
        rows: what is sent, one row for each of its own.
        received: which of its rows arrive.
        k: the iteration.

    Returns:
        the rows that have arrived.
    """
    sent, width = as_bytes(rows), carrier.rows.shape[1]
    parts: list[torch.Tensor] = []
    counted = carrier.traffic.bytes_sent, carrier.traffic.messages_sent
    carrier.select(carrier.plan.routes())  # the next iteration selects those of its round
    for begin in range(0, sent.shape[1], width):
        part = sent[:, begin : begin + width]
        carrier.outgoing[:, : part.shape[1]] = part
        carrier.start(k)
        carrier.wait()
        parts.append(carrier.rows.index_select(0, received)[:, : part.shape[1]])
    carrier.traffic.bytes_sent, carrier.traffic.messages_sent = counted
    carrier.rows.zero_()  # a round in which nothing arrives reads zeros
    return from_bytes(torch.cat(parts, dim=1), rows.dtype)
