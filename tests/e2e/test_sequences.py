"""Graphs that change over time, in several processes and in optimizers: the trajectory and bytes of one process."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.process_runs import in_processes, network, one_run
from tests.support.training_loops import AGENTS, BATCH, SEED, STEPS, over_time

from peerdescent import algorithms, graphs, train
from peerdescent.algorithms import PRESETS
from peerdescent.distributed.launcher import workers
from peerdescent.errors import PeerLostError
from peerdescent.tracing.recording import vectors_sent

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::UserWarning")]
GRAPHS = ("onepeer-exp:8", "matching:7:seed=1", "base:6:1", "matcha:ring:6:0.5")
METHODS = ("dsgpa-f", "d-sgt-1", "d2", "gossip-adamw", "c-sgd")


def runs() -> list[dict[str, Any]]:
    common = {"gradients": "loop", "iterations": 12, "per_agent": False}
    each = [{"graph": graph, "method": method, **common} for graph in GRAPHS[:2] for method in METHODS]
    more = [{"graph": graph, "method": "d-sgt-1", **common} for graph in GRAPHS]
    variants = [{"message_dtype": "bf16"}, {"communication_period": 3}, {"kernel": "plain"}]
    return [*each, *more, *({**more[0], **variant} for variant in variants)]


@pytest.mark.parametrize("count", [2, 5])
def test_any_number_of_processes_has_the_same_trajectory(count: int) -> None:
    for one, several in zip([_agents(run) for run in runs()], in_processes(count, runs()), strict=True):
        assert several.processes == count
        if one.settings.kernel == "plain":  # products of matrices of other sizes round differently
            torch.testing.assert_close(one.x, several.x)
        else:
            assert torch.equal(one.x, several.x), (one.graph, one.algorithm)
        assert one.metrics["bytes_sent"] == several.metrics["bytes_sent"]


def _agents(run: dict[str, Any]) -> Any:
    return one_run(None, **run)


def test_one_agent_per_process_sends_what_is_recorded() -> None:
    run = {"graph": "onepeer-exp:4", "method": "d-sgt-1", "gradients": "loop", "iterations": 12, "per_agent": False}
    (result,) = in_processes(4, [run])
    assert result.interprocess_bytes == result.metrics["bytes_sent"][-1]


def test_an_optimizer_has_the_trajectory_of_the_simulator() -> None:
    names = [name for name in PRESETS if name != "c-sgd"]
    specs = ("onepeer-exp:4", "matching:4")
    with workers(AGENTS, over_time, specs, names) as group:
        found = over_time(group, specs, names)
    for spec in specs:
        for name in names:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = train(
                    network(AGENTS),
                    spec,
                    algorithms.make(name),
                    iterations=STEPS,
                    batch_size=BATCH,
                    seed=SEED,
                    gradients="loop",
                    per_agent=False,
                    compress="none",
                )
            assert torch.equal(found[f"{name} {spec}"], result.x), (name, spec)
            first = vectors_sent(result.algorithm) * result.problem.dimension * 4  # the next step's messages have left
            sent = [int(row) for row in found[f"{name} {spec} bytes"].flatten()]
            assert 0 <= sum(sent) - result.metrics["bytes_sent"][-1] <= 4 * first


@pytest.mark.parametrize("graph", ["onepeer-exp:8", "matching:6"])
def test_killed_and_resumed_in_another_placement(graph: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    agents = graphs.parse(graph).n
    chosen: dict[str, Any] = {"iterations": 20, "eval_every": 5, "batch_size": 4, "gradients": "loop"}
    whole = train(network(agents), graph, "d-sgt-1", **chosen)
    with pytest.raises(PeerLostError):
        train(network(agents), graph, "d-sgt-1", out=tmp_path / "a", workers=3, kill=["5@13"], **chosen)
    resumed = train(network(agents), graph, "d-sgt-1", out=tmp_path / "a", workers=2, resume=True, **chosen)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.metrics["bytes_sent"] == whole.metrics["bytes_sent"]


def test_the_others_go_on_when_agents_are_lost() -> None:
    chosen: dict[str, Any] = {"iterations": 40, "eval_every": 10, "batch_size": 0, "dtype": "float64"}
    result = train(network(6), "matching:6", "d-sgt-1", workers=3, on_loss="continue", kill=["5@15"], **chosen)
    assert result.lost == (4, 5)
    assert result.x.shape[0] == 4
    assert not result.diverged
