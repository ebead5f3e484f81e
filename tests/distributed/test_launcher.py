"""Workers that this process starts: what they inherit, and how a launch restarts them."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import process_runs

from peerdescent.distributed import membership
from peerdescent.distributed.faults import Faults
from peerdescent.distributed.launcher import launch, workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.rendezvous import local_store
from peerdescent.distributed.signed_store import SignedStore
from peerdescent.distributed.worker_process import worker_context
from peerdescent.errors import PeerLostError

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems start new interpreters")


def reports(tensors: int = 1, count: int = 3) -> list[dict[str, Any]]:
    """What each worker sees, without rank 0."""
    given = [torch.ones(2) for _ in range(tensors)]
    with workers(count, process_runs.report_worker, given) as group:
        return process_runs.report_worker(group, given)[1:]


def test_workers_have_the_current_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also what changed since the fork server started."""
    for value in ("one", "two"):
        folder = tmp_path / value
        folder.mkdir()
        monkeypatch.setenv("PEERDESCENT_TEST", value)
        monkeypatch.chdir(folder)
        assert [(report["environment"], report["folder"]) for report in reports()] == [(value, str(folder))] * 2
    monkeypatch.delenv("PEERDESCENT_TEST")
    assert [report["environment"] for report in reports()] == [None, None]


@pytest.mark.e2e
def test_workers_ignore_interrupts_and_have_their_own_random_numbers() -> None:
    first, second = reports()
    (third,) = reports(count=2)
    assert first["interrupt"]
    assert second["interrupt"]
    for generator in (0, 1):
        assert len({report["random"][generator] for report in (first, second, third)}) == 3


@linux
def test_workers_listen_on_the_loopback_interface_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The store, the heartbeat and gloo, whatever interface gloo is told to use otherwise."""
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "nowhere")
    before = process_runs.listening()  # this process is one of them, and other tests may have left something open
    with workers(3, process_runs.report_worker, []) as group:
        opened = [report["listening"].items() - before.items() for report in process_runs.report_worker(group, [])]
    assert os.environ["GLOO_SOCKET_IFNAME"] == "nowhere"
    assert all(opened)
    addresses = {address for sockets in opened for _, address in sockets}
    assert addresses <= {"0100007F", "00000000000000000000000001000000"}


@pytest.mark.e2e
@linux
def test_variables_that_libraries_read_when_loaded_reach_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    assert worker_context().get_start_method() == "forkserver"
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert worker_context().get_start_method() == "spawn"
    assert reports(count=2)[0]["threads"] == 1


@pytest.mark.e2e
def test_a_job_may_have_many_tensors() -> None:
    """More than a fork server takes file descriptors."""
    assert reports(tensors=300, count=2)[0]["tensors"] == 600


def test_launch_with_one_process_starts_none() -> None:
    def rank_zero(group: ProcessGroup, attempt: int) -> tuple[int, int]:
        return group.size, attempt

    assert launch(rank_zero, process_runs.lose_first_attempt, (), 1, Faults()) == (1, 0)


@pytest.mark.e2e
def test_launch_restarts_after_a_loss(tmp_path: Path) -> None:
    job, arguments = process_runs.lose_first_attempt, (tmp_path,)

    def rank_zero(group: ProcessGroup, attempt: int) -> int:
        return job(group, attempt, *arguments)

    with pytest.warns(UserWarning, match="restart 1 of at most 100"):
        assert launch(rank_zero, job, arguments, 2, Faults(on_loss="restart")) == 1
    assert {path.name for path in tmp_path.iterdir()} == {"0-0", "1-0", "1-1"}
    with pytest.warns(UserWarning, match="lost process 1"), pytest.raises(PeerLostError, match="has lost process 1"):
        launch(rank_zero, job, arguments, 2, Faults())


def test_workers_connect_after_a_connection_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch whose worker dies while it connects is followed by another from the same process."""
    with monkeypatch.context() as short:
        short.setattr(membership, "CONNECT_TIMEOUT", timedelta(seconds=0.2))
        alone = ProcessGroup(0, 2, SignedStore(local_store()), ("here", "there"))
        with pytest.raises(RuntimeError):
            alone.connect()
    assert len(reports()) == 2
