"""What happens to every agent's gradient before its method receives it: noise, clipping, coupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from peerdescent._util.row_norms import row_norms
from peerdescent.problems import Oracle
from peerdescent.training.gradient_noise import noisy
from peerdescent.training.settings import Settings


def processed(oracle: Oracle, settings: Settings, agents: Sequence[int]) -> Oracle:
    """The gradients g_i of an oracle at the points y_i as settings ask for them, for agents with these numbers:

    g_i ← g_i + noise             with gradient_noise
    g_i ← g_i · min(1, c/‖g_i‖)   with clip_norm = c
    g_i ← g_i + λ y_i             with weight_decay = λ, coupled: the gradient of f_i + (λ/2)‖x‖², but for the clipping
    """
    oracle = noisy(oracle, settings.gradient_noise, settings.seed, agents)
    limit, decay = settings.clip_norm, settings.weight_decay if settings.decay != "decoupled" else None
    if limit is None and not decay:
        return oracle

    def gradient(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        oracle(points, k, out)
        if limit is not None:
            clip_norms(out, limit)
        if decay:
            out.add_(points, alpha=decay)

    return gradient


def clip_norms(g: torch.Tensor, limit: float) -> None:
    """Scale every row that is longer than `limit` to that length, in place; a row that is not finite becomes NaN.

    >>> g = torch.tensor([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]])
    >>> clip_norms(g, 1.0)
    >>> g
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000],
            [0.0000, 0.0000]])
    """
    scale = limit / row_norms(g)
    g.mul_(torch.where(scale > 1, 1.0, scale).to(g.dtype)[:, None])  # NaN stays NaN
