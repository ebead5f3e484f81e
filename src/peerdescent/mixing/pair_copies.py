"""Compressed messages where not every neighbour gets every message: one copy for each pair of agents.

On graphs over time, and where messages are lost or agents inactive, an agent i keeps a copy â_ij of what it has sent to
each j that may ever be its neighbour, and so does j. In a round with the edge i–j it sends Q(a_i − â_ij), both add that
to â_ij, and the term of the edge in (I−W)a becomes w_ij(â_ij − â_ji). What is not exchanged does not change, so both
ends always hold the same copies, and their terms cancel: sums over the agents stay as they are. If every neighbour gets
every message, all copies of what an agent sends are equal, and this is the scheme with public copies (`compression`).

The sender must learn whether its message has arrived before it sends the next one; with messages that are lost and late
at the same time it cannot.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from peerdescent.distributed.exchange import Exchange
from peerdescent.distributed.placement import Routes
from peerdescent.mixing.compression import swap_exactly
from peerdescent.mixing.compressor import Compressor, Origin
from peerdescent.mixing.network import MakeExchange
from peerdescent.mixing.pair_rows import ActivePairs, Integers, PairRows
from peerdescent.mixing.rounds import PerRound, Rounds


@dataclass(frozen=True)
class PairCompression:
    """Every message between neighbours is compressed, with one copy for each pair of agents.

    Args:
        compressor: Q.
        seed: of the run, for compressors that draw random numbers.
        rows: where copies and messages are.
        rounds: who gets whose message in each round.
        rounds_before: the number of exchanges before an iteration.
    """

    compressor: Compressor
    seed: int
    rows: PairRows
    rounds: Rounds
    rounds_before: Callable[[int], int] = int

    def exchange(self, make: MakeExchange, like: torch.Tensor, number: int) -> Exchange:
        """An exchange of compressed rows."""
        carrier = make(self.compressor.row_bytes(like.shape[1], like.dtype), torch.uint8)
        return PairExchange(carrier, self, like.shape[1], like.dtype, number)


class PairExchange(Exchange):
    """An exchange whose `rows` are differences of copies, one for each pair, after a row of zeros for each agent.

    Args:
        carrier: exchanges the bytes of the messages, one row for each pair.
        compression: Q, and who gets what.
        p: entries per row.
        dtype: of the rows.
        number: of the message in a step.
    """

    def __init__(
        self, carrier: Exchange, compression: PairCompression, p: int, dtype: torch.dtype, number: int
    ) -> None:
        self.plan, self.traffic = carrier.plan, carrier.traffic
        self._carrier, self._compression, self._number = carrier, compression, number
        where, device = compression.rows, carrier.rows.device
        self.rows = torch.zeros(where.differences, p, dtype=dtype, device=device)
        self.own = self.rows[: len(where.own)]
        self.outgoing = torch.zeros_like(self.own)
        self._copies = torch.zeros(where.copies, p, dtype=dtype, device=device)
        self.memory = {"copies": self._copies[: where.kept].view(len(where.own), -1)}
        self._active = PerRound(self._find, compression.rounds.period)
        self._now, self._iteration = self._find(None), 0
        self._encoded: torch.Tensor | None = None

    def _find(self, round: int | None) -> _Active:
        """The pairs of a round, as indices of tensors; None for no pairs."""
        rounds, device = self._compression.rounds, self._copies.device
        pairs = rounds.pairs[:0] if round is None else rounds.at(round).pairs
        return _Active.of(self._compression.rows.active(pairs), self._compression.rows.own.start, device)

    def select(self, routes: Routes) -> None:
        """The carrier follows."""
        self._carrier.select(routes)

    def start(self, k: int = 0) -> None:
        """Send q = Q(outgoing − â) along every edge of this round."""
        self._now, self._iteration, self._encoded = self._active(self._compression.rounds_before(k)), k, None
        if self._now.senders:
            changes = self.outgoing[self._now.local] - self._copies[self._now.sent]
            self._encoded = self._compression.compressor.encode(changes, self._origin(self._now.senders))
            self._carrier.outgoing[self._now.outgoing] = self._encoded
        self._carrier.start(k)

    def wait(self) -> None:
        """Add the messages, those sent here too, to the copies, and take the differences."""
        self._carrier.wait()
        now = self._now
        if self._encoded is not None:
            self._copies.index_add_(0, now.sent, self._decoded(self._encoded, now.senders))
        if now.origins:
            arrived = self._carrier.rows[now.incoming]
            self._copies.index_add_(0, now.received, self._decoded(arrived, now.origins))
        self.rows[now.differences] = self._copies[now.theirs] - self._copies[now.ours]

    def _decoded(self, encoded: torch.Tensor, agents: list[int]) -> torch.Tensor:
        p, dtype = self.rows.shape[1], self.rows.dtype
        return self._compression.compressor.decode(encoded, p, dtype, self._origin(agents))

    def _origin(self, agents: list[int]) -> Origin:
        return Origin(self._compression.seed, agents, self._iteration, self._number)

    def synchronize(self) -> None:
        """Send all copies of what is sent from here to those who hold the same."""
        if not self.plan.peers:
            return
        where, device = self._compression.rows, self._copies.device
        arrive, places = (torch.from_numpy(each).to(device) for each in where.remote_places)
        own = self._copies[torch.from_numpy(where.own_places).to(device)]
        self._copies[places] = swap_exactly(self._carrier, own, arrive, self._iteration)


@dataclass(frozen=True)
class _Active:
    """`ActivePairs` as tensors and lists of agents."""

    senders: list[int]
    local: torch.Tensor
    sent: torch.Tensor
    outgoing: torch.Tensor
    origins: list[int]
    received: torch.Tensor
    incoming: torch.Tensor
    differences: torch.Tensor
    theirs: torch.Tensor
    ours: torch.Tensor

    @classmethod
    def of(cls, pairs: ActivePairs, first: int, device: torch.device) -> _Active:
        def places(each: Integers) -> torch.Tensor:
            return torch.from_numpy(np.ascontiguousarray(each, dtype=np.int64)).to(device)

        return cls(
            pairs.senders.tolist(),
            places(pairs.senders - first),
            places(pairs.sent),
            places(pairs.outgoing),
            pairs.origins.tolist(),
            places(pairs.received),
            places(pairs.incoming),
            places(pairs.differences),
            places(pairs.theirs),
            places(pairs.ours),
        )
