"""Directed graphs in several processes and in optimizers: the same bits, after a kill and without lost agents too."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.mixing.test_push_sum import OVER_TIME
from tests.support.process_runs import in_processes, network, one_run
from tests.support.training_loops import AGENTS, BATCH, SEED, STEPS, over_time

from peerdescent import algorithms, train
from peerdescent.distributed.launcher import workers
from peerdescent.errors import PeerLostError

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::UserWarning")]
UNEQUAL = "directed-edges:0-1,0-2,0-3,0-4,1-0,2-0,3-2,4-5,5-1"
METHODS = ("sgp", "push-diging")


def runs() -> list[dict[str, Any]]:
    common = {"gradients": "loop", "iterations": 12, "per_agent": False}
    specs = ("directed-ring:6", "directed-exp:6", "directed-onepeer-exp:6", UNEQUAL, OVER_TIME)
    each = [{"graph": spec, "method": method, **common} for spec in specs for method in METHODS]
    variants = [{"communication_period": 3}, {"kernel": "plain"}, {"dtype": "float64"}, {"average_every": 5}]
    return [*each, *({**common, "graph": UNEQUAL, "method": "push-diging", **variant} for variant in variants)]


@pytest.mark.parametrize("count", [2, 3])
def test_any_number_of_processes_has_the_same_trajectory(count: int) -> None:
    for run, several in zip(runs(), in_processes(count, runs()), strict=True):
        one = one_run(None, **run)
        assert several.processes == count
        if run.get("kernel") == "plain":  # products of matrices of other sizes round differently
            torch.testing.assert_close(one.x, several.x)
        else:
            assert torch.equal(one.x, several.x), run
        assert one.metrics["bytes_sent"] == several.metrics["bytes_sent"]


def test_one_agent_per_process_sends_what_is_recorded() -> None:
    for result in in_processes(4, [{**run, "graph": OVER_TIME} for run in runs()[:2]]):
        assert result.interprocess_bytes == result.metrics["bytes_sent"][-1]


def test_an_optimizer_has_the_trajectory_of_the_simulator() -> None:
    specs = ("directed-ring:4", OVER_TIME)
    with workers(AGENTS, over_time, specs, METHODS) as group:
        found = over_time(group, specs, METHODS)
    for spec in specs:
        for name in METHODS:
            chosen: dict[str, Any] = {"iterations": STEPS, "batch_size": BATCH, "seed": SEED, "per_agent": False}
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = train(network(AGENTS), spec, algorithms.make(name), gradients="loop", **chosen)
            assert torch.equal(found[f"{name} {spec}"], result.x), (name, spec)


@pytest.mark.parametrize("method", METHODS)
def test_killed_and_resumed_in_another_placement(method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    chosen: dict[str, Any] = {"iterations": 20, "eval_every": 5, "batch_size": 4, "gradients": "loop"}
    whole = train(network(6), UNEQUAL, method, **chosen)
    with pytest.raises(PeerLostError):
        train(network(6), UNEQUAL, method, out=tmp_path / "a", workers=3, kill=["5@13"], **chosen)
    resumed = train(network(6), UNEQUAL, method, out=tmp_path / "a", workers=2, resume=True, **chosen)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.metrics["bytes_sent"] == whole.metrics["bytes_sent"]


@pytest.mark.parametrize("method", METHODS)
def test_the_others_go_on_when_agents_are_lost(method: str) -> None:
    chosen: dict[str, Any] = {"iterations": 400, "eval_every": 10, "batch_size": 0, "dtype": "float64"}
    graph = "directed-edges:0-1,1-2,2-3,3-0,2-0,3-4,4-5,5-0"
    result = train(network(6), graph, method, workers=3, on_loss="continue", kill=["5@15"], **chosen)
    assert result.lost == (4, 5)
    assert result.x.shape[0] == 4
    assert not result.diverged
    assert not any("invariant violated" in note for note in result.notes)


@pytest.mark.parametrize("name", METHODS)
def test_torch_compile_computes_the_same(name: str) -> None:
    chosen: dict[str, Any] = {"iterations": 10, "batch_size": 4, "dtype": "float64", "gradients": "stacked"}
    plain, fused = (train(network(6), UNEQUAL, name, kernel=kernel, **chosen) for kernel in ("plain", "torch"))
    torch.testing.assert_close(plain.x, fused.x)
