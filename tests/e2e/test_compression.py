"""Compressed messages in several processes: the bits of one, real bytes, and public copies that survive."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import process_runs, training_loops
from tests.support.commands import rows, without_seconds

from peerdescent import Result, train
from peerdescent.distributed.launcher import workers
from peerdescent.mixing.compressors import parse

pytestmark = pytest.mark.e2e
SETTINGS: dict[str, Any] = {"iterations": 40, "batch_size": 4, "eval_every": 10, "gradients": "loop", "seed": 2}


def run(method: str = "d-sgt-1", compress: str = "topk:0.1", **settings: Any) -> Result:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        problem = process_runs.network(5)
        return train(problem, "ring:5", method, compress=compress, **{**SETTINGS, **settings})


@pytest.mark.parametrize(
    ("method", "compress", "settings"),
    [
        ("d-sgt-1", "topk:0.1", {}),
        ("dsgpa-f-pb", "qsgd:4", {}),
        ("gossip-sgd", "randk:0.3", {"communication_period": 3}),
        ("d-sgd-1", "sign", {"dtype": "float64"}),
    ],
)
def test_any_placement_gives_the_same_bits(method: str, compress: str, settings: dict[str, Any]) -> None:
    one, two, five = (run(method, compress, workers=workers, **settings) for workers in (1, 2, 5))
    assert torch.equal(one.x, two.x)
    assert torch.equal(one.x, five.x)
    assert without_seconds(one.metrics) == without_seconds(two.metrics) == without_seconds(five.metrics)
    assert five.interprocess_bytes == five.metrics[-1]["bytes_sent"]


def test_killed_and_restarted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    undisturbed = run(out=tmp_path / "a")
    killed = run(out=tmp_path / "b", workers=2, kill=["4@25"], on_loss="restart")
    assert torch.equal(undisturbed.x, killed.x)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")


@pytest.mark.parametrize(("before", "after"), [(1, 5), (5, 2)])
def test_resumed_in_another_placement(before: int, after: int, tmp_path: Path) -> None:
    whole = run("dsgpa-f", "qsgd:3")
    run("dsgpa-f", "qsgd:3", out=tmp_path / "run", workers=before, iterations=20)
    resumed = run("dsgpa-f", "qsgd:3", out=tmp_path / "run", workers=after, resume=True)
    assert torch.equal(whole.x, resumed.x)
    assert resumed.metrics[-1]["bytes_sent"] == whole.metrics[-1]["bytes_sent"]


def test_the_others_keep_their_copies_when_an_agent_is_lost(tmp_path: Path) -> None:
    result = run(workers=5, kill=["4@15"], on_loss="continue", iterations=60, out=tmp_path / "run")
    assert result.lost == (4,)
    assert len(result.x) == 4
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]
    back = run(workers=2, iterations=80, out=tmp_path / "run", resume=True)
    assert len(back.x) == 5
    assert back.metrics[-1]["loss"] < result.metrics[0]["loss"]


@pytest.mark.parametrize(("method", "compress"), [("d-sgt-1", "topk:0.1"), ("d-sgd-1", "qsgd:4")])
def test_optimizers_equal_the_simulator_and_continue_from_a_file(method: str, compress: str, tmp_path: Path) -> None:
    loops = training_loops
    with workers(loops.AGENTS, loops.compressed, tmp_path, method, compress) as group:
        found = loops.compressed(group, tmp_path, method, compress)
    problem = process_runs.network(loops.AGENTS)
    chosen: dict[str, Any] = {"iterations": loops.STEPS, "batch_size": loops.BATCH, "gradients": "loop"}
    assert torch.equal(found["whole"], found["continued"])
    vectors, row = 2 if method == "d-sgt-1" else 1, parse(compress).row_bytes(problem.dimension, torch.float32)
    messages = (loops.STEPS + 1) * vectors * row  # that of the next iteration has left
    assert found["bytes"].flatten().tolist() == [messages, 2 * messages, 2 * messages, messages]
    if compress.startswith("topk"):  # the optimizers have no seed for random rounding but 0
        one = train(problem, loops.GRAPH, method, compress=compress, consensus_step=0.3, seed=loops.SEED, **chosen)
        assert torch.equal(found["whole"], one.x)
