"""Environments of other libraries, which need other versions than we do."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

DECENT_BENCH = "decent-bench==0.3.*"


def decent_bench_python() -> Path | str:
    """A Python with decent-bench, installed if it is not there yet; a sentence if that is impossible."""
    import torch

    from peerdescent._util.cache import cache_folder

    folder = cache_folder() / "peers" / "decent-bench"
    python = folder / "bin" / "python"
    if python.exists() and not subprocess.run([python, "-c", "import decent_bench, torch"], check=False).returncode:
        return python
    pyenv = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob("versions/3.13*/bin/python"))
    base = next(iter(pyenv), None) or shutil.which("python3.13")
    if base is None:
        return "decent-bench needs Python 3.13, which is not installed."
    made = subprocess.run([base, "-m", "venv", "--clear", folder], check=False).returncode == 0
    install = [python, "-m", "pip", "install", "--quiet", DECENT_BENCH, f"torch=={torch.__version__.partition('+')[0]}"]
    if not made or subprocess.run(install, check=False).returncode:
        return f"{DECENT_BENCH} cannot be installed here."
    return python
