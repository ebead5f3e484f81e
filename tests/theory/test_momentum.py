"""Momentum before the power: stability in closed form, and what it does to the mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs, theory
from peerdescent.algorithms import DSGPA, make
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.prediction import predict


def jury(a: float, b: float, theta: float, dual: str) -> bool:
    """Whether z³ + c₂z² + c₁z + c₀ = (z−1)(z−1+θ)(z−1+a) + θb·z² (or θb·z in the jacobi order) has its roots inside.

    a = ηαλ, b = (ηβ)²λ.
    """
    c0 = -(1 - theta) * (1 - a)
    c1 = (1 - theta) + (1 - a) + (1 - theta) * (1 - a)
    c2 = -(3 - theta - a)
    if dual == "gauss-seidel":
        c2 += theta * b
    else:
        c1 += theta * b
    return 1 + c2 + c1 + c0 > 0 and 1 - c2 + c1 - c0 > 0 and 1 - c0**2 > abs(c0 * c2 - c1)


@settings(max_examples=60, deadline=None)
@given(
    eta=st.floats(0.01, 0.5),
    alpha=st.floats(0.1, 10),
    beta=st.floats(0.1, 20),
    theta=st.floats(0.02, 0.98),
    lam=st.floats(0.01, 5),
    dual=st.sampled_from(["jacobi", "gauss-seidel"]),
)
def test_flat_costs_are_stable_by_jurys_conditions(
    eta: float, alpha: float, beta: float, theta: float, lam: float, dual: Any
) -> None:
    method = DSGPA(eta, alpha, beta, power_on="direction", momentum=theta, dual=dual)
    radius = np.abs(np.linalg.eigvals(theory.recursion(method, lam, 0.0))).max()
    if abs(radius - 1) > 1e-6:
        assert jury(eta * alpha * lam, (eta * beta) ** 2 * lam, theta, dual) == bool(radius < 1)


@pytest.mark.parametrize(("dual", "late"), [("jacobi", 1.0), ("gauss-seidel", 0.8)])
@pytest.mark.parametrize("side", [0.97, 1.03])
def test_small_eigenvalues_decide_by_the_delay_of_the_dual(dual: Any, late: float, side: float) -> None:
    # ηβ²·late < θα with late = 1 in the jacobi order and 1 − θ with the dual first
    eta, alpha, theta = 0.03, 5.0, 0.2
    beta = float(np.sqrt(side * theta * alpha / (eta * late)))
    method = DSGPA(eta, alpha, beta, power_on="direction", momentum=theta, dual=dual)
    radius = np.abs(np.linalg.eigvals(theory.recursion(method, 1e-3, 0.0))).max()
    assert (radius < 1) == (side < 1)
    if dual == "jacobi":
        return
    graph = graphs.path(10)
    weights = MixingWeights.build(graph, "metropolis", "metropolis", method)
    said = predict(method, weights, "metropolis", "metropolis").condition
    assert ("small eigenvalues of L" in said) == (side > 1)


@pytest.mark.parametrize("theta", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("side", [0.98, 1.02])
def test_the_mean_takes_steps_up_to_two_times_two_minus_theta_over_theta(theta: float, side: float) -> None:
    eta = 0.1
    h = side * 2 * (2 - theta) / theta / eta
    method = DSGPA(eta, 1.0, 1.0, power_on="direction", momentum=theta)
    matrix = theory.recursion(method, 0.0, 0.0, curvature=h)[np.ix_([0, 2], [0, 2])]  # x and m; the dual's mean is 0
    assert (np.abs(np.linalg.eigvals(matrix)).max() < 1) == (side < 1)


def test_the_registered_values_settle_on_the_papers_graph_and_without_momentum_they_are_the_exact_variant() -> None:
    method = make("dsgpa-f-pb-exact-momentum")
    assert theory.stability(method, graphs.authors10(), "unit").settles
    assert theory.stability(method, graphs.path(30)).settles
    plain = make("dsgpa-f-pb-exact-momentum", momentum=1.0)
    assert plain == make("dsgpa-f-pb-exact", beta=3.0)
    assert plain.memory() == {"v": "zero"}
    failing = theory.theorem1_failing(make("dsgpa-f-pb", momentum=0.5), 4.0, 2.0, 4, 50)
    assert failing[-1] == "there is momentum (θ = 0.5)"
