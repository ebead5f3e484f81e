"""A second device, "second", for tests: four of them, with memory of their own, built from `device.cpp`.

Torch refuses operations that mix its tensors with the CPU's, as it does for a GPU.
"""

from __future__ import annotations

import functools
import os
import shlex
import subprocess
import types
from pathlib import Path

import torch
from torch.utils import cpp_extension

NAME, DEVICES = "second", 4


def build(folder: Path) -> Path:
    """Compile the device, which takes half a minute; returns the library."""
    library, source = folder / "second_device.so", Path(__file__).with_name("device.cpp")
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    folders = [flag for path in cpp_extension.library_paths() for flag in (f"-L{path}", f"-Wl,-rpath,{path}")]
    command = [*shlex.split(os.environ.get("CXX", "c++")), "-std=c++20", "-O0", "-fPIC", "-shared", *includes]
    command += [str(source), "-o", str(library), *folders, "-ltorch_cpu", "-lc10", "-ltorch"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return library


@functools.cache
def register(library: Path) -> None:
    """Make the device known to torch in this process."""
    torch.ops.load_library(str(library))
    torch.utils.rename_privateuse1_backend(NAME)
    module = types.ModuleType(f"torch.{NAME}")
    module.__dict__.update(
        is_available=lambda: True,
        device_count=lambda: DEVICES,
        current_device=lambda: 0,
        synchronize=lambda device=None: None,
        set_device=lambda device: None,
        manual_seed_all=lambda seed: None,
        _is_in_bad_fork=lambda: False,
        # for other tests of this process, whose calls of torch ask every device
        get_amp_supported_dtype=lambda: [torch.float16, torch.bfloat16],
        get_rng_state=lambda device=None: torch.zeros(1, dtype=torch.uint8),
        set_rng_state=lambda state, device=None: None,
    )
    torch._register_device_module(NAME, module)
