"""Calling a module with parameters and inputs of any structure."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.func import functional_call

from peerdescent.data.trees import Tree


def outputs_of(module: nn.Module, parameters: dict[str, torch.Tensor], inputs: Tree) -> Any:
    """Return module(inputs) for a tensor, module(*inputs) for a tuple or list, and module(**inputs) for a dict.

    Args:
        module: is not changed.
        parameters: those to use instead of its own, by name.
        inputs: a batch.

    >>> both = {"input1": torch.ones(2, 1), "input2": torch.ones(2, 1)}
    >>> outputs_of(nn.Bilinear(1, 1, 1), {"weight": torch.ones(1, 1, 1), "bias": torch.ones(1)}, both).flatten()
    tensor([2., 2.])
    """
    if isinstance(inputs, torch.Tensor):
        return functional_call(module, parameters, (inputs,))
    if isinstance(inputs, dict):
        return functional_call(module, parameters, (), inputs)
    return functional_call(module, parameters, tuple(inputs))
