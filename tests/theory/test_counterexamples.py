"""The smallest examples against statements that are plausible and false; docs/theory.md cites them."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

from peerdescent import algorithms, graphs, theory, train
from peerdescent.algorithms import DSGPA, make
from peerdescent.problems import Quadratic
from peerdescent.transforms import power

pytestmark = pytest.mark.filterwarnings("ignore:gamma")


def test_with_flat_costs_a_power_on_the_direction_lets_the_mean_drift() -> None:
    method = DSGPA(0.1, 3.0, 1.0, 0.3, power_on="direction", dual="jacobi")
    verdict = theory.stability(method, "path:3", "unit")
    assert verdict.stable
    assert verdict.drifts
    assert not theory.stability(method, "path:3", "unit", curvature=0.01).drifts
    assert not theory.stability(make("dsgpa-f-pb", gamma=0.3), "path:3", "unit").drifts
    start = torch.tensor([[1.0], [0.3], [-0.7]], dtype=torch.float64)
    costs = Quadratic(A=np.zeros((3, 1)), c=np.zeros((3, 1)))
    run = train(
        costs, "path:3", method, x0=start, iterations=20_000, eval_every=5000, dtype="float64", laplacian="unit"
    )
    assert float(run.x.mean()) == pytest.approx(42.2, abs=0.2)
    assert float((run.x - run.x.mean()).abs().max()) < 1


def test_the_mean_of_methods_without_consensus() -> None:
    # equal Hessians: at a fixed point Σ∇f_i(x_i) = 0 puts the mean on the optimum; others do not
    c = np.array([[0.0], [0.5], [1.0]])
    same, other = Quadratic(A=np.ones((3, 1)), c=c), Quadratic(A=[[1.0], [2.0], [3.0]], c=[[1.0], [0.5], [1 / 3]])
    for name in ("d-sgd-1", "d-sgd-2", "dm-sgd", "d-asg"):
        found = theory.fixed_point(make(name), same, "path:3")
        assert np.ptp(found) > 1e-3
        assert found.mean() == pytest.approx(0.5)
    assert float(other.optimum()[0]) == pytest.approx(0.5)
    assert theory.fixed_point(make("d-sgd-1"), other, "path:3").mean() == pytest.approx(0.5335, abs=1e-4)


def test_the_disagreement_of_d_sgd_2_is_of_order_alpha_over_beta() -> None:
    c = np.array([[0.0], [0.5], [2.0]])
    problem = Quadratic(A=np.ones((3, 1)), c=c)
    apart = [
        np.ptp(theory.fixed_point(make("d-sgd-2", alpha=alpha, beta=beta), problem, "path:3"))
        for alpha, beta in ((1e-3, 0.1), (1e-4, 0.01), (1e-4, 0.1))
    ]
    assert apart[1] == pytest.approx(apart[0])
    assert apart[2] == pytest.approx(apart[0] / 10, rel=0.1)


def test_powers_can_balance_where_gradients_do() -> None:
    g = np.array([16 / 9, 1 / 9, 1 / 9, -1, -1])
    assert g.sum() == pytest.approx(0, abs=1e-15)
    assert power(g, 0.5).sum() == pytest.approx(0, abs=1e-15)
    problem = Quadratic(A=np.ones((5, 1)), c=-g[:, None])
    assert theory.fixed_point(make("dsgpa-f-pb", gamma=0.5), problem, "ring:5")[0, 0] == pytest.approx(0, abs=1e-9)


def test_two_agents_are_never_biased() -> None:
    random = np.random.default_rng(1)
    for seed in range(20):
        roots = random.standard_normal((2, 3, 3))
        problem = Quadratic(A=roots @ roots.transpose(0, 2, 1) + 0.1 * np.eye(3), c=random.standard_normal((2, 3)))
        found = theory.inspect_fixed_point(make("dsgpa-f-pb", gamma=0.3 + 0.03 * seed), problem, "path:2")
        assert found.unique
        np.testing.assert_allclose(found.x, np.tile(problem.optimum().numpy(), (2, 1)), atol=1e-7)


THREE = Quadratic(
    A=[[[1.0, 2.0], [2.0, 5.0]], [[5.0, 2.0], [2.0, 1.0]], [[0.01, 0.0], [0.0, 0.01]]],
    c=[[1.995, -0.998], [-0.998, 1.995], [106.4246, 106.4246]],
)


def test_there_can_be_three_fixed_points() -> None:
    from scipy.optimize import root

    def balance(x: Any) -> Any:
        gradients = np.einsum("npq,nq->np", THREE.A.numpy(), x - THREE.c.numpy())
        return power(gradients, 0.5).sum(axis=0)

    points = []
    for guess in ([0.0, 0.0], [-0.346, 0.419], [0.419, -0.346]):
        solution = root(balance, guess, tol=1e-12)
        assert np.abs(balance(solution.x)).max() < 1e-6
        assert np.abs(solution.x - guess).max() < 2e-3
        points.append(solution.x)
    assert min(np.abs(p - q).max() for i, p in enumerate(points) for q in points[:i]) > 0.3
    with pytest.warns(UserWarning, match="may not be the only one"):
        found = theory.fixed_point(make("dsgpa-f-pb", gamma=0.5), THREE, "ring:3")
    assert min(np.abs(found[0] - p).max() for p in points) < 1e-3
    assert not theory.inspect_fixed_point(make("dsgpa-f-pb", gamma=0.5), THREE, "ring:3").unique
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        theory.fixed_point(make("dsgpa-f-pb", gamma=1.0), THREE, "ring:3")


def test_a_fixed_point_can_repel() -> None:
    method = make("dsgpa-f-pb", gamma=0.5)
    problem = Quadratic(A=np.ones((3, 1)), c=[[-1.0], [0.0005], [1.0]])
    kind = f"unit:{1 / 3!r}"
    assert theory.stability(method, "complete:3", kind).stable
    found = theory.inspect_fixed_point(method, problem, "complete:3", kind)
    assert found.unique
    assert found.radius == pytest.approx(29, rel=0.03)
    near = torch.from_numpy(found.x + 1e-9)
    run = train(problem, "complete:3", method, x0=near, iterations=2000, dtype="float64", laplacian=kind)
    assert float((run.x - torch.from_numpy(found.x)).abs().max()) > 1e-4


@pytest.mark.parametrize("name", ["dsgpa-f", "d2", "d-sgt-1", "d-sgt-2", "d-sgd-1", "dm-sgd", "d-asg", "c-sgd"])
def test_the_local_radius_is_that_of_the_modes_where_curvatures_are_equal(name: str) -> None:
    # γ = 1 and f_i = h‖x − c_i‖²/2: the derivative is the same everywhere, and splits into modes
    graph, h = graphs.ring(5), 0.7
    problem = Quadratic(A=np.full((5, 2), h), c=np.random.default_rng(0).standard_normal((5, 2)))
    found = theory.inspect_fixed_point(make(name), problem, graph)
    seen = theory.stability(make(name), graph, curvature=h)
    expected = seen.mean if name == "c-sgd" else max(seen.mean, seen.radius)
    assert found.radius == pytest.approx(expected, abs=1e-6)
    assert found.attracting


def test_a_power_on_the_direction_has_no_attracting_fixed_point() -> None:
    problem = Quadratic(A=np.ones((3, 1)), c=[[0.0], [0.0], [1.0]])
    assert theory.inspect_fixed_point(make("dsgpa-f-pb-exact"), problem, "ring:3").radius == math.inf
    assert theory.inspect_fixed_point(make("dsgpa-f-pb-exact", gamma=1.0), problem, "ring:3").attracting
    assert theory.inspect_fixed_point(make("c-sgd", 0.5), problem, "ring:3").radius == math.inf


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_near_its_fixed_point_a_power_on_the_direction_expands_volumes(dual: str) -> None:
    # the derivative of (x, v) ↦ (x⁺, v⁺), where σ has the slopes S at w: its determinant against that of the proof
    random, n = np.random.default_rng(3), 4
    L = np.diag([1.0, 2.0, 2.0, 1.0]) - np.eye(n, k=1) - np.eye(n, k=-1)
    off, gamma = np.linalg.eigh(L)[1][:, 1:], 0.5  # a basis of the disagreements
    for _ in range(50):
        eta, alpha, beta = random.uniform(0.01, 0.1), random.uniform(0.5, 3), random.uniform(0.5, 5)
        A, w = np.diag(random.uniform(0.3, 3, n)), random.uniform(1e-15, 1e-14, n)
        S = np.diag(gamma * w ** (gamma - 1))
        x, v = np.eye(2 * n)[:n], np.eye(2 * n)[n:]
        after = v + eta * beta * L @ x
        s = S @ (beta * (after if dual == "gauss-seidel" else v) + A @ x)
        found = np.linalg.det(np.vstack([x - eta * (alpha * L @ x + s), after]))
        inner = A + eta * beta**2 * L if dual == "gauss-seidel" else A
        smooth = np.linalg.det(np.eye(n - 1) - eta * beta**2 * off.T @ np.linalg.solve(inner, L) @ off)
        scale = np.linalg.det(S) * np.linalg.det(eta * inner)
        assert abs(found) / scale == pytest.approx(abs(smooth), rel=1e-3, abs=1e-3)  # up to terms of the order of 1/S
        assert abs(found) > 2


def test_theorem_1_fails_from_the_fixed_point_on() -> None:
    # the iterates never move: x_i = 0.2, v_i = −σ(∇f_i(0.2))/β, for every T and Theorem 1's own parameters
    c, L = np.array([0.0, 0.0, 1.0]), 3 * np.eye(3) - np.ones((3, 3))
    for T in (100, 10_000):
        values = theory.theorem1_parameters("complete:3", T, "unit")
        eta, alpha, beta = (values[name] for name in ("eta", "alpha", "beta"))
        x, v = np.full(3, 0.2), -power(0.2 - c, 0.5) / beta
        assert v.sum() == pytest.approx(0, abs=1e-9)
        squares = []
        for _ in range(T):
            squares.append((x.mean() - 1 / 3) ** 2)
            x, v = x - eta * (alpha * L @ x + beta * v + power(x - c, 0.5)), v + eta * beta * L @ x
        assert np.mean(squares) == pytest.approx((1 / 3 - 0.2) ** 2)
        assert np.mean(squares) == pytest.approx(0.01778, abs=1e-5)


def test_waiting_stretches_time_exactly_or_destabilizes() -> None:
    for name in ("d-sgd-1", "d-sgd-2", "dm-sgd", "d-sgt-1", "d-sgt-2", "d2", "dsgpa-f"):
        each, third = (theory.stability(make(name), "ring:6", communication_period=m) for m in (1, 3))
        assert third.tenfold == pytest.approx(3 * each.tenfold), name
    assert theory.stability(make("d-asg"), "ring:6").stable
    assert not theory.stability(make("d-asg"), "ring:6", communication_period=2).stable


@pytest.mark.parametrize(
    ("step", "needed"),
    [
        ("b", "𝔼σ(g + ξ) = g"),
        ("d", "𝔼|σ(g + ξ) − g|² ≤ 𝔼ξ²"),
        ("m", "x̄⁺ = x̄ − η·mean g"),
    ],
)
def test_the_three_steps_of_the_papers_proof(step: str, needed: str) -> None:
    g, gamma = np.array([0.25]), 0.5  # no noise at all: ξ = 0
    if step == "b":
        assert power(g, gamma)[0] == 0.5 != g[0]
    elif step == "d":
        assert (power(g, gamma)[0] - g[0]) ** 2 == 0.0625  # and not at most 0
    else:  # two agents, α = β = 0: the mean moves by the mean of the powers
        gradients = np.array([0.25, 0.0])
        assert power(gradients, gamma).mean() == 0.25 != gradients.mean()


def test_the_cnns_values() -> None:
    values = {"eta": 0.5, "alpha": 0.5, "beta": 0.1}
    for dual, limit in (("jacobi", 8.04), ("gauss-seidel", 7.96)):
        assert theory.stable_up_to(algorithms.make("dsgpa-f", dual=dual, **values)) == pytest.approx(limit, abs=0.005)
    failing = theory.theorem1_failing(make("dsgpa-f-pb", gamma=0.5, dual="jacobi", **values), 5.17, 0.158, 10, 40)
    assert failing[0] == "T = 40 is not above n³ = 1,000"  # η = √(n/T) leaves T = 40


@pytest.mark.parametrize(("dual", "h"), [("jacobi", 0.0), ("gauss-seidel", 0.0), ("gauss-seidel", 2.0)])
def test_the_size_of_the_oscillation_in_closed_form(dual: Any, h: float) -> None:
    eta, alpha, beta, gamma = 0.02, 4.0, 6.0, 0.6
    method = DSGPA(eta, alpha, beta, gamma, power_on="direction", dual=dual)
    rho = float(np.linalg.eigvalsh(graphs.ring(6).laplacian("unit").toarray())[-1])
    slope = eta * beta**2 / alpha
    if dual == "gauss-seidel":
        slope = (eta**2 * beta**2 * rho + 2 * eta * h) / (4 - 2 * eta * alpha * rho)
    found = theory.stability(method, graphs.ring(6), "unit", curvature=h).chatter
    assert found == pytest.approx(slope ** (1 / (1 - gamma)), rel=0.01)
