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


@pytest.mark.parametrize(
    ("method", "compress", "graph"),
    [
        ("d-sgt-1", "topk:0.1", "path:4"),
        ("d-sgd-1", "qsgd:4", "path:4"),
        ("d-sgt-1", "topk:0.1", "onepeer-exp:4"),
        ("dsgpa-f", "randk:0.3", "matching:4"),
    ],
)
def test_optimizers_equal_the_simulator_and_continue_from_a_file(
    method: str, compress: str, graph: str, tmp_path: Path
) -> None:
    loops = training_loops
    with workers(loops.AGENTS, loops.compressed, tmp_path, method, compress, graph) as group:
        found = loops.compressed(group, tmp_path, method, compress, graph)
    problem = process_runs.network(loops.AGENTS)
    chosen: dict[str, Any] = {"iterations": loops.STEPS, "batch_size": loops.BATCH, "gradients": "loop"}
    assert torch.equal(found["whole"], found["continued"])
    vectors, row = 2 if method == "d-sgt-1" else 1, parse(compress).row_bytes(problem.dimension, torch.float32)
    degrees = {"path:4": [1, 2, 2, 1]}.get(graph, [1, 1, 1, 1])
    messages = (loops.STEPS + 1) * vectors * row  # that of the next iteration has left
    assert found["bytes"].flatten().tolist() == [degree * messages for degree in degrees]
    one = train(problem, graph, method, compress=compress, consensus_step=0.3, seed=loops.SEED, **chosen)
    assert torch.equal(found["whole"], one.x)


CHANGING: dict[str, dict[str, Any]] = {
    "one peer": {"graph": "onepeer-exp:8", "compress": "topk:0.1"},
    "matchings": {"graph": "matching:6", "compress": "qsgd:4", "communication_period": 2},
    "lost": {"graph": "ring:6", "compress": "randk:0.3", "drop": "0.3"},
    "one-sided": {"graph": "onepeer-exp:8", "compress": "sign", "drop": "0.3:one-sided"},
    "inactive": {"graph": "er:6:0.6", "compress": "qsgd:3", "inactive": "0.2"},
    "late": {"graph": "ring:6", "compress": "topk:0.1", "delay": 2},
    "late on one peer": {"graph": "onepeer-exp:8", "compress": "qsgd:4", "delay": 1},
}


def pair_runs() -> list[dict[str, Any]]:
    common = {"iterations": 12, "eval_every": 6, "gradients": "loop", "seed": 1, "per_agent": False}
    return [{**common, **each, "method": method} for each in CHANGING.values() for method in ("d-sgt-1", "dsgpa-f")]


@pytest.mark.parametrize("processes", [2, 5, 6])
@pytest.mark.filterwarnings("ignore")
def test_copies_of_pairs_in_any_number_of_processes(processes: int) -> None:
    for settings, several in zip(pair_runs(), process_runs.in_processes(processes, pair_runs()), strict=True):
        one = process_runs.one_run(None, **settings)
        assert torch.equal(one.x, several.x), settings
        assert without_seconds(one.metrics) == without_seconds(several.metrics)
        if processes == 6 and "6" in settings["graph"]:  # then every message travels between processes
            assert several.interprocess_bytes == several.metrics[-1]["bytes_sent"], settings


@pytest.mark.parametrize("name", ["one peer", "lost", "late", "late on one peer"])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_copies_of_pairs_resumed_in_another_placement(name: str, before: int, after: int, tmp_path: Path) -> None:
    def changing(**more: Any) -> Result:
        return process_runs.one_run(None, **{**SETTINGS, **CHANGING[name], "method": "d-sgt-1", **more})

    for stop in (1, 20):  # before the first late messages arrive, and after
        out = tmp_path / str(stop)
        changing(iterations=stop, eval_every=1, out=out, workers=before)
        resumed = changing(eval_every=1, out=out, workers=after, resume=True)
        whole = changing(eval_every=1)
        assert torch.equal(whole.x, resumed.x), stop
        assert resumed.metrics[-1]["bytes_sent"] == whole.metrics[-1]["bytes_sent"]


@pytest.mark.parametrize("name", ["one peer", "lost"])
@pytest.mark.filterwarnings("ignore")
def test_the_others_keep_their_copies_of_pairs_when_an_agent_is_lost(name: str, tmp_path: Path) -> None:
    changing = {**SETTINGS, **CHANGING[name], "method": "d-sgt-1", "out": tmp_path / "run"}
    agents = len(process_runs.one_run(None, **{**changing, "iterations": 1, "out": None}).x)
    lost = agents - 1
    left = process_runs.one_run(None, **changing, workers=agents, kill=[f"{lost}@15"], on_loss="continue")
    assert left.lost == (lost,)
    assert left.metrics[-1]["loss"] < left.metrics[0]["loss"]
    assert not any("invariant" in note for note in left.notes)
    back = process_runs.one_run(None, **{**changing, "iterations": 80}, workers=2, resume=True)
    assert len(back.x) == agents
    assert back.metrics[-1]["loss"] < left.metrics[0]["loss"]
