"""One writer at a time: the lock is taken before anything is read or removed, and names its holder."""

from __future__ import annotations

import os
import shlex
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.support.commands import Command

from peerdescent import InputError
from peerdescent.runs import lock
from peerdescent.runs.contents import prepare_folder
from peerdescent.runs.folder import RunFolder, is_running
from peerdescent.runs.lock import FolderLock

HOLDER = """\
import sys
from pathlib import Path
from peerdescent.runs.lock import FolderLock
held = FolderLock(Path(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""


@contextmanager
def another_process(folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the lock of a folder."""
    command = [sys.executable, "-c", HOLDER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


PROBLEM = ["--problem", "quadratic", "--graph", "ring:4", "--iterations", "20"]
FLAGS = ["run", *PROBLEM, "-a", "d2", "-q", "--out", "a"]


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("flag", [["--overwrite"], ["--resume"], []])
def test_a_live_run_is_left_alone(flag: list[str], peerdescent_: Command, here: Path) -> None:
    assert peerdescent_(*FLAGS).code == 0
    with another_process(here / "a") as holder:
        before = contents(here / "a")
        said = peerdescent_(*FLAGS, *flag)
        assert said.code == 2
        (sentence,) = said.sentences
        assert f"process {holder.pid} on " in sentence
        assert "has been writing to a since" in sentence
        assert contents(here / "a") == before


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("busy", ["b", "b/d2"])
def test_a_live_comparison_is_left_alone(busy: str, peerdescent_: Command, here: Path) -> None:
    flags = shlex.split("compare --problem quadratic --graph ring:4 -a d2,dm-sgd --iterations 20 -q --out b")
    assert peerdescent_(*flags).code == 0
    with FolderLock(here / busy):
        before = contents(here / "b")
        said = peerdescent_(*flags, "--overwrite")
        assert said.code == 2
        assert f"has been writing to {busy} since" in said.sentences[0]
        assert contents(here / "b") == before


def test_the_system_releases_the_lock_of_a_killed_process(tmp_path: Path) -> None:
    assert not is_running(tmp_path)
    assert not list(tmp_path.iterdir())
    with another_process(tmp_path) as holder:
        assert is_running(tmp_path)
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
        assert not is_running(tmp_path)
        FolderLock(tmp_path).close()


def test_a_lock_is_private_and_not_followed(tmp_path: Path) -> None:
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("precious")
    folder.mkdir()
    (folder / ".lock").symlink_to(victim)
    with pytest.raises(InputError, match=r"\.lock is not a lock file: remove it"):
        RunFolder(folder)
    assert victim.read_text() == "precious"
    assert not is_running(folder)
    (folder / ".lock").unlink()
    with FolderLock(folder):
        assert stat.S_IMODE((folder / ".lock").stat().st_mode) == 0o600


@pytest.mark.parametrize("make", [os.mkdir, os.mkfifo])
def test_something_else_in_place_of_the_lock(make: object, tmp_path: Path) -> None:
    make(tmp_path / ".lock")  # type: ignore[operator]
    with pytest.raises(InputError, match=r"\.lock is not a lock file"):
        FolderLock(tmp_path)


@pytest.mark.parametrize("text", ["", "5", "{", "[" * 900, '{"pid": "x"}'])
def test_a_holder_without_a_name(text: str, tmp_path: Path) -> None:
    with FolderLock(tmp_path):
        (tmp_path / ".lock").write_text(text)
        with pytest.raises(InputError, match="another process is writing to"):
            FolderLock(tmp_path)


def test_a_lock_that_its_holder_removed_is_not_taken_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = FolderLock(tmp_path)
    monkeypatch.setattr(lock.time, "sleep", lambda _: held.remove())  # while the second one waits
    with FolderLock(tmp_path) as second:
        assert second.path.exists()
        assert is_running(tmp_path)


def test_without_locks_a_run_goes_on_with_a_note(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("error")
        patch.setattr(lock, "fcntl", None)
        with prepare_folder(tmp_path / "a", resume=False, overwrite=False):
            assert not is_running(tmp_path / "a")

    def refuse(*_: object) -> None:
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(lock.fcntl, "flock", refuse)
    with pytest.warns(UserWarning, match="cannot be locked"), FolderLock(tmp_path / "a"):
        pass
