"""A method's state: x and its memory, one row per agent."""

from __future__ import annotations

import torch

from peerdescent.algorithms.base import Algorithm

State = dict[str, torch.Tensor]


def initial_state(algorithm: Algorithm, x: torch.Tensor) -> State:
    """The initial state: x and the method's memory."""
    x = x.mean(dim=0, keepdim=True).expand_as(x) if algorithm.common_start else x
    x = x.clone(memory_format=torch.contiguous_format)  # kernels expect contiguous rows, whatever the caller's layout
    extra = {name: torch.zeros_like(x) if start == "zero" else x.clone() for name, start in algorithm.memory().items()}
    return {"x": x, **extra}
