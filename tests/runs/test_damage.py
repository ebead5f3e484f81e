"""Folders that are damaged, or hold something else in place of a file: one sentence, and nothing is removed."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import Command, Said

from peerdescent import InputError, train
from peerdescent.errors import RecordError
from peerdescent.experiments.load import load
from peerdescent.report import drawing
from peerdescent.runs.folder import RunFolder, read_metrics, read_summary
from peerdescent.training import checkpoints, loop

SMALL = ["--problem", "quadratic", "--graph", "ring:4", "-a", "d2", "--iterations", "20", "--eval-every", "5", "-q"]
ROW = {"iteration": 5, "loss": 1.0, "bytes_sent": 8}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 20 iterations with five evaluations."""
    out = tmp_path_factory.mktemp("finished") / "a"
    train("quadratic", "ring:4", "d2", iterations=20, eval_every=5, out=out)
    return out


@pytest.fixture
def folder(finished: Path, here: Path) -> Path:
    """A copy of it to damage."""
    return Path(shutil.copytree(finished, here / "a"))


def contents(folder: Path) -> dict[str, Any]:
    """All files and what is in them, and what else is there by its kind."""
    found = {}
    for path in sorted(folder.rglob("*")):
        mode = path.lstat().st_mode
        found[str(path.relative_to(folder))] = path.read_bytes() if stat.S_ISREG(mode) else stat.S_IFMT(mode)
    return found


def refused(said: Said, *words: str) -> str:
    assert said.code == 2
    (sentence,) = said.sentences
    assert all(word in sentence for word in words), sentence
    return sentence


