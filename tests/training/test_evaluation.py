"""Invariants are watched, and large sparse graphs are quiet."""

import warnings

import numpy as np
import pytest
import torch

from peerdescent import algorithms, train
from peerdescent.problems import Quadratic, quadratic
from peerdescent.training.evaluation import consensus_error
from peerdescent.training.invariants import violations


def test_a_broken_dual_sum_is_seen_and_rounding_is_not() -> None:
    method = algorithms.make("dsgpa-f")
    v = torch.tensor([[1.0, -2.0], [-1.0, 2.0]])
    assert violations(method, {"x": torch.ones(2, 2), "v": v + 1e-6}) == {}
    assert list(violations(method, {"x": torch.ones(2, 2), "v": v + 0.1})) == ["sum of v = 0"]


def test_centralized_rows_that_differ_are_seen_even_if_their_mean_does_not_move() -> None:
    rows = torch.tensor([[0.0], [1.0], [-1.0]])
    assert list(violations(algorithms.make("c-sgd"), {"x": rows})) == ["all x equal"]


def test_a_state_that_is_not_finite_is_left_to_the_divergence_check() -> None:
    assert (
        violations(algorithms.make("dsgpa-f"), {"x": torch.ones(2, 1), "v": torch.tensor([[torch.nan], [0.0]])}) == {}
    )


def test_a_breach_is_reported_in_the_notes() -> None:
    class Leaky(algorithms.DSGPA):
        def memory(self):
            return {"v": "x"}  # the duals start at the agents' points, which do not sum to zero

    method = Leaky(eta=0.01, alpha=1.0, beta=1.0, dual="gauss-seidel")
    problem = quadratic(agents=3, dimension=2)
    with pytest.warns(UserWarning, match="invariant violated at iteration 0"):
        result = train(problem, "ring:3", method, iterations=5, x0=torch.ones(3, 2))
    assert any("sum of v = 0" in note for note in result.notes)


def test_consensus_error_is_the_mean_squared_distance_to_the_mean() -> None:
    assert consensus_error(torch.tensor([[1.0, 0.0], [3.0, 0.0], [2.0, 3.0]])) == pytest.approx(8 / 3)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_a_hundred_agents_use_sparse_matrices_without_a_warning(kernel: str) -> None:
    problem = quadratic(agents=100, dimension=3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        result = train(problem, "ring:100", "d-sgd-1", iterations=20, kernel=kernel, dtype="float64")
    dense = torch.tensor(result.graph.mixing().toarray())
    x = torch.zeros(100, 3, dtype=torch.float64)
    for _ in range(20):
        x = dense @ x - 0.1 * torch.einsum("npq,nq->np", problem.A, x - problem.c)
    torch.testing.assert_close(result.x, x, rtol=0, atol=1e-12)


def test_a_start_that_requires_a_gradient_is_taken_by_value() -> None:
    x0 = torch.zeros(3, 2, requires_grad=True)
    assert train(quadratic(agents=3, dimension=2), "ring:3", "d-sgd-1", iterations=2, x0=x0).x.shape == (3, 2)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_d2_keeps_its_mean_in_single_precision(kernel: str) -> None:
    # The published recursion adds every rounding error to a velocity: here its mean runs away by 20 units.
    problem = Quadratic(A=np.zeros((6, 20)), c=np.zeros((6, 20)))
    start = 100 + torch.from_numpy(np.random.default_rng(0).standard_normal((6, 20)))
    result = train(problem, "er:6:0.5", "d2", iterations=20_000, eval_every=20_000, x0=start, kernel=kernel)
    assert float((result.x_mean.double() - start.mean(dim=0)).abs().max()) < 0.1
    assert result.metrics[-1]["consensus_error"] < 1e-6
