"""Checkpoints that are damaged or forged: noticed, named and passed over, and nothing is removed."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors import safe_open
from tests.support.commands import rows

from peerdescent import InputError, train
from peerdescent.experiments.load import load
from peerdescent.training import checkpoint_files, checkpoints, loop
from peerdescent.training.checkpoint_files import (
    Checkpoint,
    DamagedError,
    Part,
    decode,
    decode_manifest,
    encode,
    encode_manifest,
    joined,
)
from peerdescent.training.checkpoints import forget

AGENTS = 3
STATE = {"x": torch.arange(12.0).reshape(3, 4), "y": torch.ones(3, 4, dtype=torch.float64)}
SAVED = Checkpoint(STATE, 20, 1.5, "abc", (), 3, "def")
PARTS = [Part("agents-0-1.safetensors", 0, 2, "a" * 64), Part("agents-2-2.safetensors", 2, 1, "b" * 64)]


def settings(out: Path, **more: Any) -> dict[str, Any]:
    return {"problem": "quadratic", "graph": "ring:4", "algorithm": "d2", "iterations": 20, "out": out, **more}


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run folder with checkpoints at iterations 15 and 20, and an undisturbed copy of it."""
    monkeypatch.setattr(loop, "CHUNK", 5)
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    train(**settings(tmp_path / "run", eval_every=5))
    shutil.copytree(tmp_path / "run", tmp_path / "whole")
    return tmp_path / "run"


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_checkpoint_is_a_plain_safetensors_file(tmp_path: Path) -> None:
    (tmp_path / "a.safetensors").write_bytes(encode(SAVED))
    with safe_open(tmp_path / "a.safetensors", framework="pt") as file:
        assert json.loads(file.metadata()["peerdescent"])["iteration"] == 20
        assert torch.equal(file.get_tensor("x"), STATE["x"])
    found = decode(encode(SAVED), AGENTS)
    assert found.counts() == SAVED.counts()
    assert all(torch.equal(found.state[name], array) for name, array in STATE.items())
    assert encode(found) == encode(SAVED)


def read(content: bytes) -> object:
    return (decode_manifest if content[:1] == b"{" else decode)(content, AGENTS)


CONTENTS = {"file": encode(SAVED), "manifest": encode_manifest(SAVED, AGENTS, PARTS)}


@pytest.mark.parametrize("kind", CONTENTS)
@given(data=st.data())
def test_any_flipped_bit_is_noticed(kind: str, data: st.DataObject) -> None:
    content = bytearray(CONTENTS[kind])
    position = data.draw(st.integers(0, 8 * len(content) - 1))
    content[position // 8] ^= 1 << position % 8
    for reader in (decode, decode_manifest):
        with pytest.raises(DamagedError):
            reader(bytes(content), AGENTS)


@pytest.mark.parametrize("kind", CONTENTS)
def test_every_bit_of_the_header_and_every_length_is_checked(kind: str) -> None:
    whole = CONTENTS[kind]
    read(whole)
    for position in range(8 * min(len(whole), 450)):
        content = bytearray(whole)
        content[position // 8] ^= 1 << position % 8
        with pytest.raises(DamagedError):
            read(bytes(content))
    for length in range(len(whole)):
        with pytest.raises(DamagedError):
            read(whole[:length])
    with pytest.raises(DamagedError):
        read(whole + b"\0")


def forged(**changes: Any) -> bytes:
    """A checkpoint with other counts and a checksum that fits them."""
    counts = {**SAVED.counts(), **changes, "checksum": "0" * 64}
    kept = {key: value for key, value in counts.items() if value is not ...}
    return checkpoint_files._with_checksum(checkpoint_files.save(STATE, metadata={"peerdescent": json.dumps(kept)}))


@pytest.mark.parametrize(
    "changes",
    [
        {"lost": [5]},
        {"lost": [0, 0]},
        {"lost": [-1]},
        {"lost": [True]},
        {"lost": [1]},
        {"lost": 5},
        {"lost": "12"},
        {"lost": {"0": 1}},
        {"iteration": -1},
        {"iteration": 2.5},
        {"iteration": "20"},
        {"iteration": ...},
        {"seconds": "1"},
        {"seconds": None},
        {"seconds": -1},
        {"digest": 5},
        {"evaluations": None},
        {"rows": None},
        {"evaluations": ...},
    ],
    ids=str,
)
def test_false_counts_are_refused(changes: dict[str, Any]) -> None:
    assert decode(forged(), AGENTS).iteration == 20
    with pytest.raises(DamagedError):
        decode(forged(**changes), AGENTS)


@pytest.mark.parametrize("text", ["5", "[]", "null", "[" * 100_000, "{}"])
def test_metadata_that_is_not_an_object(text: str) -> None:
    content = checkpoint_files.save(STATE, metadata={"peerdescent": text, "checksum": "0" * 64})
    with pytest.raises(DamagedError):
        decode(checkpoint_files._with_checksum(content), AGENTS)


def test_a_checkpoint_without_a_checksum_is_refused() -> None:
    counts = json.dumps({"iteration": 20, "seconds": 1.5, "digest": "abc"})
    with pytest.raises(DamagedError, match="it has no checksum"):
        decode(checkpoint_files.save(STATE, metadata={"peerdescent": counts}), AGENTS)


A, B = (vars(part) for part in PARTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"parts": []},
        {"parts": [A]},
        {"parts": [A, A, B]},
        {"parts": [B]},
        {"parts": 5},
        {"parts": [5]},
        {"parts": [{**A, "first": "0"}, B]},
        {"parts": [{**A, "first": False}, B]},
        {"parts": [{**A, "agents": 0}, B]},
        {"parts": [{**A, "file": "../../x.safetensors"}, B]},
        {"parts": [{**A, "file": "agents-0-5.safetensors"}, B]},
        {"parts": [{**A, "file": 5}, B]},
        {"parts": [{**A, "sha256": None}, B]},
        {"parts": [{"file": "agents-0-1.safetensors"}, B]},
        {"agents": 4},
        {"agents": None},
        {"lost": [2]},
        {"iteration": None},
    ],
    ids=str,
)
def test_a_false_manifest_is_refused(changes: dict[str, Any]) -> None:
    manifest = {**json.loads(CONTENTS["manifest"]), **changes, "checksum": "0" * 64}
    with pytest.raises(DamagedError):
        decode_manifest(checkpoint_files._with_checksum(json.dumps(manifest).encode()), AGENTS)


