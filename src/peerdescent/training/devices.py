"""The device of each process of a run, and when a device has caught up."""

from __future__ import annotations

import os

import torch

from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.torchrun import under_torchrun


def process_device(device: torch.device, group: ProcessGroup) -> torch.device:
    """The device of this process: several processes take the devices of a machine in turn, unless one is numbered.

    >>> process_device(torch.device("cpu"), ProcessGroup.single())
    device(type='cpu')
    """
    if group.size == 1 or device.type == "cpu":
        return device
    module = torch.get_device_module(device)
    if device.index is None:
        device = torch.device(device.type, local_rank(group) % max(1, module.device_count()))
    if hasattr(module, "set_device"):  # pinned memory and streams belong to the current device
        module.set_device(device)
    return device


def local_rank(group: ProcessGroup) -> int:
    """The number of this process among those on its host."""
    if under_torchrun() and "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    return group.hosts[: group.rank].count(group.hosts[group.rank])


def synchronize(device: torch.device) -> None:
    """Return when the device has done what it was given: its time counts, not that of the calls."""
    if device.type != "cpu" and hasattr(module := torch.get_device_module(device), "synchronize"):
        module.synchronize(*([] if device.type == "mps" else [device]))  # there is one of it


def in_double(a: torch.Tensor) -> torch.Tensor:
    """The tensor in double precision, on the CPU if its device has none."""
    return (a.cpu() if a.device.type == "mps" else a).double()
