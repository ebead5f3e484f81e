"""Processes that cannot meet, or were not started alike: a sentence says who, where and what."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.support.commands import PATIENCE, Said

RUN = shlex.split("run --problem logistic-nonconvex --graph ring:4 --set problem.samples=100 --iterations 20 --out a")
ANOTHER_VERSION = (
    "from peerdescent import _version; _version.__version__ = '0.0.1'; from peerdescent.cli.main import main; main()"
)

pytestmark = pytest.mark.e2e


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


def start(rank: int, port: int, here: Path, command: Sequence[str]) -> subprocess.Popen[str]:
    """One of two processes, by the four variables that torchrun would set."""
    place = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=here, env={**os.environ, **place}, text=True, **pipes)


def ends(processes: Sequence[subprocess.Popen[str]]) -> list[Said]:
    said = [process.communicate(timeout=PATIENCE) for process in processes]
    return [Said(process.returncode, *words) for process, words in zip(processes, said, strict=True)]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (["-m", "peerdescent", *RUN, "--seed", "1"], "its seed (1 against 0)"),
        (["-m", "peerdescent", *RUN, "--set", "problem.samples=200"], "its problem.samples (200 against 100)"),
        (["-m", "peerdescent", "compare", *RUN[1:]], "its command (compare against run)"),
        (["-c", ANOTHER_VERSION, *RUN], "its version (0.0.1 against "),
    ],
    ids=["seed", "data", "command", "version"],
)
def test_processes_that_differ_are_refused(other: list[str], what: str, here: Path) -> None:
    port = free_port()
    commands = ["-m", "peerdescent", *RUN], other
    both = ends([start(rank, port, here, [sys.executable, *words]) for rank, words in enumerate(commands)])
    assert [said.code for said in both] == [2, 2]
    assert len(both[0].sentences) == 1
    assert "process 1 on " in both[0].sentences[0]
    assert what in both[0].sentences[0]
    assert not both[1].sentences
    assert not (here / "a").exists()


def test_who_cannot_be_found_is_named(here: Path) -> None:
    """Two processes that look for each other in different places; both give up by themselves."""
    ports = free_port(), free_port()
    command = [sys.executable, "-m", "peerdescent", *RUN]
    first, second = ends([start(rank, ports[rank], here, command) for rank in (0, 1)])
    assert (first.code, second.code) == (1, 1)
    assert "process 1 of 2 did not join within 30 s" in first.err
    assert f"the rendezvous address 127.0.0.1:{ports[1]} cannot be reached within 30 s" in second.err
    assert len(first.sentences) == len(second.sentences) == 1
