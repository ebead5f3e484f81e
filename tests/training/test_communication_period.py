"""Messages in every m-th iteration only, and the Laplacian that matches the step."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conformance import reference
from tests.support.chosen_methods import EVERY_METHOD

from peerdescent import algorithms, graphs, train
from peerdescent.errors import InputError
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import quadratic
from peerdescent.runs.folder import read_experiment

PROBLEM = quadratic(agents=5, dimension=7, noise=0.0)
RATES = {"eta": 0.05, "alpha": 1.0, "beta": 1.0}


def by_hand(communication_period: int, iterations: int) -> np.ndarray:
    """D-SGD-1 with W = I in between, agent by agent."""
    W = graphs.ring(5).mixing().toarray()
    A, c = PROBLEM.A.numpy(), PROBLEM.c.numpy()
    x = np.zeros((5, 7))
    for k in range(iterations):
        gradient = np.stack([A[i] @ (x[i] - c[i]) for i in range(5)])
        x = (W @ x if (k + 1) % communication_period == 0 else x) - 0.05 * gradient
    return x


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("communication_period", [1, 3, 100])
def test_in_between_every_agent_is_by_itself(kernel: str, communication_period: int) -> None:
    method = algorithms.DSGD1(eta=0.05)
    result = train(
        PROBLEM,
        "ring:5",
        method,
        iterations=20,
        communication_period=communication_period,
        kernel=kernel,
        dtype="float64",
    )
    np.testing.assert_allclose(result.x.numpy(), by_hand(communication_period, 20), atol=1e-12)
    assert result.metrics[-1]["bytes_sent"] == 20 // communication_period * 7 * 8 * 2 * 5


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_every_method_can_be_silent_in_both_carriers(name: str) -> None:
    kind = algorithms.PRESETS[name].kind
    method = algorithms.make(
        name, **{rate: 0.05 if rate in kind.momenta else RATES.get(rate, 0.05) for rate in kind.rates}
    )
    shared = {"iterations": 30, "communication_period": 4, "dtype": "float64"}
    plain, compiled = (train(PROBLEM, "ring:5", method, kernel=kernel, **shared).x for kernel in ("plain", "compiled"))
    np.testing.assert_allclose(plain.numpy(), compiled.numpy(), atol=1e-10)
    assert (
        not np.allclose(plain.numpy(), train(PROBLEM, "ring:5", method, iterations=30, dtype="float64").x.numpy())
        or name == "c-sgd"
    )


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("order", ["adapt-then-combine", "combine-then-adapt"])
@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("gossip-adamw", {"eta": 0.05}),
        ("gossip-sgd-outer", {"eta": 0.05, "momentum": 0.5}),
        ("gossip-adamw-outer", {"eta": 0.02, "outer_lr": 0.6, "outer_momentum": 0.8}),
    ],
)
def test_local_optimizers_and_outer_steps(name: str, values: dict[str, Any], order: Any, kernel: str) -> None:
    A, c, W = PROBLEM.A.numpy(), PROBLEM.c.numpy(), graphs.ring(5).mixing().toarray()
    decay = {"weight_decay": 0.1}
    expected = reference.REFERENCES[name](
        np.zeros((5, 7)), W, W, lambda i, x, k: A[i] @ (x - c[i]), 20, period=3, order=order, **values, **decay
    )
    method = algorithms.make(name, order=order, **values, **decay)
    result = train(PROBLEM, "ring:5", method, iterations=20, communication_period=3, kernel=kernel, dtype="float64")
    np.testing.assert_allclose(result.x.numpy(), expected[-1], atol=1e-12)
    assert result.metrics[-1]["bytes_sent"] == 20 // 3 * 7 * 8 * 2 * 5


@pytest.mark.parametrize("mixing", ["metropolis", "lazy", "max-degree"])
def test_the_matched_laplacian_makes_the_step_one_minus_w(mixing: str) -> None:
    method = algorithms.DSGPA(eta=0.5, alpha=0.25, beta=0.1)
    weights = MixingWeights.build(graphs.star(6), "matched", mixing, method)
    expected = np.eye(6) - graphs.star(6).mixing(mixing).toarray()
    np.testing.assert_allclose(0.5 * 0.25 * weights.laplacian.toarray(), expected, atol=1e-15)


def test_a_matched_laplacian_needs_a_step() -> None:
    with pytest.raises(InputError, match="αη, which is 0"):
        MixingWeights.build(graphs.ring(3), "matched", "metropolis", algorithms.DSGPA(eta=0.5, alpha=0.0, beta=0.0))


def test_between_exchanges_a_primal_dual_agent_runs_plain_powered_sgd() -> None:
    method = algorithms.DSGPA(eta=0.05, alpha=1.0, beta=2.0, gamma=0.7, dual="gauss-seidel")
    A, c, L = PROBLEM.A.numpy(), PROBLEM.c.numpy(), graphs.ring(5).laplacian().toarray()
    x, v = np.zeros((5, 7)), np.zeros((5, 7))
    for k in range(12):
        g = np.stack([A[i] @ (x[i] - c[i]) for i in range(5)])
        powered = np.sign(g) * np.abs(g) ** 0.7
        if (k + 1) % 4 == 0:
            Lx = L @ x
            v = v + 0.05 * 2.0 * Lx
            x = x - 0.05 * (Lx + 2.0 * v + powered)
        else:
            x = x - 0.05 * powered
    result = train(PROBLEM, "ring:5", method, iterations=12, communication_period=4, dtype="float64")
    np.testing.assert_allclose(result.x.numpy(), x, atol=1e-12)


SCHEDULE, EXCHANGES = "6,3@10,1@17", (5, 12, 15, 17, 18, 19)
"""A schedule, and the iterations below 20 in which it exchanges: 6 cuts its second period short, and so does 3."""


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_a_schedule_of_periods(kernel: str) -> None:
    A, c, W = PROBLEM.A.numpy(), PROBLEM.c.numpy(), graphs.ring(5).mixing().toarray()
    x = np.zeros((5, 7))
    for k in range(20):
        g = np.stack([A[i] @ (x[i] - c[i]) for i in range(5)])
        x = (W @ x if k in EXCHANGES else x) - 0.05 * g
    shared: dict[str, Any] = {"iterations": 20, "eval_every": 1, "kernel": kernel, "dtype": "float64"}
    result = train(PROBLEM, "ring:5", algorithms.DSGD1(eta=0.05), communication_period=SCHEDULE, **shared)
    np.testing.assert_allclose(result.x.numpy(), x, atol=1e-12)
    sent = [sum(j < k for j in EXCHANGES) * 7 * 8 * 2 * 5 for k in range(21)]
    assert [row["bytes_sent"] for row in result.metrics] == sent


@pytest.mark.parametrize("stop", [8, 12, 13, 18])
def test_a_run_goes_on_in_the_middle_of_a_segment(stop: int, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"communication_period": SCHEDULE, "eval_every": 1}
    whole = train("quadratic", "ring:5", "dsgpa-f", iterations=20, **shared)
    train("quadratic", "ring:5", "dsgpa-f", iterations=stop, out=tmp_path / "a", **shared)
    resumed = train("quadratic", "ring:5", "dsgpa-f", iterations=20, out=tmp_path / "a", resume=True, **shared)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.metrics["bytes_sent"] == whole.metrics["bytes_sent"]
    assert read_experiment(tmp_path / "a")["communication_period"] == SCHEDULE


def test_a_schedule_of_ones_sends_always() -> None:
    runs = [train("quadratic", "ring:5", "d2", iterations=9, communication_period=m) for m in (1, "1,1@4")]
    assert torch.equal(runs[0].x, runs[1].x)
    assert runs[0].metrics["bytes_sent"] == runs[1].metrics["bytes_sent"]
