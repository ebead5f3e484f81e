"""Thousands of random commands, files, run folders and calls: none may crash, hang, lie or leave anything behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
LONGEST = 3 * 3600
"""Seconds after which the fuzzer itself is taken to hang; each case has a limit of its own."""


@pytest.mark.e2e
@pytest.mark.skipif(sys.platform != "linux", reason="cases are forked, limited and looked for in /proc")
def test_random_input_ends_with_a_sentence_or_the_right_result() -> None:
    """PEERDESCENT_FUZZ_SEED and PEERDESCENT_FUZZ_CASES choose other cases; the report says how to repeat one."""
    command = [sys.executable, "-m", "tests.support.fuzz"]
    done = subprocess.run(
        command, cwd=ROOT, env=dict(os.environ), capture_output=True, text=True, check=False, timeout=LONGEST
    )
    print(done.stdout)  # the seed, also of a run that found nothing
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
