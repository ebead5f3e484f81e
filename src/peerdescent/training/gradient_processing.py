"""What happens to every agent's gradient before its method receives it: noise, clipping, coupled weight decay."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from peerdescent.problems import Oracle
from peerdescent.training.gradient_noise import noisy
from peerdescent.training.settings import Settings

ROWS_AT_ONCE = 64
"""Rows whose squares are in memory together."""


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


def row_norms(g: torch.Tensor) -> torch.Tensor:
    """‖g_i‖ of every row in double precision.

    Entries are added pairwise in a fixed order, so that the result is the same bits however many rows and threads
    there are: several processes give the same trajectory as one. Dividing by the largest entry avoids overflow.
    """
    return torch.cat([_row_norms(rows) for rows in torch.split(g, ROWS_AT_ONCE)])


def _row_norms(g: torch.Tensor) -> torch.Tensor:
    largest = g.abs().amax(dim=1).double()
    squares = (g.double() / torch.where(largest > 0, largest, 1.0)[:, None]).square()
    while (width := squares.shape[1]) > 1:
        half = width // 2
        rest = squares[:, 2 * half :]
        squares = torch.cat([squares[:, :half] + squares[:, half : 2 * half], rest], dim=1)
    return largest * squares[:, 0].sqrt()
