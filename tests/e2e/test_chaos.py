"""Processes killed at random moments, 160 in all: every run ends or resumes, and its folder is whole."""

from __future__ import annotations

import json
import os
import random
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tests.support import process_runs
from tests.support.commands import Command, rows

from peerdescent.distributed.worker_process import start_worker

KILLS, RESTARTS, LOSSES = 100, 20, 40
"""Kills of runs in one process, in runs that start their workers again, and in runs that go on without the lost."""
RESTARTS_OF_A_RUN, LOSSES_OF_A_RUN = 6, 8
PATIENCE = 900
"""Seconds after which a run is taken to hang."""
COMMAND = [sys.executable, "-m", "peerdescent"]
LONG = shlex.split(
    "run --problem quadratic --graph ring:6 --set problem.dimension=200 --set problem.noise=1 --batch-size 4 "
    "--iterations 4000 --eval-every 500 -a dsgpa-f-pb --no-per-agent"
)
MANY = shlex.split(
    "run --problem quadratic --graph complete:10 --set problem.dimension=50 --set problem.noise=1 --batch-size 4 "
    "--iterations 2500 --eval-every 50 -a d-sgt-1 --no-per-agent --workers 10 --on-loss continue"
)

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked for in /proc"),
]


def workers_of(command: int) -> list[int]:
    """The processes that a command has started to share its agents."""
    parents: dict[int, int] = {}
    servers: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            line = (status.parent / "cmdline").read_text()
        except OSError:  # it has just ended
            continue
        if state != "Z" and "forkserver" in line:
            parents[int(status.parent.name)] = int(parent)
            if int(parent) == command:
                servers.add(int(status.parent.name))
    return [worker for worker, parent in parents.items() if parent in servers]


def started(here: Path, *flags: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PEERDESCENT_CHECKPOINT_SECONDS": "0.1", "OMP_NUM_THREADS": "1"}
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, *flags], cwd=here, env=environment, text=True, **quiet)


def ended(running: subprocess.Popen[str]) -> str:
    """What a command said; it must end."""
    try:
        return running.communicate(timeout=PATIENCE)[1]
    except subprocess.TimeoutExpired:
        running.kill()
        pytest.fail("it hangs")


def whole(folder: Path) -> Iterator[dict[str, torch.Tensor]]:
    """Every checkpoint of a folder, all of whose parts can be read."""
    for path in sorted((folder / "checkpoints").glob("*/manifest.json")):
        parts = sorted(json.loads(path.read_text())["parts"], key=lambda part: part["first"])
        arrays = [load_file(path.parent / part["file"]) for part in parts]
        yield {name: torch.cat([part[name] for part in arrays]) for name in arrays[0]}


def struck(running: subprocess.Popen[str], out: Path, most: int, moments: random.Random, calm: float) -> int:
    """Kill workers of a running command at random moments; returns how many."""
    killed, end = 0, time.monotonic() + PATIENCE
    while killed < most and running.poll() is None and time.monotonic() < end:
        time.sleep(moments.uniform(0, 1))
        victims = workers_of(running.pid)
        if victims and (out / "metrics.jsonl").exists() and not (out / "summary.json").exists():
            os.kill(moments.choice(victims), signal.SIGKILL)
            killed += 1
            time.sleep(moments.uniform(0, calm))
    return killed


