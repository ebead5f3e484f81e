"""Weight decay, clipping, moving averages, early stopping and metrics in several processes: the same as in one."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import process_runs
from tests.support.commands import rows, without_seconds

from peerdescent import InputError, Result, train
from peerdescent.problems import Supervised
from peerdescent.runs.folder import read_summary

pytestmark = pytest.mark.e2e
SETTINGS: dict[str, Any] = {
    "iterations": 40,
    "batch_size": 4,
    "eval_every": 10,
    "gradients": "loop",
    "weight_decay": 0.01,
    "clip_norm": 0.5,
    "ema": 0.9,
    "metrics": {"largest_error": process_runs.largest_error},
}


def problem() -> Supervised:
    made = process_runs.network(6)
    assert isinstance(made, Supervised)
    made.test = made.inputs[:20], made.targets[:20]
    return made


def run(method: str = "d-sgt-1", **settings: Any) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(problem(), "ring:6", method, **{**SETTINGS, **settings})


@pytest.mark.parametrize("method", ["d-sgt-1", "d-asg"])
@pytest.mark.parametrize("decay", ["coupled", "decoupled"])
def test_three_processes_give_the_bits_of_one(method: str, decay: str) -> None:
    one, three = (run(method, decay=decay, workers=workers) for workers in (1, 3))
    assert torch.equal(one.x, three.x)
    assert one.x_ema is not None
    assert three.x_ema is not None
    assert torch.equal(one.x_ema, three.x_ema)
    assert without_seconds(one.metrics) == without_seconds(three.metrics)
    assert {"ema_test_loss", "ema_largest_error", "agent_largest_error"} <= set(three.metrics[-1])


def test_a_killed_process_is_restarted_and_the_average_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    undisturbed = run(decay="decoupled", out=tmp_path / "a")
    killed = run(decay="decoupled", out=tmp_path / "b", workers=2, kill=["4@25"], on_loss="restart")
    assert undisturbed.x_ema is not None
    assert killed.x_ema is not None
    assert torch.equal(undisturbed.x_ema, killed.x_ema)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_agents_that_are_left_keep_their_averages() -> None:
    result = run(workers=3, kill=["5@15"], on_loss="continue", iterations=20)
    assert result.lost == (4, 5)
    assert len(result.x) == 4
    assert result.metrics[-1]["ema_loss"] > 0


def test_all_processes_stop_early_together(tmp_path: Path) -> None:
    chosen: dict[str, Any] = {"iterations": 4000, "eval_every": 5, "patience": 3, "monitor": "test_loss"}
    one, two = (run(workers=workers, out=tmp_path / str(workers), **chosen) for workers in (1, 2))
    assert one.stopped_early
    assert two.stopped_early
    assert rows(tmp_path / "1") == rows(tmp_path / "2")
    before = (tmp_path / "2" / "metrics.jsonl").read_bytes()
    assert run(workers=2, out=tmp_path / "2", resume=True, **chosen).stopped_early
    assert (tmp_path / "2" / "metrics.jsonl").read_bytes() == before
    assert read_summary(tmp_path / "2")["status"] == "stopped early"


def test_a_metric_that_fails_in_other_processes_is_one_sentence() -> None:
    with pytest.raises(InputError, match="the metric 'bad' fails: ValueError: no number today"):
        run(metrics={"bad": process_runs.failing_metric}, workers=2)
