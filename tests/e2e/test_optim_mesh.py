"""Optimizers whose agents are a part of the processes: a process group, or one dimension of a device mesh."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch.distributed as dist
from tests.support.quadratic_model import COLUMNS, Model, steps
from torch.distributed.device_mesh import init_device_mesh

from peerdescent import InputError, optim
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup

pytestmark = pytest.mark.e2e
STEPS, LR, ALPHA, BETA = 6, 0.05, 2.0, 1.5


def meshed(group: ProcessGroup) -> list[Any]:
    """Four processes as a 2×2 mesh: agents along one dimension, twice; all processes; and what is refused."""
    mesh, rank = init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicate", "shard")), group.rank
    found: dict[str, Any] = {}
    subgroup, _ = dist.new_subgroups(2)  # {0, 1} and {2, 3}
    for name, where in {
        "replicate": {"mesh": mesh["replicate"]},
        "subgroup": {"process_group": subgroup},
        "again": {"mesh": mesh["replicate"], "kernel": "plain"},
    }.items():
        model = Model(rank)
        opt = optim.DSGPA(model.parameters(), "complete:2", LR, ALPHA, BETA, **where)  # type: ignore[arg-type]
        steps(model, opt, STEPS if rank in (0, 2) or name == "subgroup" else STEPS + 3)  # the others go their own way
        with opt.averaged(model):
            mean = model.values()
        opt.wait()
        found[name] = model.values(), mean
    model = Model(rank)
    opt = optim.DSGPA(model.parameters(), "complete:4", LR, ALPHA, BETA)
    steps(model, opt, STEPS)
    opt.wait()
    found["all"] = model.values(), []
    for name, where in {"2-D": {"mesh": mesh}, "two": {"mesh": mesh["shard"], "process_group": subgroup}}.items():
        try:
            optim.DSGD1(model.parameters(), "complete:2", **where)  # type: ignore[arg-type]
        except InputError as error:
            found[name] = str(error)
    gathered = group.gather_object(found)
    group.barrier()
    return gathered


def dsgpa(ranks: list[int], count: int) -> Any:
    """x of these agents on a complete graph, where L = I − 1/n, transcribed."""
    n = len(ranks)
    c = np.array([np.tile(np.arange(COLUMNS) * (rank + 1.0) - rank, 2) for rank in ranks])
    x = np.array([[rank + 1.0] * COLUMNS + [rank - 1.0] * 4 for rank in ranks])
    v, L = np.zeros_like(x), np.eye(n) - np.ones((n, n)) / n
    for _ in range(count):
        v = v + LR * BETA * L @ x
        x = x - LR * (ALPHA * L @ x + BETA * v + (x - c))
    return x


def test_the_agents_are_one_dimension_of_a_mesh() -> None:
    with workers(4, meshed) as group:
        found = meshed(group)
    for name, rings in {"replicate": [[0, 2], [1, 3]], "again": [[0, 2], [1, 3]], "subgroup": [[0, 1], [2, 3]]}.items():
        for ranks in rings:
            x = dsgpa(ranks, STEPS if 0 in ranks or name == "subgroup" else STEPS + 3)
            for place, rank in enumerate(ranks):
                values, mean = found[rank][name]
                np.testing.assert_allclose(values[:8], x[place], rtol=1e-5, atol=1e-6)
                np.testing.assert_allclose(mean[:8], x.mean(axis=0), rtol=1e-5, atol=1e-6)
                assert mean[-2:] == [sum(ranks) / 2] * 2  # the buffers' mean over these two processes
    everyone = dsgpa([0, 1, 2, 3], STEPS)
    for rank in range(4):
        np.testing.assert_allclose(found[rank]["all"][0][:8], everyone[rank], rtol=1e-5, atol=1e-6)
        assert found[rank]["2-D"].startswith("mesh has 2 dimensions: give the one along which the agents are")
        assert found[rank]["two"].startswith("process_group and mesh are both given")
