"""A sweep that is killed goes on with what is missing, and its runs have the bits of undisturbed ones."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.commands import PATIENCE, Command, rows, until

FLAGS = ["-a", "d2", "-a", "d-sgd-1", "--problem", "logistic-nonconvex", "--graph", "ring:4", "--kernel", "plain"]
FLAGS += ["--iterations", "3000", "--eval-every", "100", "--set", "eta=.01,.1", "--seeds", "2"]


@pytest.mark.e2e
def test_a_killed_sweep_goes_on(process: Command, here: Path) -> None:
    command = [sys.executable, "-m", "peerdescent", "compare", *FLAGS, "--jobs", "2", "--out", "killed", "--quiet"]
    started = subprocess.Popen(command, cwd=here, start_new_session=True)
    until(lambda: started.poll() is not None or list(here.glob("killed/*/*/*/metrics.jsonl")))
    os.killpg(started.pid, signal.SIGKILL)
    started.wait(PATIENCE)
    assert len(list(here.glob("killed/**/summary.json"))) < 8
    resumed = process("compare", "killed", "--resume", "--jobs", "2", "--quiet")
    assert resumed.code == 0, resumed
    whole = process("compare", *FLAGS, "--jobs", "1", "--quiet", "--out", "whole")
    assert whole.code == 0, whole
    places = sorted(path.parent.relative_to(here / "whole") for path in here.glob("whole/**/metrics.jsonl"))
    assert len(places) == 8
    for place in places:
        assert rows(here / "killed" / place) == rows(here / "whole" / place)
    assert (here / "killed/figures/sweep.png").stat().st_size > 0
    page = process("report", "killed", "--out", "page.html")
    assert page.code == 0, page
