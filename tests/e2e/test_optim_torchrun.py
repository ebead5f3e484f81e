"""Optimizers in real processes that are killed, end early, are slow, or skip steps."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.optim.test_unequal import dsgpa
from tests.support import optim_scenarios as scenarios
from tests.support.commands import PATIENCE
from tests.support.optim_scenarios import AGENTS, COLUMNS, STEPS

pytestmark = pytest.mark.e2e
SCRIPT = Path(scenarios.__file__)
ROOT = Path(__file__).parents[2]


class Ended(NamedTuple):
    """How a process ended."""

    code: int
    err: str

    @property
    def sentence(self) -> str:
        """The exception that ended it."""
        return next((line for line in reversed(self.err.splitlines()) if "peerdescent.errors." in line), self.err)


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", **more}


def torchrun(folder: Path, *job: str) -> list[dict[str, Any]]:
    """What a job returns in every process that torchrun starts."""
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(AGENTS), "--standalone"]
    command += [str(SCRIPT), str(folder), *job]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(AGENTS)]


def processes(folder: Path, *job: str) -> list[Ended]:
    """How the processes end that run a job; torchrun would end all as soon as the first fails."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    shared = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(AGENTS)}
    started = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), str(folder), *job],
            env=environment(**shared, RANK=str(rank)),
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(AGENTS)
    ]
    end = time.monotonic() + PATIENCE
    try:
        errors = [process.communicate(timeout=max(1.0, end - time.monotonic()))[1] for process in started]
    finally:
        for process in started:
            process.kill()
    return [Ended(process.returncode, error) for process, error in zip(started, errors, strict=True)]


def test_an_overflow_in_one_of_three(tmp_path: Path) -> None:
    found = torchrun(tmp_path, "scaled")
    np.testing.assert_allclose([result["x"] for result in found], dsgpa(STEPS - 1)[0], rtol=1e-12)
    assert all(result["scales"] == found[0]["scales"] for result in found)


def test_unequal_numbers_of_steps_with_join(tmp_path: Path) -> None:
    def gradient(agent: int, k: int, x: np.ndarray) -> np.ndarray:
        target = np.tile(np.arange(COLUMNS) * (agent + 1.0) - agent, 2)
        return x - target if k < 3 + 2 * agent else np.zeros_like(x)

    found = torchrun(tmp_path, "joined", "dsgpa")
    np.testing.assert_allclose([result["x"] for result in found], dsgpa(7, gradient, 0.9)[0], rtol=1e-12)


def test_a_frozen_base_model(tmp_path: Path) -> None:
    found = torchrun(tmp_path, "frozen")
    np.testing.assert_allclose([result["x"] for result in found], dsgpa(STEPS)[0], rtol=1e-12)
    assert [result["bytes"] for result in found] == [2 * COLUMNS * 8 * (STEPS + 1) * degree for degree in (1, 2, 1)]


def test_a_slow_process_is_waited_for(tmp_path: Path) -> None:
    found = torchrun(tmp_path, "slow", "15")
    np.testing.assert_allclose([result["x"] for result in found], dsgpa(STEPS)[0], rtol=1e-12)


def test_a_long_barrier_before_a_slow_batch_is_waited_for(tmp_path: Path) -> None:
    found = torchrun(tmp_path, "long_barrier")
    np.testing.assert_allclose([result["x"] for result in found], dsgpa(2)[0], rtol=1e-12)


@pytest.mark.parametrize("method", ["dsgpa", "d2"])
@pytest.mark.parametrize("end", ["wait", "exit", "barrier", "averaged"])
def test_unequal_numbers_of_steps_end_with_a_sentence(method: str, end: str, tmp_path: Path) -> None:
    for rank, ended in enumerate(processes(tmp_path, "uneven", method, end)):
        if (rank, end) == (2, "exit"):
            assert ended.code == 0
        elif (rank, end) == (2, "barrier"):  # it waits in a call of torch, which fails when the others have ended
            assert ended.code != 0
        else:
            assert ended.code == 1
            assert "process 2 stopped after step 5 (it " in ended.sentence
            assert "optimizer.join()" in ended.sentence


@pytest.mark.parametrize("attempt", range(3))
def test_a_process_ends_cleanly_whatever_its_thread_does(attempt: int, tmp_path: Path) -> None:
    assert torchrun(tmp_path, "exit_during_a_look") == [{"ended": True}] * AGENTS


def test_averaged_in_one_process_only(tmp_path: Path) -> None:
    for ended in processes(tmp_path, "alone_in_averaged"):
        assert ended.code == 1
        assert "process 0 stopped after step 4 (it called averaged())" in ended.sentence


@pytest.mark.parametrize("victim", ["0", "2"])
def test_a_killed_process_is_named_by_all_others(victim: str, tmp_path: Path) -> None:
    """Rank 0 serves the store; rank 2 is no neighbour of rank 0."""
    for rank, ended in enumerate(processes(tmp_path, "killed", victim)):
        if rank == int(victim):
            assert ended.code < 0
        else:
            assert ended.code == 1
            assert re.search(rf"process {victim} ended or was killed", ended.sentence), ended.err
