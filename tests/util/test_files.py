"""Atomic writes: complete or absent, no collisions, no followed links, nothing left over."""

import os
import threading
from pathlib import Path

import pytest

from peerdescent._util.files import remove_temporary_files, write_atomically


def test_a_file_is_replaced_and_nothing_is_left_over(tmp_path: Path) -> None:
    write_atomically(tmp_path / "a", b"old")
    write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"new"}


def test_content_and_folder_are_synced_around_the_rename(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    sync, rename = os.fsync, Path.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (calls.append("fsync"), sync(fd))[1])
    monkeypatch.setattr(Path, "replace", lambda a, b: (calls.append("rename"), rename(a, b))[1])
    write_atomically(tmp_path / "a", b"content")
    assert calls == ["fsync", "rename", "fsync"]


@pytest.mark.parametrize("failing", ["fsync", "rename"])
def test_a_failed_write_keeps_the_old_file_and_removes_the_temporary_one(
    failing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    write_atomically(tmp_path / "a", b"old")
    with monkeypatch.context() as patch:
        patch.setattr(*((os, "fsync", fail) if failing == "fsync" else (Path, "replace", fail)))
        with pytest.raises(OSError, match="No space"):
            write_atomically(tmp_path / "a", b"new")
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"a": b"old"}


def test_a_link_in_the_temporary_place_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(b"precious")
    monkeypatch.setattr("secrets.token_hex", lambda n: "guessed")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "guessed.part").symlink_to(victim)
    with pytest.raises(FileExistsError):
        write_atomically(folder / "a", b"evil")
    assert victim.read_bytes() == b"precious"


def test_concurrent_writers_leave_one_complete_file(tmp_path: Path) -> None:
    contents = [bytes([i]) * 100_000 for i in range(8)]
    threads = [threading.Thread(target=write_atomically, args=(tmp_path / "a", content)) for content in contents]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() in contents


def test_old_temporary_files_are_removed(tmp_path: Path) -> None:
    (tmp_path / "below").mkdir()
    old, young, other = tmp_path / "below" / "x.part", tmp_path / "y.part", tmp_path / "z"
    for path in (old, young, other):
        path.touch()
    os.utime(old, (0, 0))
    remove_temporary_files(tmp_path, min_age=60)
    assert [path.exists() for path in (old, young, other)] == [False, True, True]
    remove_temporary_files(tmp_path)
    assert [path.exists() for path in (old, young, other)] == [False, False, True]