LINES = {
    "{}": b"{}",
    "number": b"5",
    "list": b"[]",
    "null": b"null",
    "no loss": b'{"iteration": 10, "bytes_sent": 8}',
    "no bytes": b'{"iteration": 10, "loss": 1}',
    "text": b'{"iteration": 10, "loss": "low", "bytes_sent": 8}',
    "not after": b'{"iteration": 5, "loss": 1, "bytes_sent": 8}',
    "fraction": b'{"iteration": 7.5, "loss": 1, "bytes_sent": 8}',
    "true": b'{"iteration": true, "loss": 1, "bytes_sent": 8}',
    "nested": b"[" * 100_000,
    "not UTF-8": b'{"iteration": 10, "loss": 1, "bytes_sent": 8, "note": "\xff"}',
    "cut": b'{"iteration": 10, "lo',
    "empty": b"",
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("line", LINES)
def test_a_damaged_line_is_named_and_nothing_is_removed(line: str, folder: Path, peerdescent_: Command) -> None:
    lines = (folder / "metrics.jsonl").read_bytes().splitlines()
    (folder / "metrics.jsonl").write_bytes(b"\n".join([*lines[:2], LINES[line], *lines[3:], b""]))
    before = contents(folder)
    sentence = refused(
        peerdescent_("run", "a", "--resume", "--iterations", "30"), "metrics.jsonl, line 3 is not an evaluation"
    )
    assert "the rows before it, up to iteration 5, are intact" in sentence
    assert contents(folder) == before


@pytest.mark.parametrize(
    "tail", [b"", b'{"iteration": 99, "lo', b'{"iteration": 99, "loss\0\0\n', b"\0\0\0\0", b"\xff\xfe"]
)
def test_a_torn_last_line_is_dropped(tail: bytes, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(json.dumps(ROW).encode() + b"\n" + tail)
    assert read_metrics(tmp_path).rows == [ROW]


@pytest.mark.parametrize("last", [b"{}\n", b"5\n", b"[" * 100_000 + b"\n"])
def test_a_whole_last_line_that_is_no_row_is_damage(last: bytes, tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_bytes(json.dumps(ROW).encode() + b"\n" + last)
    with pytest.raises(InputError, match="line 2 is not an evaluation"):
        read_metrics(tmp_path)


COMMANDS = ["run a --resume --iterations 30", "run --out a --resume", "report a", "run a --out b"]
SPOIL: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "not UTF-8": lambda path: path.write_bytes(b"\xff\n"),
}


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("kind", SPOIL)
@pytest.mark.parametrize("name", ["experiment.toml", "metrics.jsonl", "summary.json", "environment.json"])
@pytest.mark.parametrize(
    "command", ["run a --resume --iterations 30", "run --out a --resume", "report a", "run a --out b"]
)
def test_something_else_in_place_of_a_file(
    command: str, name: str, kind: str, folder: Path, peerdescent_: Command
) -> None:
    """Each command either does without the file, or ends with one sentence that names it and changes nothing."""
    (folder / name).unlink()
    SPOIL[kind](folder / name)
    if kind == "not UTF-8" and name == "metrics.jsonl":
        (folder / name).write_bytes(b"\xff\n" + json.dumps(ROW).encode() + b"\n")
    before = contents(folder)
    said = peerdescent_(*command.split())
    if said.code == 0:
        assert name in {"run a --out b": ("metrics.jsonl", "summary.json", "environment.json")}.get(command, ()) or (
            name == "summary.json" and command.startswith("run") and kind in ("pipe", "device", "not UTF-8")
        )
    elif said.code == 1:  # a folder where the summary would be written
        assert (name, kind) == ("summary.json", "folder")
        assert "summary.json: Is a directory" in said.sentences[0]
    else:
        refused(said, "a")
        assert contents(folder) == before


@pytest.mark.parametrize(
    "text", ['{"notes": 5}', '{"diverged": "no"}', '{"iteration": "x"}', "[]", "5", "{", "[" * 100_000]
)
def test_a_damaged_summary_is_one_sentence(text: str, folder: Path, peerdescent_: Command) -> None:
    (folder / "summary.json").write_text(text)
    refused(peerdescent_("report", "a"), "summary.json", "restore or remove the file")
    with pytest.raises(InputError, match=r"summary\.json"):
        load(folder)
    with pytest.raises(InputError, match=r"summary\.json"):
        read_summary(folder)


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("moment", range(1, 28, 4))
def test_a_full_disk_is_one_sentence_and_the_run_goes_on_later(
    moment: int, finished: Path, here: Path, peerdescent_: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "CHUNK", 5)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    sync, calls = os.fsync, iter(range(1, 1000))
    monkeypatch.setattr(os, "fsync", lambda fd: sync(fd) if next(calls) < moment else full_disk())
    flags = ["run", *SMALL, "--out", "b"]
    said = peerdescent_(*flags)
    assert said.code == 1
    (sentence,) = said.sentences
    assert "No space left on device" in sentence
    assert str(Path("b")) in sentence
    assert not list(here.rglob("*.part"))
    monkeypatch.setattr(os, "fsync", sync)
    assert peerdescent_(*flags, "--resume").code == 0
    assert [row["loss"] for row in read_metrics(here / "b")] == [row["loss"] for row in read_metrics(finished)]


def test_rows_are_not_appended_to_what_a_link_leads_to(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path / "a")
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "a" / "metrics.jsonl").symlink_to(tmp_path / "victim")
    with pytest.raises(RecordError, match=r"cannot write .*metrics\.jsonl: "):
        folder.append(ROW)
    folder.close()
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_comparison_that_is_refused_stays_as_it_is(here: Path, peerdescent_: Command) -> None:
    flags = ["compare", *SMALL, "-a", "d-sgd-1", "--out", "c"]
    assert peerdescent_(*flags).code == 0
    metrics = here / "c" / "d2" / "metrics.jsonl"
    metrics.write_bytes(metrics.read_bytes().replace(b"iteration", b"iterati\xffn", 1))
    before = contents(here)
    assert peerdescent_("compare", "c", "--resume").code == 2
    assert contents(here) == before


def test_a_full_disk_is_no_fault_of_the_input_when_figures_are_drawn(
    here: Path, peerdescent_: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing, "write_atomically", full_disk)
    said = peerdescent_("run", *SMALL, "--out", "a")
    assert said.code == 1
    assert "No space left on device" in said.err
