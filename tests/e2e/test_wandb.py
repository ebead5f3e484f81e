"""Weights & Biases, offline: its own messages hold the numbers of the run, each step once."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import Command, rows, until

import peerdescent
from peerdescent.loggers import WandB

pytest.importorskip("wandb")
BLOCK = 32768


def records(content: bytes) -> Iterator[bytes]:
    """The records of an offline run: a log of LevelDB, blocks of 32 KiB with checksum, length and kind of each part."""
    assert content[:4] == b":W&B"
    place, whole = 7, b""
    while place + 7 <= len(content):
        if BLOCK - place % BLOCK < 7:  # no part begins in the last bytes of a block
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = struct.unpack_from("<IHB", content, place)
        whole += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # the only part, or the last one
            yield whole
            whole = b""


def read(file: Path) -> list[Any]:
    """The records as wandb's own messages."""
    from wandb.proto.wandb_internal_pb2 import Record

    found = [Record() for _ in records(file.read_bytes())]
    for record, content in zip(found, records(file.read_bytes()), strict=False):
        record.ParseFromString(content)
    return found


def history(file: Path) -> dict[int, dict[str, Any]]:
    """By step, the numbers of a run that wandb has finished; a step that is there twice fails."""
    # wandb writes the file in a process of its own, which may be a moment behind
    until(lambda: any(record.WhichOneof("record_type") == "exit" for record in read(file)))
    found = dict[int, dict[str, Any]]()
    for record in read(file):
        if record.WhichOneof("record_type") == "history":
            items = {"".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
            assert items["_step"] not in found
            found[items["_step"]] = items
    return found


def check(folder: Path, table: list[dict[str, Any]]) -> None:
    (file,) = folder.glob("wandb/offline-run-*/run-*.wandb")
    found = history(file)
    assert list(found) == [row["iteration"] for row in table]
    for row in table:
        read = found[row["iteration"]]
        for name in ("loss", "consensus_error", "gradient_norm", "bytes_sent"):
            assert read[name] == row[name]
        assert "accuracy" not in read
        assert [read[f"agent_loss/{i}"] for i in range(3)] == row["agent_loss"]


@pytest.mark.e2e
def test_wandb_reads_back_the_numbers_of_a_resumed_run(process: Command, here: Path) -> None:
    command = ["run", "-a", "d2", "--problem", "quadratic", "--graph", "ring:3", "--kernel", "plain"]
    said = process(*command, "--iterations", "20", "--log", "wandb", "--out", "a")
    assert said.code == 0, said
    check(here / "a", rows(here / "a"))
    said = process("run", "a", "--resume", "--iterations", "40")
    assert said.code == 0, said
    check(here / "a", rows(here / "a"))
    (here / "a/wandb/mine.txt").write_text("mine")
    said = process(*command, "--iterations", "10", "--out", "a", "--overwrite")
    assert said.code == 0, said
    assert [path.name for path in (here / "a/wandb").iterdir()] == ["mine.txt"]


@pytest.mark.e2e
def test_wandb_in_python(tmp_path: Path) -> None:
    result = peerdescent.train(
        "quadratic", "ring:3", "d2", iterations=20, kernel="plain",
        callbacks=[WandB(project="p", mode="offline", folder=tmp_path, name="mine")],
    )  # fmt: skip
    check(tmp_path, list(result.metrics))
