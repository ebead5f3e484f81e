"""Calling a module with inputs of any structure, and with parameters and buffers that are not its own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import nn
from torch.func import functional_call

from peerdescent.data.trees import Tree

T = TypeVar("T")


def call(module: nn.Module, inputs: Tree) -> Any:
    """Return module(inputs) for a tensor, module(*inputs) for a tuple or list, and module(**inputs) for a dict.

    >>> call(nn.PairwiseDistance(), {"x1": torch.zeros(1, 1), "x2": torch.ones(1, 1)}).round()
    tensor([1.])
    """
    if isinstance(inputs, torch.Tensor):
        return module(inputs)
    return module(**inputs) if isinstance(inputs, dict) else module(*inputs)


class _Around(nn.Module):
    """Does something with a module, as a call that functional_call can make."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, work: Callable[[nn.Module], T]) -> T:
        return work(self.module)


def call_with(module: nn.Module, tensors: dict[str, torch.Tensor], work: Callable[[nn.Module], T]) -> T:
    """Return work(module), with these tensors as its parameters and buffers of those names meanwhile.

    `work` computes gradients too: a module that recomputes activations in the backward pass
    (`torch.utils.checkpoint`) needs the same parameters there. Afterwards `tensors` has what the module assigned to
    those names.

    >>> linear, weight = nn.Linear(1, 1, bias=False), torch.tensor([[3.0]])
    >>> call_with(linear, {"weight": weight}, lambda module: module(torch.ones(1)))
    tensor([3.])
    """
    given = {f"module.{name}": tensor for name, tensor in tensors.items()}
    result: T = functional_call(_Around(module), given, (work,))
    for name in tensors:
        tensors[name] = given[f"module.{name}"]
    return result
