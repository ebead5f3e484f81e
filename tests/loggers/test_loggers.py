"""Loggers: the tools they write for read back the numbers of the run, also of one that was resumed or diverged."""

from __future__ import annotations

import csv
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.commands import Command

import peerdescent
from peerdescent.errors import DivergedError, InputError
from peerdescent.loggers import CSV, TensorBoard, WandB
from peerdescent.loggers.base import numbers_of
from peerdescent.runs.metrics import Metrics
from peerdescent.training.callbacks import Callback

RUN: dict[str, Any] = {"batch_size": 0, "kernel": "plain", "eval_every": 10}
COMMAND = ["run", "-a", "d2", "--problem", "quadratic", "--graph", "ring:3", "--iterations", "20", "--kernel", "plain"]


class Added(Callback):
    """Adds numbers of its own, some of them none."""

    def on_evaluation(self, run: Any, row: Any) -> None:
        row["extra"] = {0: None, 10: math.nan}.get(run.k, float(run.k))


class Stop(Exception):
    pass


class StopAt(Callback):
    """Ends the run as a kill would: after an evaluation, without a word to the loggers."""

    def __init__(self, k: int) -> None:
        self.k = k

    def on_evaluation(self, run: Any, row: Any) -> None:
        if run.k == self.k:
            raise Stop


def train(**more: Any) -> peerdescent.Result:
    return peerdescent.train("quadratic", "ring:3", "d2", **{"iterations": 40, **RUN, **more})


def expected(metrics: Metrics) -> dict[str, dict[int, float]]:
    """By name, the value of every step."""
    found: dict[str, dict[int, float]] = {}
    for row in metrics:
        for name, value in numbers_of(row).items():
            if value is not None and name != "iteration":
                found.setdefault(name, {})[row["iteration"]] = float(value)
    return found


def events(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(folder), size_guidance={"scalars": 0})
    read.Reload()
    return {tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]}


def check_events(folder: Path, metrics: Metrics) -> None:
    found, wanted = events(folder), expected(metrics)
    assert set(found) == set(wanted)
    for name, steps in found.items():
        assert [step for step, _ in steps] == list(wanted[name])
        for step, value in steps:
            with np.errstate(over="ignore"):  # TensorBoard has single precision
                assert np.array_equal(np.float32(value), np.float32(wanted[name][step]), equal_nan=True)


def table(file: Path) -> list[dict[str, str]]:
    with open(file, newline="") as opened:
        return list(csv.DictReader(opened))


def check_table(file: Path, metrics: Metrics) -> None:
    read = table(file)
    assert [int(row["iteration"]) for row in read] == metrics["iteration"]
    for row, wanted in zip(read, map(numbers_of, metrics), strict=True):
        for name, value in wanted.items():
            assert row[name] == ("" if value is None else repr(value))


def test_tensorboard_reads_back_the_numbers(tmp_path: Path) -> None:
    result = train(callbacks=[Added(), TensorBoard(tmp_path / "tb")])
    check_events(tmp_path / "tb", result.metrics)
    assert events(tmp_path / "tb")["extra"][0][0] == 10  # None at 0 is left out, NaN at 10 is not


def test_a_table_holds_the_numbers(tmp_path: Path) -> None:
    result = train(callbacks=[Added(), CSV(tmp_path / "deep/a.csv")])
    check_table(tmp_path / "deep/a.csv", result.metrics)
    assert [row["extra"] for row in table(tmp_path / "deep/a.csv")] == ["", "nan", "20.0", "30.0", "40.0"]


def test_a_resumed_run_has_no_step_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "1e9")
    train(iterations=20, out=tmp_path / "a", callbacks=[TensorBoard(), CSV()])  # ends with a checkpoint
    with pytest.raises(Stop):  # rows 30 and 40 are logged, and their checkpoint is not written
        train(iterations=100, out=tmp_path / "a", resume=True, callbacks=[TensorBoard(), CSV(), StopAt(40)])
    result = train(iterations=100, out=tmp_path / "a", resume=True, callbacks=[TensorBoard(), CSV()])
    assert result.metrics["iteration"] == list(range(0, 101, 10))
    check_events(tmp_path / "a/tensorboard", result.metrics)
    check_table(tmp_path / "a/metrics.csv", result.metrics)


def test_a_logger_that_comes_later_has_the_earlier_rows(tmp_path: Path) -> None:
    train(iterations=20, out=tmp_path / "a")
    result = train(iterations=40, out=tmp_path / "a", resume=True, callbacks=[TensorBoard(), CSV()])
    check_events(tmp_path / "a/tensorboard", result.metrics)
    check_table(tmp_path / "a/metrics.csv", result.metrics)


def test_a_run_that_diverges_is_logged_to_its_end(tmp_path: Path) -> None:
    loggers = [TensorBoard(tmp_path / "tb"), CSV(tmp_path / "a.csv")]
    method = peerdescent.algorithms.make("d-sgd-1", eta=50.0)
    with pytest.raises(DivergedError) as error:
        peerdescent.train("quadratic", "ring:3", method, iterations=300, callbacks=loggers, **RUN)
    check_events(tmp_path / "tb", error.value.result.metrics)
    check_table(tmp_path / "a.csv", error.value.result.metrics)


def test_a_foreign_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("name,age\n")
    with pytest.raises(InputError, match="no table"):
        train(callbacks=[CSV(tmp_path / "a.csv")])
    assert (tmp_path / "a.csv").read_text() == "name,age\n"
    with pytest.raises(InputError, match="out"):
        train(callbacks=[CSV()])
    with pytest.raises(InputError, match="path"):
        CSV(3)  # type: ignore[arg-type]


@pytest.mark.parametrize(("name", "make"), [("tensorboard", TensorBoard), ("wandb", WandB)])
def test_a_missing_package_is_named(name: str, make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(InputError, match=rf"need {name}: pip install 'peerdescent\[{name}\]'"):
        make()


@pytest.mark.e2e
def test_the_command_logs_goes_on_and_cleans_up(peerdescent_: Command, here: Path) -> None:
    said = peerdescent_(*COMMAND, "--log", "tensorboard", "--log", "csv", "--out", "a", "--quiet")
    assert said.code == 0, said
    check_events(here / "a/tensorboard", peerdescent.load("a").metrics)
    assert peerdescent_("run", "a", "--resume", "--iterations", "30", "--quiet").code == 0  # with the same loggers
    check_events(here / "a/tensorboard", peerdescent.load("a").metrics)
    check_table(here / "a/metrics.csv", peerdescent.load("a").metrics)
    (here / "a/tensorboard/mine.txt").write_text("mine")
    assert peerdescent_(*COMMAND, "--out", "a", "--overwrite", "--quiet").code == 0
    assert [path.name for path in (here / "a/tensorboard").iterdir()] == ["mine.txt"]
    assert not (here / "a/metrics.csv").exists()
    for words in (["--log", "excel"], ["--log", "csv", "--log", "csv"]):
        refused = peerdescent_(*COMMAND, "--out", "b", *words)
        assert (refused.code, len(refused.sentences)) == (2, 1), refused
        assert not (here / "b").exists()


def test_logging_changes_neither_the_run_nor_its_name(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_(*COMMAND, "--out", "a", "--quiet").code == 0
    assert peerdescent_(*COMMAND, "--out", "b", "--quiet", "--log", "csv").code == 0
    assert (here / "a/experiment.toml").read_bytes() == (here / "b/experiment.toml").read_bytes()
