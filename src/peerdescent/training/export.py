"""A trained model as a safetensors file: tensors by the names of the module's state, or x as one vector."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from safetensors.torch import save
from torch import nn

from peerdescent._util.files import FULL_DISK, write_atomically
from peerdescent._util.validation import check_integer, described
from peerdescent._version import __version__
from peerdescent.errors import InputError

SUFFIX = ".safetensors"
VECTOR = "x"
"""The name of the only tensor of a model that has no module."""


def row_of_agent(agent: int, left: int, lost: tuple[int, ...] = ()) -> int:
    """Where an agent, by its number at the start of the run, is among those that are left.

    >>> row_of_agent(2, left=2, lost=(1,))
    1
    """
    if check_integer("agent", agent, 0, left + len(lost)) in lost:
        raise InputError(f"agent = {agent}: it was lost, as were {len(lost)} in all; its model is not known.")
    return agent - sum(other < agent for other in lost)


def tensors_of(module: nn.Module | None, point: torch.Tensor) -> dict[str, torch.Tensor]:
    """The state of a module by name; without a module, the vector itself."""
    found = {VECTOR: point} if module is None else module.state_dict()
    # clones: safetensors refuses tensors that share memory, such as tied weights
    return {name: tensor.detach().cpu().clone().contiguous() for name, tensor in found.items()}


def check_target(path: str | os.PathLike[str], overwrite: bool) -> Path:
    """The file to write; a name that promises another format, a folder, and an existing file are refused."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"path is {described(path)}: expected the name of a file that ends in {SUFFIX}.")
    file = Path(path)
    if file.suffix != SUFFIX or "\0" in str(file):
        raise InputError(f"{file}: the model is written in the format safetensors; end the name in {SUFFIX}.")
    if os.path.isdir(file):
        raise InputError(f"{file} is a folder: name the file to write.")
    if os.path.lexists(file) and not overwrite:
        raise InputError(f"{file} exists: choose another name, or say --overwrite (in Python, overwrite=True).")
    return file


def write_tensors(tensors: dict[str, torch.Tensor], file: Path, **facts: str) -> None:
    """Write a safetensors file, whole or not at all; `facts` are kept in its header."""
    content = save(tensors, {"format": "pt", "peerdescent": __version__, **facts})
    try:
        write_atomically(file, content)
    except OSError as error:
        if error.errno in FULL_DISK:
            raise
        raise InputError(f"cannot write {file}: {error.strerror or error}.") from error
