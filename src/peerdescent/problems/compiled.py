"""The gradients of all agents as one compiled function: vmap over the agents, recorded, then TorchInductor."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from peerdescent._util.cache import private_cache
from peerdescent._util.owned_folders import OwnedFolder
from peerdescent.errors import InputError
from peerdescent.problems.model_checks import in_brief
from peerdescent.problems.recorded import Gradient, record

FOLDER = "TORCHINDUCTOR_CACHE_DIR"
TOLERANCE = {torch.float32: 1e-3, torch.float64: 1e-9}
"""The largest error of a compiled gradient, relative to the largest entry: far above rounding, far below a bug."""


def compile_gradient(function: Gradient, tensors: Sequence[torch.Tensor]) -> Gradient:
    """Return the function compiled for tensors of these shapes; its results differ by rounding.

    Compiling takes 5 to 30 seconds. The machine code stays in the cache folder; only the rest, a few seconds, is
    repeated in later processes.

    Raises:
        InputError: it cannot be compiled here.
    """
    try:
        with torch.no_grad():
            recorded = record(function, tensors)
            with _settings():
                compiled = _compile(recorded, tensors)
                found = compiled(*tensors)
            _check(found, recorded(*tensors))
    except Exception as error:  # compilers fail in many ways
        raise InputError(
            f"gradients = 'compiled' is not available here: {type(error).__name__}: {in_brief(error)}; "
            "use gradients=auto."
        ) from error
    return compiled


def _compile(recorded: torch.fx.GraphModule, tensors: Sequence[torch.Tensor]) -> Gradient:
    from torch import _inductor

    # Not torch.compile: there is no Python code left to guard, and its guards take longer than a small gradient.
    compiled: Any = _inductor.compile(recorded, list(tensors))
    return compiled  # type: ignore[no-any-return]


@contextmanager
def _settings() -> Iterator[None]:
    """No pickled graphs, no worker processes that stay, and machine code in a folder that only this user can change."""
    from torch._inductor import config

    before = os.environ.get(FOLDER)
    os.environ[FOLDER] = _folder(before)
    wanted = {"compile_threads": 1, "fx_graph_cache": False, "cpp_cache_precompile_headers": False}
    try:
        with config.patch({name: value for name, value in wanted.items() if hasattr(config, name)}):
            yield
    finally:
        if before is None:
            del os.environ[FOLDER]
        else:
            os.environ[FOLDER] = before


def _folder(given: str | None) -> str:
    """The user's choice, or a private folder: torch's own is in the system's folder for temporary files.

    >>> _folder("/scratch/inductor")
    '/scratch/inductor'
    """
    default = os.path.join(tempfile.gettempdir(), "torchinductor_")
    if given is not None and not given.startswith(default):  # torch writes its own folder there when it is loaded
        return given
    try:
        return str(private_cache("inductor"))
    except OSError:
        return str(_temporary_folder().path)


@functools.cache
def _temporary_folder() -> OwnedFolder:
    """A folder of this process, where the cache cannot be used."""
    return OwnedFolder(Path(tempfile.gettempdir()), "inductor")


def _check(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    """Refuse a compiled function that computes something else."""
    for a, b in zip(found, expected, strict=True):
        limit = TOLERANCE[b.dtype] * float(b.abs().max().nan_to_num(0.0, 0.0, 0.0)) + 1e-30
        if a.shape != b.shape or not torch.allclose(a, b, rtol=0.0, atol=limit, equal_nan=True):
            raise ValueError("the compiled gradient differs from the original by more than rounding")
