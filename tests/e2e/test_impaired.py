"""Impaired networks in several processes: the same bits as in one, after a kill too, and nothing sent that is lost."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import process_runs
from tests.support.commands import rows, without_seconds

from peerdescent import Result, train
from peerdescent.training.invariants import COLUMN

pytestmark = pytest.mark.e2e
ALL = {"drop": "gilbert:0.1:0.3", "inactive": "markov:0.1:0.5", "delay": 2, "message_noise": 0.01}
IMPAIRED: dict[str, dict[str, Any]] = {
    "one-sided": {"drop": "0.3:one-sided"},
    "all": ALL,
    "periodic": {**ALL, "communication_period": 3},
    "plain": {**ALL, "kernel": "plain"},
    "bf16": {**ALL, "message_dtype": "bf16"},
}
METHODS = ("d-sgd-1", "d-sgt-1", "dsgpa-f", "d2")


def run(method: str = "d-sgt-1", **settings: Any) -> Result:
    chosen = {"iterations": 30, "batch_size": 4, "eval_every": 10, "gradients": "loop", "seed": 1, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(process_runs.network(5), "ring:5", method, **chosen)


@pytest.fixture(scope="module")
def runs() -> list[dict[str, Any]]:
    common = {"iterations": 12, "eval_every": 6, "gradients": "loop", "seed": 1, "per_agent": False}
    return [{**common, **settings, "method": method} for method in METHODS for settings in IMPAIRED.values()]


@pytest.mark.parametrize("processes", [2, 5])
@pytest.mark.filterwarnings("ignore")
def test_any_number_of_processes_gives_the_same_bits(processes: int, runs: list[dict[str, Any]]) -> None:
    for settings, several in zip(runs, process_runs.in_processes(processes, runs), strict=True):
        one = process_runs.one_run(None, **settings)
        if settings.get("kernel") == "plain":  # torch's products of blocks round differently
            assert torch.allclose(one.x, several.x, rtol=0, atol=1e-5), settings
        else:
            assert torch.equal(one.x, several.x), settings
            assert without_seconds(one.metrics) == without_seconds(several.metrics)
        if processes == 5:  # then every row that travels along an edge travels between processes
            assert several.interprocess_bytes == several.metrics[-1]["bytes_sent"], settings


def test_a_killed_process_is_restarted_and_the_bits_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    undisturbed = run(out=tmp_path / "a", **ALL)
    killed = run(out=tmp_path / "b", workers=2, kill=["4@17"], on_loss="restart", **ALL)
    assert torch.equal(undisturbed.x, killed.x)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert undisturbed.notes == killed.notes == []


@pytest.mark.parametrize(("before", "after"), [(2, 1), (1, 5)])
def test_late_messages_survive_a_resume_in_another_placement(before: int, after: int, tmp_path: Path) -> None:
    whole = run(out=tmp_path / "a", **ALL)
    run(out=tmp_path / "b", workers=before, iterations=20, **ALL)
    resumed = run(out=tmp_path / "b", workers=after, resume=True, **ALL)
    assert torch.equal(whole.x, resumed.x)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


def test_the_first_breach_is_named_again_after_a_resume(tmp_path: Path) -> None:
    whole = run(out=tmp_path / "a", drop="0.3:one-sided")
    run(out=tmp_path / "b", drop="0.3:one-sided", iterations=20)
    resumed = run(out=tmp_path / "b", drop="0.3:one-sided", resume=True)
    assert resumed.notes == whole.notes
    assert "invariant violated at iteration" in whole.notes[1]


@pytest.mark.parametrize("method", ["d-sgt-1", "dsgpa-f"])
def test_the_agents_that_are_left_go_on(method: str, tmp_path: Path) -> None:
    settings = {**ALL, "out": tmp_path / method}
    left = run(method, workers=5, kill=["4@15"], on_loss="continue", **settings)
    assert left.lost == (4,)
    assert not any("invariant" in note for note in left.notes)
    assert left.metrics[-1][COLUMN] < 1e-3
    back = run(method, iterations=40, resume=True, **settings)
    assert len(back.x) == 5
    assert back.metrics[-1][COLUMN] < 1e-3