def test_parts_that_do_not_fit_each_other_are_refused() -> None:
    def content(array: torch.Tensor) -> bytes:
        return encode(Checkpoint({"x": array}, 20, 1.5, "abc"))

    good = {PARTS[0].file: content(torch.ones(2, 4)), PARTS[1].file: content(torch.ones(1, 4))}
    assert joined(SAVED, PARTS, good).state["x"].shape == (3, 4)
    for bad in (torch.ones(2, 4), torch.ones(1, 5), torch.ones(())):
        with pytest.raises(DamagedError):
            joined(SAVED, PARTS, {**good, PARTS[1].file: content(bad)})


def test_a_flipped_bit_anywhere_leads_to_the_checkpoint_before(run: Path) -> None:
    newest = run / "checkpoints" / "000000000020.safetensors"
    content = bytearray(newest.read_bytes())
    position = random.Random(os.urandom(8)).randrange(8 * len(content))
    content[position // 8] ^= 1 << position % 8
    newest.write_bytes(content)
    with pytest.warns(UserWarning, match=f"skipping the damaged checkpoint {re.escape(str(newest))}"):
        train(**settings(run, eval_every=5, resume=True))
    assert rows(run) == rows(run.parent / "whole")
    assert load(run).x.tolist() == load(run.parent / "whole").x.tolist()


DAMAGE: dict[str, Callable[[Path], object]] = {
    "flip": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "folder": lambda path: (path.unlink(), path.mkdir()),
    "pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "device": lambda path: (path.unlink(), path.symlink_to("/dev/zero")),
    "dangling": lambda path: (path.unlink(), path.symlink_to("nowhere")),
    "renamed": lambda path: path.rename(path.with_name(f"{77:012d}.safetensors")),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_without_a_readable_checkpoint_nothing_is_removed(damage: str, run: Path) -> None:
    for path in list((run / "checkpoints").iterdir()):
        DAMAGE[damage](path)
    before = contents(run)
    with pytest.warns(UserWarning, match="skipping the damaged"), pytest.raises(InputError) as refused:
        train(**settings(run, eval_every=5, resume=True))
    assert "no checkpoint in" in str(refused.value)
    assert "save its metrics, which are intact up to iteration 20, elsewhere" in str(refused.value)
    assert "--overwrite" in str(refused.value)
    assert contents(run) == before


def test_rows_that_a_checkpoint_counted_must_be_there(run: Path) -> None:
    lines = (run / "metrics.jsonl").read_text().splitlines(keepends=True)
    (run / "metrics.jsonl").write_text("".join(lines[:1] + lines[2:]))
    before = contents(run)
    with pytest.raises(InputError, match=r"metrics\.jsonl holds 4 of the 5 evaluations up to iteration 20"):
        train(**settings(run, eval_every=5, resume=True))
    assert contents(run) == before


def test_a_changed_digit_in_the_rows_before_a_checkpoint_is_noticed(run: Path) -> None:
    text = (run / "metrics.jsonl").read_text()
    place = text.index('"loss": ') + len('"loss": ')
    (run / "metrics.jsonl").write_text(f"{text[:place]}{9 - int(text[place])}{text[place + 1 :]}")
    before = contents(run)
    with pytest.raises(InputError, match=r"metrics\.jsonl has changed: its first 5 evaluations"):
        train(**settings(run, eval_every=5, resume=True))
    assert contents(run) == before


def test_a_slow_process_does_not_forget_what_a_faster_one_writes(tmp_path: Path) -> None:
    for iteration in (10, 20, 30):
        (tmp_path / f"{iteration:012d}").mkdir()
        (tmp_path / f"{iteration:012d}" / "manifest.json").touch()
    written = tmp_path / f"{40:012d}" / "agents-0-1.safetensors"
    written.parent.mkdir()
    written.touch()
    forget(tmp_path, [f"{30:012d}", f"{20:012d}"])
    assert written.exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"{iteration:012d}" for iteration in (20, 30, 40)]
