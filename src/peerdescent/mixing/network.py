"""L·a, W·a and the mean for the agents of this process: all of them, or a block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal, Protocol

import torch
from numpy.typing import NDArray

from peerdescent.distributed.device_transport import BatchedExchange, DirectBuffers, StagedChannel
from peerdescent.distributed.exchange import Exchange, Traffic
from peerdescent.distributed.gloo import GlooChannel
from peerdescent.distributed.placement import ExchangePlan, Placement, Routes, all_agents_plan, neighbour_plan
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.mixing.agent_scales import AgentScales
from peerdescent.mixing.matrix import AllAgents, CurrentMatrix, Matrix
from peerdescent.mixing.pair_rows import PairRows
from peerdescent.mixing.round_matrices import RoundMatrices, matrices_per_round
from peerdescent.mixing.rounds import PerRound, Rounds, per_round

MakeExchange = Callable[[int, torch.dtype], Exchange]
"""Makes an exchange of rows with so many columns of a dtype."""


class MessageFilter(Protocol):
    """What neighbours read in place of an array that is sent: compressed, noisy, delayed."""

    def exchange(self, make: MakeExchange, like: torch.Tensor, number: int) -> Exchange:
        """An exchange whose `outgoing` and `own` rows differ.

        Args:
            make: makes the exchange that carries its messages.
            like: rows of the agents hosted here, as the step sends them.
            number: which of the step's messages it is, in the order in which the step asks for them.
        """
        ...


@dataclass
class MemoryNetwork:
    """All agents in one process: a message is a row of the same matrix."""

    laplacian_matrix: CurrentMatrix
    disagreement_matrix: CurrentMatrix
    all_agents: AllAgents
    matrices: PerRound[RoundMatrices[Matrix]]
    """L and I−W of a round."""
    rounds_before: Callable[[int], int]
    """The number of exchanges before an iteration."""
    rounded: bool = False
    """Messages are sent as bfloat16; an agent compares what it receives with the rounded values it sends, so that
    sums stay zero."""
    local: bool = False
    """No messages are sent: L = 0 and W = I."""
    filters: Sequence[MessageFilter] = ()
    """What happens to messages on their way."""
    scales: AgentScales | None = None
    """The agents' push-sum weights on a directed graph; None if all are 1."""

    def without_messages(self) -> MemoryNetwork:
        """The same agents without messages: L = 0 and W = I."""
        return replace(self, local=True)

    def begin(self, k: int) -> None:
        """Start iteration k: use the matrices of its round."""
        if self.matrices.varies and not self.local:
            chosen = self.matrices(self.rounds_before(k))
            self.laplacian_matrix.select(chosen.laplacian)
            self.disagreement_matrix.select(chosen.disagreement)
        if self.scales is not None:
            self.scales.select(self.rounds_before(k), self.local)

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        """L·a."""
        return torch.zeros_like(a) if self.local else self.laplacian_matrix @ self._neighbour_rows(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        """(I−W)·a."""
        return torch.zeros_like(a) if self.local else self.disagreement_matrix @ self._neighbour_rows(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        """W·a."""
        return a - self.disagreement(a)

    def debias(self, a: torch.Tensor) -> torch.Tensor:
        """a/w."""
        return a if self.scales is None else self.scales.debias * a

    def bias(self, a: torch.Tensor) -> torch.Tensor:
        """w⁺·a."""
        return a if self.scales is None else self.scales.bias * a

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
    """The rows that are exchanged in any round."""
    routes: PerRound[Routes] = field(kw_only=True)
    """The rows that are exchanged in a round."""
    others: ExchangePlan = field(kw_only=True)
    """The plan for the mean, which needs the rows of all agents."""
    traffic: Traffic = field(kw_only=True)
    """Counts what is sent here."""
    transport: Literal["auto", "staged", "batched"] = field(default="auto", kw_only=True)
    """How rows travel: as the device and the backend ask for, or, for tests, as devices do on the CPU."""

    def __post_init__(self) -> None:
        self._made: list[Exchange] = []
        self._eager: dict[bool, list[Exchange]] = {False: [], True: []}
        self._done: dict[tuple[int, bool], tuple[torch.Tensor, torch.Tensor]] = {}
        self._k = 0

    def exchange(self, like: torch.Tensor, all_agents: bool, number: int = 0) -> Exchange:
        """Create an exchange for rows like these, with all agents or with neighbours.

        Args:
            like: rows of the agents hosted here.
            all_agents: whether all agents need them, or only neighbours.
            number: which of the step's messages it is.
        """
        make: MakeExchange = partial(self._base, all_agents, like.device)
        if all_agents:
            return make(like.shape[1], like.dtype)
        for filtered in self.filters:
            make = partial(_filtered, filtered, make, like, number)
        return make(like.shape[1], like.dtype)

    def _base(self, all_agents: bool, device: torch.device, columns: int, dtype: torch.dtype) -> Exchange:
        """An exchange that neighbours read as it is sent."""
        plan = self.others if all_agents else self.neighbours
        rounded = self.rounded and not all_agents and dtype.is_floating_point
        tag, device_group = self.group.tag(), self.group.device_group
        arguments = plan, columns, dtype, tag, torch.bfloat16 if rounded else None, self.traffic
        on_device = device.type != "cpu"
        if self.transport == "batched" or (on_device and device_group is not None):
            group = device_group or self.group.p2p.torch_group
            made: Exchange = BatchedExchange(*arguments, None, group, device, DirectBuffers)
        else:
            channel = StagedChannel if on_device or self.transport == "staged" else GlooChannel
            make = partial(Exchange, *arguments, torch_group=self.group.p2p.torch_group, device=device, channel=channel)
            made = self._in_shared_memory(make, tag) or make()
        if not all_agents:
            self._made.append(made)
            made.select(self.routes(self.rounds_before(self._k)))
        return made

    def _in_shared_memory(self, make: Callable[..., Exchange], tag: int) -> Exchange | None:
        """The exchange in shared memory, if all processes can have it."""
        shared_memory = self.group.shared_memory(tag) if self.transport == "auto" else None
        if not shared_memory:
            return None
        shared: Exchange | None = None
        with suppress(OSError):  # not enough memory, which all processes must learn
            shared = make(shared_memory=shared_memory)
        return shared if self.group.all_true(shared is not None) else None

    def begin(self, k: int) -> None:
        """Start iteration k: its messages are those of the previous one, with new rows, to the peers of its round."""
        super().begin(k)
        self._k = k
        self._done.clear()
        if self.routes.varies and not self.local:
            routes = self.routes(self.rounds_before(k))
            for exchange in self._made:
                exchange.select(routes)

    def prepare(self, like: torch.Tensor, messages: int) -> list[Exchange]:
        """Create the exchanges that L·a and W·a of an iteration use, before the first iteration."""
        made = self._eager[False]
        made += [self.exchange(like, False, number) for number in range(len(made), messages)]
        return made

    def _neighbour_rows(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(super()._neighbour_rows(a), a, False)

    def _all(self, a: torch.Tensor) -> torch.Tensor:
        return self._exchanged(a, a, True)

    def _exchanged(self, sent: torch.Tensor, a: torch.Tensor, all_agents: bool) -> torch.Tensor:
        """The rows of a and the rows received; nothing is sent twice in one iteration."""
        if (id(a), all_agents) not in self._done:
            exchange = self._next(a, all_agents)
            exchange.outgoing.copy_(sent)
            exchange.start(self._k)
            exchange.wait()
            self._done[id(a), all_agents] = a, exchange.rows  # a is kept alive, so that its id stays unique
        return self._done[id(a), all_agents][1]

    def _next(self, a: torch.Tensor, all_agents: bool) -> Exchange:
        """The exchange of this iteration's next message."""
        made, number = self._eager[all_agents], sum(kind is all_agents for _, kind in self._done)
        if number == len(made):
            made.append(self.exchange(a, all_agents, number))
        return made[number]


def _filtered(
    message_filter: MessageFilter,
    make: MakeExchange,
    like: torch.Tensor,
    number: int,
    columns: int,
    dtype: torch.dtype,
) -> Exchange:
    return message_filter.exchange(make, like, number)


def _neighbour_plan(placement: Placement, process: int, pairs: NDArray[Any]) -> ExchangePlan:
    return neighbour_plan(placement, process, map(tuple, pairs.tolist()))


def make_network(
    weights: Rounds,
    dtype: torch.dtype,
    device: torch.device,
    message_dtype: str = "same",
    group: ProcessGroup | None = None,
    placement: Placement | None = None,
    traffic: Traffic | None = None,
    rounds_before: Callable[[int], int] = int,
    filters: Sequence[MessageFilter] = (),
    consensus_step: float = 1.0,
    pairs: PairRows | None = None,
) -> MemoryNetwork:
    """The network for tensors of this dtype and device: of all agents, or of this process's block.

    Args:
        weights: L and W of every round.
        dtype: of the tensors.
        device: of the tensors.
        message_dtype: "same" or "bf16".
        group: the processes that share the agents; None for one process.
        placement: which process hosts which agents, by default equally many each.
        traffic: counts what is sent, by default the group's.
        rounds_before: the number of exchanges before an iteration, by default one in each.
        filters: what happens to messages on their way, the innermost first.
        consensus_step: c, by which L and I−W are multiplied.
        pairs: where the rows of pairs of agents are, if a filter makes one for each pair; by default one per agent.
    """
    n, single = weights.n, group is None or group.size == 1
    group = ProcessGroup.single() if group is None else group
    placement = placement or Placement(n, group.size)
    plan_of = partial(_neighbour_plan, placement, group.rank) if pairs is None else pairs.exchange_plan
    plan = plan_of(weights.pairs) if filters or not single else None

    made = matrices_per_round(weights, consensus_step, dtype, device, plan, pairs)
    common = CurrentMatrix(made(0).laplacian), CurrentMatrix(made(0).disagreement)
    own = placement.block(group.rank)
    pushed = weights.at(0).push_sum is not None
    scales = AgentScales(weights, dtype, device, own) if pushed else None
    rounded = message_dtype == "bf16"
    if plan is None:
        return MemoryNetwork(*common, AllAgents(n), made, rounds_before, rounded, scales=scales)

    def routes(r: int) -> Routes:
        return plan.routes(plan_of(weights.at(r).pairs))

    return BlockNetwork(
        *common,
        AllAgents(n, own.start),
        made,
        rounds_before,
        rounded,
        filters=filters,
        scales=scales,
        group=group,
        neighbours=plan,
        routes=per_round(routes, weights),
        others=all_agents_plan(placement, group.rank),
        traffic=traffic or group.traffic,
    )
