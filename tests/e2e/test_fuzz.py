"""Thousands of random commands, files, run folders and calls: none may crash, hang, lie or leave anything behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
SEED = "0"
"""The same cases in every run, so that a change is blamed for what it breaks, and for nothing else."""
CASES = 2000
SECONDS_PER_CASE = 40
"""More than any case may take: only if the fuzzer itself hangs does it take longer."""


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="cases are forked, limited and looked for in /proc")
def test_random_input_ends_with_a_sentence_or_the_right_result(capfd: pytest.CaptureFixture[str]) -> None:
    """PEERDESCENT_FUZZ_SEED and PEERDESCENT_FUZZ_CASES choose other cases; the report says how to repeat one."""
    seed = os.environ.get("PEERDESCENT_FUZZ_SEED") or SEED
    cases = int(os.environ.get("PEERDESCENT_FUZZ_CASES") or CASES)
    with capfd.disabled():
        print(f"\nPEERDESCENT_FUZZ_SEED={seed} PEERDESCENT_FUZZ_CASES={cases}", file=sys.stderr, flush=True)
    command = [sys.executable, "-m", "tests.support.fuzz", "--seed", seed, "--cases", str(cases)]
    most = 600 + SECONDS_PER_CASE * cases
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=most)
    if done.returncode != 0:
        pytest.fail(f"{done.stdout}\n{done.stderr}", pytrace=False)
