"""What an optimizer exchanges with a `torch.amp.GradScaler`."""

from __future__ import annotations

from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, OptState


def unscaled(optimizer: torch.optim.Optimizer, scaler: GradScaler) -> list[torch.Tensor]:
    """Unscale the gradients, unless the user has, and return the scaler's flags: positive where one is not finite.

    The scaler reads the flags again in its `update`, so writing to them changes what it does.
    """
    if scaler._per_optimizer_states[id(optimizer)]["stage"] is OptState.READY:
        scaler.unscale_(optimizer)
    flags: dict[Any, torch.Tensor] = scaler._found_inf_per_device(optimizer)
    if not flags:  # this process has no gradients
        flags[torch.device("cpu")] = torch.zeros(())
    return list(flags.values())
