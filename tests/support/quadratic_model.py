"""A model with a known gradient on any device, and its training loop."""

from __future__ import annotations

import torch
from torch import nn

COLUMNS = 4


class Model(nn.Module):
    """½‖a − c‖² + ½‖b − c‖² with another c in each process; d does not require a gradient."""

    def __init__(self, rank: int, device: str = "cpu") -> None:
        super().__init__()
        self.a = nn.Parameter(torch.full((COLUMNS,), rank + 1.0, device=device))
        self.b = nn.Parameter(torch.full((2, 2), rank - 1.0, device=device))
        self.d = nn.Parameter(torch.full((3,), float(rank), device=device), requires_grad=False)
        self.register_buffer("mean", torch.full((2,), float(rank), device=device))
        self.register_buffer("c", (torch.arange(COLUMNS) * (rank + 1.0) - rank).to(device))

    def loss(self) -> torch.Tensor:
        return 0.5 * ((self.a - self.c).square().sum() + (self.b.flatten() - self.c).square().sum())

    def values(self) -> list[float]:
        return torch.cat([self.a.detach(), self.b.detach().flatten(), self.d, self.mean]).tolist()


def steps(model: Model, opt: torch.optim.Optimizer, count: int) -> None:
    for _ in range(count):
        opt.zero_grad()
        model.loss().backward()
        opt.step()
