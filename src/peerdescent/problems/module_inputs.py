"""How a module is called with inputs of any structure."""

from __future__ import annotations

from typing import Any

import torch

from peerdescent.data.trees import Tree


def arguments(inputs: Tree) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments for module(inputs), module(*inputs) of a tuple or list, or module(**inputs) of a dict.

    >>> arguments({"mask": torch.ones(1)})
    ((), {'mask': tensor([1.])})
    """
    if isinstance(inputs, torch.Tensor):
        return (inputs,), {}
    if isinstance(inputs, dict):
        return (), inputs
    return tuple(inputs), {}
