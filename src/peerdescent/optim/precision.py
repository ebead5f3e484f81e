"""Parameters in half precision: the method's state is in single precision, and the parameters are its rounding."""

from __future__ import annotations

from typing import Any

import torch


def state_dtype(dtype: torch.dtype) -> torch.dtype:
    """The precision of a method's state for parameters of a dtype: at least single.

    >>> state_dtype(torch.bfloat16), state_dtype(torch.float64)
    (torch.float32, torch.float64)
    """
    return torch.float32 if dtype in (torch.bfloat16, torch.float16) else dtype


def restore_precision(optimizer: torch.optim.Optimizer, state_dict: dict[str, Any]) -> None:
    """After torch's `load_state_dict`, which rounds states to the dtype of their parameters: take them as saved."""
    for group, saved in zip(optimizer.param_groups, state_dict["param_groups"], strict=True):
        for parameter, number in zip(group["params"], saved["params"], strict=True):
            for name, value in state_dict["state"].get(number, {}).items():
                if isinstance(value, torch.Tensor) and value.dtype != optimizer.state[parameter][name].dtype:
                    optimizer.state[parameter][name] = value.to(parameter.device)
