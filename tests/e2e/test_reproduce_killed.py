"""Killing a reproduction at random moments and starting it again changes nothing in its tables."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

KILLS = 10
COMMAND = [sys.executable, "-m", "peerdescent", "reproduce", "nn", "--seeds", "1", "--budget", "0.02", "--quiet"]


def start(out: Path, **variables: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([*COMMAND, "--out", str(out)], env={**os.environ, **variables}, start_new_session=True)


def tables(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((out / "tables").iterdir())}


@pytest.mark.e2e
def test_ten_kills_leave_the_same_tables(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    begin = time.monotonic()
    assert start(undisturbed).wait() == 0
    whole = time.monotonic() - begin
    moments = random.Random(7)
    struck = 0
    while struck < KILLS:
        process = start(killed, PEERDESCENT_CHECKPOINT_SECONDS="0.2")
        time.sleep(moments.uniform(0.1, 0.6) * whole)
        if process.poll() is None:
            struck += 1
            os.kill(process.pid, signal.SIGKILL)  # its workers must die with it
            process.wait()
        elif struck < KILLS:  # it finished before the blow: start over, so that every blow meets a running one
            assert process.returncode == 0
            assert tables(killed) == tables(undisturbed)
            killed = tmp_path / f"killed-{struck}"
    assert start(killed).wait() == 0
    assert tables(killed) == tables(undisturbed)
    assert len(tables(killed)) == 6  # two tables in three formats
