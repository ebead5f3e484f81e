"""Shared memory between processes of one machine: messages arrive, waits can be interrupted, no file remains."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from tests.support import process_runs

from peerdescent._util.owned_folders import OwnedFolder
from peerdescent.distributed import shared_memory
from peerdescent.distributed.exchange import Exchange
from peerdescent.distributed.placement import Placement, neighbour_plan
from peerdescent.distributed.shared_memory import SharedMemory, shared_memory_folder

linux = pytest.mark.skipif(not shared_memory.MEMORY.is_dir(), reason="only Linux has /dev/shm")


def pair(folder: Path, message_dtype: torch.dtype | None = None) -> tuple[list[Exchange], threading.Event]:
    """Both ends, in this process, of an exchange between two processes with two agents each on a ring."""
    interrupted, placement = threading.Event(), Placement(4, 2)
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    both = [*ring, *((j, i) for i, j in ring)]
    ends = [
        Exchange(
            neighbour_plan(placement, rank, both), 3, torch.float32, 5, message_dtype,
            shared_memory=SharedMemory(folder, "0-5", rank, interrupted),
        )
        for rank in (0, 1)
    ]  # fmt: skip
    return ends, interrupted


@linux
@pytest.mark.parametrize("message_dtype", [None, torch.bfloat16])
def test_rows_arrive_in_order_whichever_process_is_ahead(message_dtype: torch.dtype | None, tmp_path: Path) -> None:
    (one, two), _ = pair(tmp_path, message_dtype)
    for k in range(7):
        one.own.fill_(k)
        two.own.fill_(-k)
        one.start()
        two.start()
        one.wait()  # from here on it is one exchange ahead
        assert torch.equal(one.rows, torch.tensor([[k] * 3] * 2 + [[-k] * 3] * 2).float())
        two.wait()
        assert torch.equal(two.rows, torch.tensor([[k] * 3] * 2 + [[-k] * 3] * 2).float())
    assert one.traffic.bytes_sent == 7 * 2 * 3 * (2 if message_dtype else 4)
    assert not list(tmp_path.iterdir())  # the files are unlinked


@linux
def test_a_wait_can_be_interrupted(tmp_path: Path) -> None:
    (one, _), interrupted = pair(tmp_path)
    one.start()
    threading.Timer(0.2, interrupted.set).start()
    with pytest.raises(Exception, match="stopped waiting"):
        one.wait()


@linux
def test_too_little_memory_is_an_error_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match="No space"):
        pair(tmp_path)


@linux
def test_without_memory_rows_are_sent_through_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    run = {"graph": "ring:4", "dimension": 5, "iterations": 10, "method": "dsgpa-f-pb"}
    (shared,) = process_runs.in_processes(2, [run])
    monkeypatch.setattr(os, "posix_fallocate", lambda *_: os.open("/nowhere", os.O_RDONLY))  # in this process only
    (by_socket,) = process_runs.in_processes(2, [run])
    assert torch.equal(by_socket.x, shared.x)
    assert by_socket.interprocess_bytes == shared.interprocess_bytes


@linux
def test_the_folder_is_removed_at_the_end() -> None:
    with shared_memory_folder() as folder:
        assert folder is not None
        (folder / "left behind").write_text("x")
    assert not folder.exists()


# ---- Folders whose owner has ended ----------------------------------------------------------------------------


def folder_of_another_process(base: Path) -> tuple[subprocess.Popen[str], Path]:
    """A folder that a live process has made, and that process."""
    program = (
        "import sys, time; from pathlib import Path; from peerdescent.distributed import shared_memory; "
        "shared_memory.MEMORY = Path(sys.argv[1]); held = shared_memory.shared_memory_folder(); "
        "folder = held.__enter__(); (folder / 'rows').write_text('x'); print(folder, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", program, str(base)], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    return owner, Path(owner.stdout.readline().strip())


@linux
def test_folders_of_killed_runs_are_removed_at_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A live run's folder, another user's, and what a symbolic link points to are left alone."""
    monkeypatch.setattr(shared_memory, "MEMORY", tmp_path)
    (killed, dead), (running, live) = folder_of_another_process(tmp_path), folder_of_another_process(tmp_path)
    try:
        killed.kill()
        killed.wait()
        elsewhere = tmp_path / "elsewhere"
        elsewhere.mkdir()
        (elsewhere / "owner").touch()  # nobody locks it
        (tmp_path / "peerdescent-run-link").symlink_to(elsewhere)
        with shared_memory_folder() as folder:
            assert folder is not None
            left = {path.name for path in tmp_path.iterdir()}
        assert left == {live.name, folder.name, "elsewhere", "peerdescent-run-link"}
        assert dead.name not in left
        assert (elsewhere / "owner").exists()
    finally:
        running.kill()
        running.wait()


@linux
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_folders_of_other_users_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "peerdescent-run-theirs"
    theirs.mkdir()
    (theirs / "owner").touch()
    os.chown(theirs, 12345, 12345)
    OwnedFolder(tmp_path, "run").remove()
    assert (theirs / "owner").exists()


@linux
def test_rounds_exchange_their_own_rows_and_one_way_messages_are_answered(tmp_path: Path) -> None:
    (one, two), _ = pair(tmp_path)
    placement = Placement(4, 2)
    rounds = [[(1, 2), (2, 1)], [(0, 3), (3, 0)], [(2, 1)], []]  # receivers and senders
    for k in range(12):
        pairs = rounds[k % 4]
        for rank, end in enumerate((one, two)):
            end.select(end.plan.routes(neighbour_plan(placement, rank, pairs)))
            end.own.copy_(torch.tensor([[10.0 * k + agent] * 3 for agent in placement.block(rank)]))
            end.start(k)
        before = one.rows.clone(), two.rows.clone()
        for _, end in enumerate((one, two)):
            end.wait()
        for rank, (end, old) in enumerate(zip((one, two), before, strict=True)):
            expected = old.clone()
            for receiver, sender in pairs:
                if placement.owner(receiver) == rank:
                    expected[sender] = 10.0 * k + sender
            assert torch.equal(end.rows, expected)
    assert one.traffic.bytes_sent == 3 * 3 * (3 * 4)  # agent 1 twice and agent 0 once in every period of four rounds
    assert two.traffic.bytes_sent == 3 * 2 * (3 * 4)
