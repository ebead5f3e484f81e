"""Random exchanges in several processes: the trajectory and the bytes of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tests.support.process_runs import in_processes, network, one_run
from tests.support.training_loops import AGENTS, BATCH, SEED, STEPS, over_time

from peerdescent import algorithms, train
from peerdescent.distributed.launcher import workers

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore::UserWarning")]


@pytest.mark.parametrize("count", [2, 5])
def test_any_number_of_processes_has_the_same_trajectory(count: int) -> None:
    common: dict[str, Any] = {"gradients": "loop", "iterations": 30, "communication_period": "random:0.3"}
    runs = [{**common, "method": name} for name in ("proxskip", "led", "k-gt", "choco-sgd", "motef", "dsgpa-f")]
    for run, several in zip(runs, in_processes(count, runs), strict=True):
        one = one_run(None, **run)
        assert torch.equal(one.x, several.x), run["method"]
        assert one.metrics["bytes_sent"] == several.metrics["bytes_sent"]


def test_an_optimizer_has_the_trajectory_of_the_simulator() -> None:
    names = ("proxskip", "k-gt", "choco-sgd", "motef", "d-sgt-1")
    options: dict[str, Any] = {"communication_period": "random:0.4", "seed": SEED, "compress": None}
    with workers(AGENTS, over_time, ("ring:4",), names, options) as group:
        found = over_time(group, ("ring:4",), names, options)
    for name in names:
        run: dict[str, Any] = {"iterations": STEPS, "batch_size": BATCH, "gradients": "loop", "per_agent": False}
        result = train(network(AGENTS), "ring:4", algorithms.make(name), **run, **options)
        assert torch.equal(found[f"{name} ring:4"], result.x), name