def test_a_run_in_one_process_resumes_bitwise(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each process is a fork of one that has imported everything: most kills hit the run and not the imports."""
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    moments, killed, finished, last_killed = random.Random(3), 0, 0, False
    undisturbed, seconds = process_runs.run_from_scratch(here / "undisturbed"), float(PATIENCE)
    while killed < KILLS or last_killed:
        out = here / f"run-{finished}"
        begin = time.monotonic()
        running = start_worker(process_runs.run_from_scratch, out)
        spared = finished < 2 or killed == KILLS  # the first starts the fork server, the second is timed
        running.join(PATIENCE if spared else moments.uniform(0, seconds))
        last_killed = running.is_alive()
        if last_killed:
            assert not spared, "it hangs"
            running.kill()
            running.join()
            killed += 1
            continue
        assert running.exitcode == 0
        finished += 1
        seconds = time.monotonic() - begin if finished <= 2 else seconds
        assert rows(out) == rows(here / "undisturbed")
        (*_, last) = sorted((out / "checkpoints").iterdir())
        assert torch.equal(load_file(last)["x"], undisturbed.x)
        assert not list(out.rglob("*.part"))
    print(f"{killed} runs killed, {finished} finished, each bitwise the undisturbed one")
    assert killed >= KILLS
    assert finished > 2


def test_restarts_give_the_undisturbed_result(here: Path) -> None:
    moments, killed, restarts, runs = random.Random(1), 0, 0, 0
    for count in ("2", "3"):
        assert started(here, *LONG, "--workers", count, "--out", f"undisturbed-{count}").wait(PATIENCE) == 0
    while killed < RESTARTS:
        out, count, runs = here / f"run-{runs}", str(2 + runs % 2), runs + 1
        undisturbed = here / f"undisturbed-{count}"
        running = started(here, *LONG, "--workers", count, "--out", out.name, "--on-loss", "restart")
        now = struck(running, out, RESTARTS_OF_A_RUN, moments, calm=3)  # from before the next have started to well into
        said, killed = ended(running), killed + now
        assert running.returncode == 0, said
        assert runs < 100, "hardly any worker was found to kill"
        restarts += len(re.findall(r"; restart \d+ of", said))
        assert "Traceback" not in said
        assert rows(out) == rows(undisturbed)
        (*_, state), (*_, last) = whole(out), whole(undisturbed)
        assert all(torch.equal(state[name], last[name]) for name in last)
        assert json.loads((out / "summary.json").read_text())["diverged"] is False
    print(f"{killed} workers killed, {restarts} restarts in {runs} runs")
    assert killed >= RESTARTS
    assert RESTARTS / 2 < restarts <= killed  # two that are struck at the same time make for one restart


def test_those_who_are_left_go_on(process: Command, here: Path) -> None:
    moments, killed, runs = random.Random(2), 0, 0
    while killed < LOSSES:
        out, runs = here / f"run-{runs}", runs + 1
        running = started(here, *MANY, "--out", out.name)
        now = struck(running, out, LOSSES_OF_A_RUN, moments, calm=0.5)
        said, killed = ended(running), killed + now
        assert running.returncode == 0, said
        assert runs < 100, "hardly any worker was found to kill"
        assert "Traceback" not in said
        summary = json.loads((out / "summary.json").read_text())
        assert (summary["iteration"], summary["diverged"]) == (2500, False)
        named = {int(rank) for note in summary["notes"] for rank in re.findall(r"\(process (\d+)\)", note)}
        assert now - 1 <= len(named) <= now  # one that was struck after the end is not missed, and no other is
        assert not any("invariant" in note for note in summary["notes"])
        assert [row["iteration"] for row in rows(out)] == list(range(0, 2501, 50))
        assert all(torch.isfinite(state["x"]).all() for state in whole(out))
    print(f"{killed} workers killed in {runs} runs that went on without them")
    assert killed >= LOSSES
    longer = process(*MANY, "--out", out.name, "--resume", "--iterations", 2600, "--workers", 2)
    assert longer.code == 0, longer.err
    assert "rejoined at iteration 2500" in longer.err


def test_without_the_process_that_keeps_the_records_all_end(process: Command, here: Path) -> None:
    flags = [*MANY[:-4], "--workers", "2", "--iterations", "1000"]
    killed = process(*flags, "--out", "a", "--kill", "0@500", "--on-loss", "continue")
    assert killed.code == -signal.SIGKILL
    longer = process(*flags, "--out", "a", "--resume")
    assert longer.code == 0, longer.err
    assert [row["iteration"] for row in rows(here / "a")] == list(range(0, 1001, 50))
