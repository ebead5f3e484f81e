"""Settings of impairments, inactive agents with buffers of their own, and bytes that are not sent."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from peerdescent import InputError, train
from peerdescent.experiments.schema import from_keys
from peerdescent.problems import quadratic, supervised
from peerdescent.training.plan import plain, with_defaults
from peerdescent.training.settings import Settings


def test_a_probability_may_be_a_number():
    assert from_keys({"drop": 0.1, "inactive": 0}).drop == "0.1"
    assert from_keys({"drop": 0.1, "inactive": 0}).inactive == "0"
    assert Settings(drop="gilbert:.1:.2").impaired
    assert not Settings().impaired


@pytest.mark.parametrize("given", [{"drop": True}, {"drop": "1.5"}, {"inactive": [0.1]}, {"inactive": "cyclic:3"},
                                   {"delay": -1}, {"delay": 10**6}, {"message_noise": -0.1}])  # fmt: skip
def test_wrong_values_are_refused_by_name(given):
    (name,) = given
    with pytest.raises(InputError, match=rf"^{name} = .*\.$"):
        Settings(**given)


def test_older_records_are_those_of_a_perfect_network():
    now = plain(Settings(compress="none"))
    recorded = {key: value for key, value in now.items() if key not in ("compress", "delay", "message_noise")}
    assert with_defaults(recorded) == now


def test_an_inactive_agent_keeps_its_point_and_its_running_statistics():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    x = torch.randn(40, 3, generator=torch.Generator().manual_seed(0))
    problem = supervised(model, nn.functional.mse_loss, (x, x.sum(dim=1, keepdim=True)), 4)
    start = problem.start(0)
    run = train(problem, "ring:4", "d-sgd-1", iterations=1, batch_size=4, inactive="cyclic:4:1")
    assert torch.equal(run.x[0], start[0])
    assert not torch.isclose(run.x[1:], start[1:]).all(dim=1).any()
    means = next(rows for name, rows in run.buffers.items() if name.endswith("running_mean"))
    assert (means[0] == 0).all()
    assert (means[1:].abs().sum(dim=1) > 0).all()


def test_a_moving_average_waits_with_its_agent():
    run = train(quadratic(4, 2), "ring:4", "d-sgd-1", iterations=3, batch_size=0, inactive="cyclic:4:3", ema=0.5)
    assert run.x_ema is not None
    assert torch.isfinite(run.x_ema).all()


def test_lost_messages_are_not_counted():
    p, iterations = 3, 200
    problem = quadratic(10, p)
    whole, lossy, late = (
        train(problem, "ring:10", "d-sgt-1", iterations=iterations, batch_size=0, eval_every=10, **settings)
        for settings in ({}, {"drop": "0.25"}, {"delay": 7})
    )
    every_round = 2 * 10 * 2 * p * 4
    assert whole.metrics[-1]["bytes_sent"] == iterations * every_round
    assert late.metrics["bytes_sent"][:2] == [0, 3 * every_round]
    share = lossy.metrics[-1]["bytes_sent"] / whole.metrics[-1]["bytes_sent"]
    assert share == pytest.approx(0.75, abs=0.04)
    assert lossy.metrics[-1]["bytes_sent"] % (every_round // 10) == 0


def test_delay_takes_memory_before_the_run():
    from peerdescent.algorithms import make
    from peerdescent.graphs import as_graph
    from peerdescent.training.plan import make_plan

    arrays = [
        make_plan(quadratic(4, 2), as_graph("ring:4"), make("d-sgt-1"), Settings(delay=delay)).memory().arrays
        for delay in (0, 5)
    ]
    assert arrays[1] - arrays[0] == 10
