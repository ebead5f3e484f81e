"""L·a, W·a and the mean for the agents of this process: all of them, or a block."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import scipy.sparse
import torch

from peerdescent.distributed.device_transport import BatchedExchange, DirectBuffers, StagedChannel
from peerdescent.distributed.exchange import Exchange, Traffic
from peerdescent.distributed.gloo import GlooChannel
from peerdescent.distributed.placement import ExchangePlan, Placement, all_agents_plan, neighbour_plan
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.mixing.matrix import AllAgents, Matrix
from peerdescent.mixing.weights import MixingWeights


@dataclass
class MemoryNetwork:
    """All agents in one process: a message is a row of the same matrix."""

    laplacian_matrix: Matrix
    disagreement_matrix: Matrix
    all_agents: AllAgents
    rounded: bool = False
    """Messages are sent as bfloat16; an agent compares what it receives with the rounded values it sends, so that
    sums stay zero."""
    local: bool = False
    """No messages are sent: L = 0 and W = I."""

    def without_messages(self) -> MemoryNetwork:
        """The same agents without messages: L = 0 and W = I."""
        return replace(self, local=True)

    def begin(self) -> None:
        """Start a new iteration."""

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        """L·a."""
        return torch.zeros_like(a) if self.local else self.laplacian_matrix @ self._neighbour_rows(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        """(I−W)·a."""
        return torch.zeros_like(a) if self.local else self.disagreement_matrix @ self._neighbour_rows(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        """W·a."""
        return a - self.disagreement(a)

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        """The mean of all rows, in every row."""
        return self._all(a).mean(dim=0, keepdim=True).expand_as(a)

    def _neighbour_rows(self, a: torch.Tensor) -> torch.Tensor:
        """The rows that the matrices act on, as they are sent."""
        return a.to(torch.bfloat16).to(a.dtype) if self.rounded else a

    def _all(self, a: torch.Tensor) -> torch.Tensor:
        """The rows of all agents."""
        return a


@dataclass
class BlockNetwork(MemoryNetwork):
    """The agents of one process of several: the rows of other agents arrive by exchange.

    It creates the exchanges that compiled updates drive themselves; L·a, W·a and the mean of a tensor exchange
    immediately and wait.
    """

    group: ProcessGroup = field(kw_only=True)
    neighbours: ExchangePlan = field(kw_only=True)
    others: ExchangePlan = field(kw_only=True)
    """The plan for the mean, which needs the rows of all agents."""
    traffic: Traffic = field(kw_only=True)
    """Counts what is sent here."""
    transport: Literal["auto", "staged", "batched"] = field(default="auto", kw_only=True)
    """How rows travel: as the device and the backend ask for, or, for tests, as devices do on the CPU."""

    def __post_init__(self) -> None:
        self._exchanges: list[Exchange] = []
        self._done: dict[tuple[int, bool], tuple[torch.Tensor, torch.Tensor]] = {}

    def exchange(self, like: torch.Tensor, all_agents: bool) -> Exchange:
        """Create an exchange for rows like these, with all agents or with neighbours."""
        plan = self.others if all_agents else self.neighbours
        message_dtype = torch.bfloat16 if self.rounded and not all_agents else None
        tag, device_group = self.group.tag(), self.group.device_group
        arguments = plan, like.shape[1], like.dtype, tag, message_dtype, self.traffic
        on_device = like.device.type != "cpu"
        if self.transport == "batched" or (on_device and device_group is not None):
            group = device_group or self.group.p2p.torch_group
            return BatchedExchange(*arguments, None, group, like.device, DirectBuffers)
        make = partial(
            Exchange,
            *arguments,
            torch_group=self.group.p2p.torch_group,
            device=like.device,
            channel=StagedChannel if on_device or self.transport == "staged" else GlooChannel,
        )
        if self.transport == "auto" and (shared_memory := self.group.shared_memory(tag)):
            shared: Exchange | None = None
            with suppress(OSError):  # not enough memory, which all processes must learn
                shared = make(shared_memory=shared_memory)
            if self.group.all_true(shared is not None) and shared is not None:
                return shared
        return make()

    def begin(self) -> None:
        """Start a new iteration: its messages are those of the previous one, with new rows."""
        self._done.clear()

    def _neighbour_rows(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(super()._neighbour_rows(a), a, False)

    def _all(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(a, a, True)

    def _exchanged(self, sent: torch.Tensor, a: torch.Tensor, all_agents: bool) -> torch.Tensor:
        """The rows of a and the rows received; nothing is sent twice in one iteration."""
        if (id(a), all_agents) not in self._done:
            if len(self._exchanges) == len(self._done):
                self._exchanges.append(self.exchange(a, all_agents))
            exchange = self._exchanges[len(self._done)]
            exchange.own.copy_(sent)
            exchange.start()
            exchange.wait()
            self._done[id(a), all_agents] = a, exchange.rows  # a is kept alive, so that its id stays unique
        return self._done[id(a), all_agents][1]


def make_network(
    weights: MixingWeights,
    dtype: torch.dtype,
    device: torch.device,
    message_dtype: str = "same",
    group: ProcessGroup | None = None,
    placement: Placement | None = None,
    traffic: Traffic | None = None,
) -> MemoryNetwork:
    """The network for tensors of this dtype and device: of all agents, or of this process's block.

    What it sends is counted in `traffic`, by default in the group's.
    """
    L, n = weights.laplacian, weights.graph.n
    disagreement = scipy.sparse.csr_array(scipy.sparse.eye_array(n) - weights.mixing)
    rounded = message_dtype == "bf16"
    if group is None or group.size == 1:
        matrices = Matrix(L, dtype, device), Matrix(disagreement, dtype, device)
        return MemoryNetwork(*matrices, AllAgents(n), rounded)
    placement = placement or Placement(n, group.size)
    plan = neighbour_plan(placement, group.rank, weights.graph.edges)
    return BlockNetwork(
        Matrix(L, dtype, device, plan),
        Matrix(disagreement, dtype, device, plan),
        AllAgents(n, plan.own.start),
        rounded,
        group=group,
        neighbours=plan,
        others=all_agents_plan(placement, group.rank),
        traffic=traffic or group.traffic,
    )
