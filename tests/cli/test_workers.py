"""The command line with several processes: the same run folder as with one."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.support.commands import PATIENCE, Command, members, rows, until

RUN = shlex.split(
    "run --problem logistic-nonconvex --graph ring:4 --set problem.samples=100 --batch-size 4 --iterations 20 "
    "--eval-every 5 --gradients loop -a dsgpa-f-pb"
)
DIVERGES = shlex.split(
    "run --problem quadratic --graph ring:4 -a d-sgd-1 --set eta=100 --iterations 400 --eval-every 50"
)


@pytest.mark.e2e
def test_the_same_folder_as_with_one(process: Command, peerdescent_: Command, here: Path) -> None:
    one = peerdescent_(*RUN, "--out", "one")
    two = process(*RUN, "--out", "two", "--workers", 2)
    assert (one.code, two.code) == (0, 0), two.err
    assert rows(here / "two") == rows(here / "one")
    assert (here / "two" / "experiment.toml").read_text() == (here / "one" / "experiment.toml").read_text()
    names = [sorted(path.name for path in (here / out).iterdir()) for out in ("one", "two")]
    assert names[0] == names[1]
    assert "2 processes sent each other" in two.out
    assert two.out.count("ring:4: 4 agents") == 1  # one process speaks
    longer = peerdescent_(*RUN, "--out", "two", "--resume", "--iterations", 30)
    undisturbed = peerdescent_(*RUN, "--out", "undisturbed", "--iterations", 30)
    assert (longer.code, undisturbed.code) == (0, 0)
    assert rows(here / "two") == rows(here / "undisturbed")


@pytest.mark.e2e
def test_one_sentence_and_the_right_code(process: Command, here: Path) -> None:
    diverged = process(*DIVERGES, "--out", "d", "--workers", 2)
    assert diverged.code == 3
    assert len(diverged.sentences) == 1
    assert "Traceback" not in diverged.err
    assert json.loads((here / "d" / "summary.json").read_text())["diverged"] is True
    taken = process(*RUN, "--out", "d", "--workers", 2)
    assert taken.code == 2
    assert len(taken.sentences) == 1
    assert "not empty" in taken.sentences[0]


def shared_folders(command: int) -> set[Path]:
    """The folders of shared memory that the processes of a command hold open; others may have some of their own."""
    found = set()
    for process in members(command):
        with contextlib.suppress(OSError):  # it has just ended
            opened = [link.readlink() for link in Path(f"/proc/{process}/fd").iterdir()]
            found |= {path.parent for path in opened if path.parent.name.startswith("peerdescent-run-")}
    return found


def struck(here: Path, blow: signal.Signals, ready: Callable[[int], object]) -> tuple[int, str, set[Path]]:
    """A long run with two workers, struck as a terminal does, all processes at once; no process of it is left.

    Returns its exit code, what it wrote to stderr, and the folders of shared memory that it had.
    """
    command = [sys.executable, "-m", "peerdescent", *RUN, "--iterations", "100000000", "--out", "a", "--workers", "2"]
    with subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, start_new_session=True, text=True) as running:
        try:
            until(lambda: running.poll() is not None or ready(running.pid))
            folders = shared_folders(running.pid)
            if blow == signal.SIGKILL:
                os.kill(running.pid, blow)
            else:
                os.killpg(running.pid, blow)
            _, err = running.communicate(timeout=PATIENCE)  # nobody holds the other end of stderr any more
            until(lambda: not members(running.pid))  # the system takes a moment to bury them
        finally:
            for left in members(running.pid):
                os.kill(left, signal.SIGKILL)
    return running.returncode, err, folders


processes = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are counted in /proc")


@processes
@pytest.mark.e2e
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_the_command(blow: signal.Signals, here: Path) -> None:
    rows = here / "a" / "metrics.jsonl"
    ready = lambda _: rows.exists() and rows.stat().st_size  # noqa: E731 (the first row: iterations begin)
    code, err, folders = struck(here, blow, ready)
    assert folders
    if blow == signal.SIGKILL:
        assert code == -blow
        return
    assert code == 128 + blow
    assert re.fullmatch(
        r"peerdescent: stopped at iteration \d+; continue with: peerdescent run a --resume --workers 2\n", err
    )
    assert json.loads((here / "a" / "summary.json").read_text())["status"] == "stopped"
    assert not [folder for folder in folders if folder.exists()]


@pytest.mark.e2e
@processes
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("count", [2, 3, 4])
def test_workers_that_are_starting_end_without_a_word(blow: signal.Signals, count: int, here: Path) -> None:
    """Struck when the fork server, the first or the second process has just been started."""
    code, err, folders = struck(here, blow, lambda command: len(members(command)) >= count)
    assert code == 128 + blow, err
    assert "Traceback" not in err
    assert len(err.splitlines()) == 1, err
    assert not [folder for folder in folders if folder.exists()]


def test_commands_that_tests_start_can_be_interrupted() -> None:
    """Also where the tests themselves were started by a script that ignores interrupts."""
    probe = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, check=True).stdout == "True\n"


TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "3", "--standalone"]


def torchrun(here: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [*TORCHRUN, "-m", "peerdescent", *arguments]
    return subprocess.run(command, cwd=here, capture_output=True, text=True, check=False, timeout=PATIENCE)


@pytest.mark.e2e
@pytest.mark.parametrize("blow", [signal.SIGINT, signal.SIGTERM])
def test_torchrun_is_stopped_and_resumed(blow: signal.Signals, process: Command, here: Path) -> None:
    long = [*RUN, "--iterations", "3000", "--eval-every", "500"]
    assert process(*long, "--out", "one").code == 0
    command = [*TORCHRUN, "-m", "peerdescent", *long, "--out", "three", "--stall", "3@1500:5"]  # it must not end before
    with subprocess.Popen(command, cwd=here, stderr=subprocess.PIPE, text=True) as running:
        until(lambda: running.poll() is not None or (here / "three" / "metrics.jsonl").exists())
        running.send_signal(blow)  # torchrun passes it on
        _, err = running.communicate(timeout=PATIENCE)
    said = [line for line in err.splitlines() if line.startswith("peerdescent: ")]
    assert len(said) == 1, err
    assert said[0].endswith("the same command with --out three --resume continues.")
    assert json.loads((here / "three" / "summary.json").read_text())["status"] == "stopped"
    resumed = torchrun(here, *long, "--out", "three", "--resume")
    assert resumed.returncode == 0, resumed.stderr
    assert rows(here / "three") == rows(here / "one")


@pytest.mark.e2e
def test_tokens_that_differ_are_one_sentence(here: Path) -> None:
    """As on two hosts: two processes of which one has another token."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    shared = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    started = [
        subprocess.Popen(
            [sys.executable, "-m", "peerdescent", *RUN, "--out", "a"], cwd=here, stderr=subprocess.PIPE, text=True,
            env={**os.environ, **shared, "RANK": str(rank), "PEERDESCENT_TOKEN": f"a long enough token {rank}"},
        )
        for rank in range(2)
    ]  # fmt: skip
    for each in started:
        _, err = each.communicate(timeout=PATIENCE)
        assert each.returncode == 2, err
        assert [line for line in err.splitlines() if line.startswith("peerdescent: ")] == err.splitlines()
        assert "process 1 has another token than process 0" in err
    assert not (here / "a").exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MASTER_PORT", "99999"), ("MASTER_PORT", "x"), ("WORLD_SIZE", "-2"), ("WORLD_SIZE", "0"), ("RANK", "x"),
        ("RANK", "2"), ("TORCHELASTIC_RESTART_COUNT", "x"), ("LOCAL_RANK", "-1"), ("LOCAL_WORLD_SIZE", "1e3"),
        ("MASTER_ADDR", ""), ("PEERDESCENT_TOKEN", "short"), ("RANK", "٣"), ("WORLD_SIZE", "9" * 5000),
    ],
)  # fmt: skip
def test_variables_that_torchrun_would_not_set_are_one_sentence(
    name: str, value: str, peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    set_by_torchrun = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    for variable, given in {**set_by_torchrun, name: value}.items():
        monkeypatch.setenv(variable, given)
    refused = peerdescent_(*RUN, "--out", "a")
    assert refused.code == 2
    assert len(refused.sentences) == 1
    assert name in refused.sentences[0]


@pytest.mark.parametrize("flags", [["--threads", "1000"], ["--graph", "ring:3000", "--workers", "2000"]])
def test_more_than_the_machine_can_carry_is_refused(flags: list[str], peerdescent_: Command, here: Path) -> None:
    for command in ("run", "compare"):
        refused = peerdescent_(command, *RUN[1:], *flags, "--out", "a")
        assert refused.code == 2
        assert len(refused.sentences) == 1
        assert "CPU core" in refused.sentences[0]
        assert not (here / "a").exists()


@pytest.mark.e2e
def test_torchrun(process: Command, here: Path) -> None:
    assert process(*RUN, "--out", "one").code == 0
    done = torchrun(here, *RUN, "--out", "three")
    assert done.returncode == 0, done.stderr
    assert rows(here / "three") == rows(here / "one")
    assert done.stdout.count("ring:4: 4 agents") == 1
    refused = torchrun(here, *RUN, "--out", "three")
    assert refused.returncode != 0
    assert refused.stderr.count("peerdescent: ") == 1
    assert "not empty" in refused.stderr
    diverged = torchrun(here, *DIVERGES, "--out", "d")
    assert diverged.stderr.count("peerdescent: ") == 1
    assert "exitcode  : 3" in diverged.stderr


@pytest.mark.e2e
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are found in /proc")
@pytest.mark.parametrize("victim", ["0", "2"])
def test_torchrun_starts_all_again_when_one_is_killed(victim: str, process: Command, here: Path) -> None:
    long = [*RUN, "--iterations", "3000", "--eval-every", "500"]
    assert process(*long, "--out", "one").code == 0
    command = [*TORCHRUN, "--max-restarts", "2", "-m", "peerdescent", *long, "--out", "three"]
    environment = {**os.environ, "PEERDESCENT_CHECKPOINT_SECONDS": "0.1"}
    with subprocess.Popen(command, cwd=here, env=environment, start_new_session=True) as running:
        until(lambda: running.poll() is not None or list((here / "three").glob("checkpoints/*/manifest.json")))
        os.kill(rank(running.pid, victim), signal.SIGKILL)
        assert running.wait(PATIENCE) == 0
    assert rows(here / "three") == rows(here / "one")


def rank(torchrun: int, number: str) -> int:
    """The process that torchrun started with this rank."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(stat.read_text().rpartition(")")[2].split()[1])
            if parent == torchrun and f"RANK={number}".encode() in (stat.parent / "environ").read_bytes().split(b"\0"):
                return int(stat.parent.name)
        except OSError:  # it has just ended
            continue
    raise AssertionError(f"torchrun has no process of rank {number}")
