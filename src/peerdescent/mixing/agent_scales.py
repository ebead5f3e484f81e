"""The push-sum weights of the agents hosted here, as tensors at one address, for every iteration."""

from __future__ import annotations

import torch

from peerdescent.mixing.rounds import PerRound, Rounds, per_round

Weights = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""1/w and w before a round, and w after it, one row per agent."""


class AgentScales:
    """1/w of the current round and w after it, each with one row per agent hosted here.

    Args:
        weights: of every round.
        dtype: of the tensors.
        device: of the tensors.
        own: the agents hosted here.
    """

    def __init__(self, weights: Rounds, dtype: torch.dtype, device: torch.device, own: range) -> None:
        def of_round(r: int) -> Weights:
            given = weights.at(r).push_sum
            assert given is not None
            before, after = (torch.from_numpy(w[own.start : own.stop]).double()[:, None] for w in given)
            return (1 / before).to(device, dtype), before.to(device, dtype), after.to(device, dtype)

        self._rounds: PerRound[Weights] = per_round(of_round, weights)
        self.debias, _, after = (w.clone() for w in self._rounds(0))
        """1/w, by which x is multiplied to give z."""
        self.bias = after
        """w after the round, by which z is multiplied to give x."""

    def select(self, round: int, local: bool) -> None:
        """Use the weights of a round; without messages they stay what they were before it."""
        inverse, before, after = self._rounds(round)
        self.debias.copy_(inverse)
        self.bias.copy_(before if local else after)
