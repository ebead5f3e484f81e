"""Regular files are read, anything else is refused; writes are complete or absent and leave nothing over."""

import errno
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from peerdescent import InputError
from peerdescent._util.files import make_folder, read_file, read_text, remove_temporary_files, write_atomically


def a_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda path: None, "there is no graph file .*x"),
        (Path.mkdir, "x is a folder: expected a regular graph file"),
        (os.mkfifo, "x is a pipe: expected a regular graph file"),
        (a_socket, "x"),
        (lambda path: path.symlink_to("/dev/zero"), "x is a device: expected a regular graph file"),
        (lambda path: path.write_bytes(b"too long"), r"the graph file .*x is larger than .* MiB"),
        (lambda path: os.truncate(path.open("wb").name, 2**40), r"x is larger than"),
    ],
    ids=["missing", "folder", "fifo", "socket", "device", "large", "sparse"],
)
def test_only_regular_files_are_read(make: Callable[[Path], object], named: str, tmp_path: Path) -> None:
    make(tmp_path / "x")
    with pytest.raises(InputError, match=named):
        read_file(tmp_path / "x", "graph file", max_bytes=5)


@pytest.mark.parametrize("name", ["a" * 300, "a\0b"])
def test_impossible_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the file"):
        read_file(tmp_path / name)


def test_a_file_without_permission_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")  # chmod would not stop root

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(InputError, match=r"cannot read the file .*x: Permission denied\."):
        read_file(tmp_path / "x")


def test_text_must_be_utf_8(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes("η\n".encode())
    assert read_text(tmp_path / "x") == "η\n"
    (tmp_path / "x").write_bytes(b"a\nb\xff\n")
    with pytest.raises(InputError, match=r"x is not text: line 2"):
        read_text(tmp_path / "x")


def test_a_full_disk_names_the_file_and_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="No space") as error:
        write_atomically(tmp_path / "a", b"new")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, str(tmp_path / "a"))
    assert not list(tmp_path.iterdir())


def test_the_parents_of_a_new_folder_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    sync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda fd: (synced.append(os.readlink(f"/proc/self/fd/{fd}")), sync(fd))[1])
    make_folder(tmp_path / "a" / "b")
    assert synced == [str(tmp_path), str(tmp_path / "a")]
    make_folder(tmp_path / "a" / "b")
    assert len(synced) == 2


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
    old, young, other = tmp_path / "below" / f"{1:016x}.part", tmp_path / f"{2:016x}.part", tmp_path / "film.part"
    for path in (old, young, other):
        path.touch()
    os.utime(old, (0, 0))
    remove_temporary_files(tmp_path, min_age=60)
    assert [path.exists() for path in (old, young, other)] == [False, True, True]
    remove_temporary_files(tmp_path)
    assert [path.exists() for path in (old, young, other)] == [False, False, True]


@pytest.mark.parametrize("name", ["missing", "fifo", "folder", "loop", "x" * 300, "nul\0", "file/a"])
def test_a_refused_file_is_closed_again(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")  # it has no writer: a plain open would wait for one
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(InputError, match=r"edge file.*[.]$"):
        read_file(tmp_path / name, "edge file")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before
