"""The network of a run as its settings ask for it: weights, compression, what goes wrong, and when agents talk."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import torch

from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.mixing.network import MemoryNetwork, make_network
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.sequence_weights import Weights
from peerdescent.training.compression import compression_of, slots_of
from peerdescent.training.impaired import impair
from peerdescent.training.plan import Plan


@dataclass(frozen=True)
class RunNetwork:
    """What the agents of a run talk over.

    Args:
        network: L·a, W·a and the mean, for the agents hosted here.
        rounds: L, W and the messages of every round, without those that are lost.
        notes: what was chosen or changed, in sentences.
    """

    network: MemoryNetwork
    rounds: Rounds
    notes: tuple[str, ...]


def network_of(
    plan: Plan, weights: Weights, x: torch.Tensor, lost: Collection[int], group: ProcessGroup, placement: Placement
) -> RunNetwork:
    """The network for the agents hosted here, whose rows are like x; `lost` are agents that are no longer there."""
    settings, compression = plan.settings, compression_of(plan.algorithm, weights, plan.settings)
    rounds_before = settings.periods.rounds_before
    rounds, impairments = impair(weights, settings, lost, rounds_before)
    slots = slots_of(plan.graph, settings, [agent for agent in range(plan.graph.n) if agent not in lost])
    filters, pairs = compression.on(rounds, rounds_before, placement, group.rank, slots)
    network = make_network(
        rounds,
        x.dtype,
        x.device,
        settings.message_dtype,
        group,
        placement,
        rounds_before=rounds_before,
        filters=[*filters, *impairments],
        consensus_step=compression.step,
        pairs=pairs,
    )
    return RunNetwork(network, rounds, (*weights.notes, *compression.notes))
