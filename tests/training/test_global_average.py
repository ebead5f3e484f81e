"""Global averages every P-th iteration and at the end: by hand, in both kernels, resumed, loaded, and their bytes."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.chosen_methods import EVERY_METHOD

from peerdescent import algorithms, graphs, load, train
from peerdescent.errors import InputError
from peerdescent.problems import quadratic

PROBLEM = quadratic(agents=5, dimension=7, noise=0.0)
A, C = PROBLEM.A.numpy(), PROBLEM.c.numpy()
W, L = graphs.ring(5).mixing().toarray(), graphs.ring(5).laplacian().toarray()
SCHEDULE, EXCHANGES = "6,3@10,1@17", (5, 12, 15, 17, 18, 19)
P, K, ETA = 7, 20, 0.05
AVERAGES = (6, 13)
Rows = np.ndarray


def gradient(x: Rows) -> Rows:
    return np.stack([A[i] @ (x[i] - C[i]) for i in range(5)])


def mean(x: Rows) -> Rows:
    return np.tile(x.sum(axis=0) / 5, (5, 1))


def d_sgd_1() -> Rows:
    x = np.zeros((5, 7))
    for k in range(K):
        x = (W @ x if k in EXCHANGES else x) - ETA * gradient(x)
        x = mean(x) if k in AVERAGES else x
    return x


def d2() -> Rows:
    x, v = np.zeros((5, 7)), np.zeros((5, 7))
    for k in range(K):
        if k in EXCHANGES:
            phi = x - ETA * gradient(x) - v
            x, v = W @ phi, v + phi - W @ phi
        else:
            x = x - ETA * gradient(x)
        x = mean(x) if k in AVERAGES else x
    return x


def tracking() -> Rows:
    x, y, g_prev = np.zeros((5, 7)), np.zeros((5, 7)), np.zeros((5, 7))
    for k in range(K):
        M = W if k in EXCHANGES else np.eye(5)
        g = gradient(x)
        y = M @ y + g - g_prev
        x, g_prev = M @ x - ETA * y, g
        x = mean(x) if k in AVERAGES else x
    return x


def nesterov() -> Rows:
    x, before = np.zeros((5, 7)), np.zeros((5, 7))
    for k in range(K):
        y = x + 0.8 * (x - before)
        x, before = (W @ y if k in EXCHANGES else y) - ETA * gradient(y), x
        if k in AVERAGES:
            velocity = x - before
            x = mean(x)
            before = x - velocity
    return x


def outer() -> Rows:
    x, m, anchor, M = (np.zeros((5, 7)) for _ in range(4))
    for k in range(K):
        m = 0.5 * m + gradient(x)
        x = x - ETA * m
        if k in EXCHANGES:
            delta = anchor - x
            M = 0.8 * M + delta
            x = anchor = W @ (anchor - 0.6 * (delta + 0.8 * M))
        if k in AVERAGES:
            x, anchor = mean(x), mean(anchor)
    return x


CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "d-sgd-1": (d_sgd_1, {}),
    "d2": (d2, {}),
    "d-sgt-1": (tracking, {}),
    "d-asg": (nesterov, {"beta": 0.8}),
    "gossip-sgd-outer": (outer, {"momentum": 0.5, "outer_lr": 0.6, "outer_momentum": 0.8}),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_averages_and_a_schedule_of_periods_agent_by_agent(name: str, kernel: str) -> None:
    by_hand, values = CASES[name]
    method = algorithms.make(name, eta=ETA, **values)
    shared: dict[str, Any] = {"communication_period": SCHEDULE, "average_every": P, "eval_every": 1}
    result = train(PROBLEM, "ring:5", method, iterations=K, kernel=kernel, dtype="float64", **shared)
    np.testing.assert_allclose(result.x.numpy(), by_hand(), atol=1e-12)
    assert not any("invariant" in note for note in result.notes)
    vectors, averaged = (2, 1) if name == "d-sgt-1" else (1, 2) if name.endswith("outer") else (1, 1)
    sent = [
        sum(j < k for j in EXCHANGES) * vectors * 7 * 8 * 2 * 5
        + sum(j < k for j in AVERAGES) * averaged * 7 * 8 * 2 * 4
        for k in range(K + 1)
    ]
    assert [row["bytes_sent"] for row in result.metrics] == sent


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_all_agents_hold_the_mean_and_invariants_stay(name: str) -> None:
    settings: dict[str, Any] = {"communication_period": 2, "average_every": 3, "eval_every": 1, "ema": 0.9}
    result = train(PROBLEM, "ring:5", algorithms.make(name), iterations=9, dtype="float64", **settings)
    assert [row["consensus_error"] for row in result.metrics][3::3] == [0.0, 0.0, 0.0]
    assert not any("invariant" in note for note in result.notes)


def test_the_final_average_is_no_part_of_the_trajectory(tmp_path: Path) -> None:
    shared: dict[str, Any] = {"eval_every": 5, "communication_period": 3}
    plain = train("quadratic", "ring:5", "d2", iterations=10, **shared)
    merged = train("quadratic", "ring:5", "d2", iterations=10, final_average=True, out=tmp_path / "a", **shared)
    assert torch.equal(merged.x, plain.x.mean(dim=0).expand_as(plain.x))
    assert merged.metrics[-1]["consensus_error"] == 0.0
    p = merged.x.shape[1]
    assert merged.metrics[-1]["bytes_sent"] == plain.metrics[-1]["bytes_sent"] + 2 * 4 * p * 4
    assert torch.equal(load(tmp_path / "a").x, merged.x)
    again = train(
        "quadratic", "ring:5", "d2", iterations=10, final_average=True, out=tmp_path / "a", resume=True, **shared
    )
    assert torch.equal(again.x, merged.x)
    longer = train(
        "quadratic", "ring:5", "d2", iterations=20, final_average=True, out=tmp_path / "a", resume=True, **shared
    )
    whole = train("quadratic", "ring:5", "d2", iterations=20, final_average=True, **shared)
    assert torch.equal(longer.x, whole.x)


def test_the_final_average_follows_early_stopping() -> None:
    shared: dict[str, Any] = {"iterations": 40, "eval_every": 1, "patience": 2, "final_average": True}
    result = train("quadratic", "ring:5", algorithms.DSGD1(eta=0.0), **shared)
    assert result.stopped_early
    assert torch.equal(result.x, result.x[:1].expand_as(result.x))


@pytest.mark.parametrize("stop", [6, 7, 8])
def test_a_run_goes_on_around_an_average(stop: int, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"communication_period": SCHEDULE, "average_every": P, "ema": 0.9, "eval_every": 1}
    shared |= {"weight_decay": 0.1, "decay": "decoupled"}
    whole = train("quadratic", "ring:5", "d-asg", iterations=K, **shared)
    train("quadratic", "ring:5", "d-asg", iterations=stop, out=tmp_path / "a", **shared)
    resumed = train("quadratic", "ring:5", "d-asg", iterations=K, out=tmp_path / "a", resume=True, **shared)
    assert torch.equal(resumed.x, whole.x)
    assert torch.equal(resumed.x_ema, whole.x_ema)
    assert resumed.metrics["bytes_sent"] == whole.metrics["bytes_sent"]


@pytest.mark.parametrize("given", [{"average_every": 0}, {"average_every": "3"}, {"final_average": 1}])
def test_wrong_values_are_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(given))):
        train(PROBLEM, "ring:5", "d2", **given)
