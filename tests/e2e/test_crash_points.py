"""A run is killed at every single call that changes files, and goes on as if nothing had happened."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PATIENCE = 3600
"""Seconds after which something is taken to hang."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="open files are looked up in /proc"),
]


def crash(*arguments: object) -> str:
    command = [sys.executable, "-m", *map(str, arguments)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_killed_at_every_call(tmp_path: Path) -> None:
    said = crash("tests.support.crash_points", tmp_path, 1, 0)
    assert int(said.split()[0]) > 300


def test_one_of_two_processes_is_killed_while_they_save_in_parts(tmp_path: Path) -> None:
    assert crash("tests.support.crash_parts", tmp_path, 12) == "12 crashes\n"
