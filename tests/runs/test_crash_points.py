"""A run is killed at some of the calls that change files, others every time; tests/e2e takes all of them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import PATIENCE

ROOT = Path(__file__).parents[2]
STRIDE = 90


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are looked up in /proc")
def test_killed_at_some_calls(tmp_path: Path) -> None:
    offset = 0 if os.environ.get("CI") else random.randrange(STRIDE)
    command = [sys.executable, "-m", "tests.support.crash_points", str(tmp_path), str(STRIDE), str(offset)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("crashes\n")
