"""A method's state: x and its memory, one row per agent."""

from __future__ import annotations

from collections.abc import Mapping

import torch

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Start
from peerdescent.errors import InputError

State = dict[str, torch.Tensor]


def memory_of(algorithm: Algorithm) -> Mapping[str, Start]:
    """The method's memory, checked: its author may have written anything."""
    memory = algorithm.memory()
    names = isinstance(memory, Mapping) and all(isinstance(name, str) and name != "x" for name in memory)
    if not names or not all(start in ("zero", "x") for start in memory.values()):
        raise InputError(
            f"the memory of {type(algorithm).__name__} is {described(memory)}: expected names with their start, "
            '"zero" or "x", such as {"v": "zero"}.'
        )
    return memory


def initial_state(algorithm: Algorithm, x: torch.Tensor) -> State:
    """The initial state: x and the method's memory."""
    x = x.mean(dim=0, keepdim=True).expand_as(x) if algorithm.common_start else x
    x = x.clone(memory_format=torch.contiguous_format)  # kernels expect contiguous rows, whatever the caller's layout
    extra = {
        name: torch.zeros_like(x) if start == "zero" else x.clone() for name, start in memory_of(algorithm).items()
    }
    return {"x": x, **extra}
