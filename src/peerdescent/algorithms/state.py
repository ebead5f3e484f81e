"""A method's state: x and the arrays it keeps besides, one row per agent."""

from __future__ import annotations

import torch

from peerdescent.algorithms.base import Algorithm

State = dict[str, torch.Tensor]


def initial_state(algorithm: Algorithm, x: torch.Tensor) -> State:
    """x and what the method remembers, at the start."""
    x = x.mean(dim=0, keepdim=True).expand_as(x) if algorithm.common_start else x
    x = x.clone(memory_format=torch.contiguous_format)  # kernels go by rows, whatever the caller's layout
    extra = {name: torch.zeros_like(x) if start == "zero" else x.clone() for name, start in algorithm.memory().items()}
    return {"x": x, **extra}
