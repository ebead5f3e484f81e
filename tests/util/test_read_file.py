"""Reading what users name: regular files of limited size, and one sentence for all else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from peerdescent import InputError
from peerdescent._util.files import read_file


def test_a_regular_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"content")
    assert read_file(tmp_path / "a", max_bytes=7) == b"content"
    with pytest.raises(InputError, match="more than 6 bytes"):
        read_file(tmp_path / "a", max_bytes=6)


@pytest.mark.parametrize("name", ["missing", "fifo", "folder", "loop", "x" * 300, "nul\0", "file/a"])
def test_what_is_not_a_regular_file_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    os.mkfifo(tmp_path / "fifo")  # it has no writer: a plain open would wait for one
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    with pytest.raises(InputError, match=r"^cannot read the edge file .*[.]$"):
        read_file(tmp_path / name, "edge file")
    if before:
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_device_without_an_end_is_refused() -> None:
    with pytest.raises(InputError, match="not a regular file"):
        read_file(Path("/dev/zero"))
