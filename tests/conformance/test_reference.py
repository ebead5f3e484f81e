"""The reference against other forms of the same methods: eliminated recursions, closed forms, limits."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from tests.conformance import reference_tracking


def load_reference() -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_reference", Path(__file__).with_name("reference.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ref = load_reference()
REFERENCES = {**ref.REFERENCES, **reference_tracking.REFERENCES}

N, P, T = 5, 3, 25
EDGES = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), (0, 2)]

# Enough keywords to call every method; none of them tuned.
KEYWORDS: dict[str, dict[str, Any]] = {
    "dsgpa-f": {"eta": 0.05, "alpha": 2.0, "beta": 1.5},
    "dsgpa-t": {"eta": 0.05, "alpha": 2.0, "beta": 1.5},
    "dsgpa-f-pb": {"eta": 0.05, "alpha": 2.0, "beta": 1.5, "gamma": 0.7},
    "dsgpa-t-pb": {"eta": 0.05, "alpha": 2.0, "beta": 1.5, "gamma": 0.7},
    "dsgpa-f-pb-exact": {"eta": 0.05, "alpha": 2.0, "beta": 1.5, "gamma": 0.7},
    "dsgpa-t-pb-exact": {"eta": 0.05, "alpha": 2.0, "beta": 1.5, "gamma": 0.7},
    "dsgpa-f-pb-exact-momentum": {"eta": 0.05, "alpha": 2.0, "beta": 1.5, "gamma": 0.7},
    "dm-sgd": {"eta": 0.05, "beta": 0.6},
    "d-sgd-1": {"eta": 0.05},
    "d-sgd-2": {"a": 0.05, "b": 0.1, "epsilon": 0.2},
    "d2": {"eta": 0.05},
    "d-sgt-1": {"eta": 0.05},
    "d-sgt-2": {"eta": 0.05},
    "sgp": {"eta": 0.05},
    "push-diging": {"eta": 0.05},
    "gt-hsgd": {"eta": 0.05, "beta": 0.3},
    "gt-nsgdm": {"eta": 0.05, "beta": 0.6},
    "sclip-ef": {"eta": 0.3, "beta": 0.5, "phi": 2.0, "tau": 0.1},
    "powered-tracking": {"eta": 0.05, "gamma": 0.7},
    "d-asg": {"eta": 0.05, "beta": 0.6},
    "c-sgd": {"eta": 0.05},
    "gossip-sgd": {"eta": 0.05, "momentum": 0.5},
    "gossip-adam": {"eta": 0.05, "weight_decay": 0.1},
    "gossip-adamw": {"eta": 0.05, "weight_decay": 0.1},
    "gossip-sgd-outer": {"eta": 0.05, "period": 3},
    "gossip-adamw-outer": {"eta": 0.05, "period": 2},
    "k-gt": {"eta": 0.05, "eta_s": 0.8, "exchanges": lambda k: k % 3 == 2},
    "led": {"eta": 0.05, "beta": 0.5, "exchanges": lambda k: k % 2 == 1},
    "proxskip": {"eta": 0.05, "beta": 0.5, "exchanges": lambda k: k % 2 == 1},
    "choco-sgd": {"eta": 0.05, "Q": np.round, "c": 0.3},
    "beer": {"eta": 0.05, "Q": np.round, "c": 0.3},
    "motef": {"eta": 0.05, "beta": 0.6, "Q": np.round, "c": 0.3},
    **{name: {"eta": 0.05} for name in ("extra", "nids", "exact-diffusion", "aug-dgm", "d-adam")},
    "clipped-d-sgd": {"eta": 0.05, "tau": 1.0},
    **{name: {"eta": 0.05, "beta": 0.6} for name in ("edm", "momentum-tracking", "qg-dsgdm")},
}


def laplacian() -> np.ndarray:
    L = np.zeros((N, N))
    for i, j in EDGES:
        L[i, j] = L[j, i] = -1.0
        L[i, i] += 1.0
        L[j, j] += 1.0
    return L


def metropolis() -> np.ndarray:
    degree = np.diag(laplacian())
    W = np.zeros((N, N))
    for i, j in EDGES:
        W[i, j] = W[j, i] = 1 / (1 + max(degree[i], degree[j]))
    return W + np.diag(1 - W.sum(axis=1))


L, W, EYE = laplacian(), metropolis(), np.eye(N)
X0 = np.random.default_rng(1).normal(size=(N, P))
CURVATURE = np.random.default_rng(2).uniform(0.5, 1.5, size=(N, P))
CENTRE = np.random.default_rng(3).normal(size=(N, P))
OPTIMUM = (CURVATURE * CENTRE).sum(axis=0) / CURVATURE.sum(axis=0)


def exact(i: int, x: np.ndarray, k: int) -> np.ndarray:
    """Heterogeneous quadratics, no noise."""
    return CURVATURE[i] * (x - CENTRE[i])


def noisy(i: int, x: np.ndarray, k: int) -> np.ndarray:
    """Nonlinear and heterogeneous, with noise that depends on (i, k) only."""
    noise = np.random.default_rng((7, i, k)).normal(size=x.shape)
    return exact(i, x, k) + np.sin(3 * x) + noise


def stacked(x: np.ndarray, k: int) -> np.ndarray:
    return np.stack([noisy(i, x[i], k) for i in range(len(x))])


def assert_same(a: list[np.ndarray], b: list[np.ndarray]) -> None:
    assert len(a) == len(b)
    np.testing.assert_allclose(np.stack(a), np.stack(b), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", list(REFERENCES))
def test_shape_start_and_purity(name: str) -> None:
    x0, L0, W0 = X0.copy(), L.copy(), W.copy()
    iterates = REFERENCES[name](x0, L0, W0, noisy, T, **KEYWORDS[name])
    assert [x.shape for x in iterates] == [(N, P)] * (T + 1)
    first = np.tile(X0.mean(axis=0), (N, 1)) if name == "c-sgd" else X0
    np.testing.assert_array_equal(iterates[0], first)
    np.testing.assert_array_equal(x0, X0)
    np.testing.assert_array_equal(L0, L)
    np.testing.assert_array_equal(W0, W)
    assert len({id(x) for x in iterates}) == T + 1
    assert all(x.dtype == np.float64 for x in iterates)
    shorter = REFERENCES[name](x0, L0, W0, noisy, 4, **KEYWORDS[name])
    assert_same(shorter, iterates[:5])


PLAIN_SGD: dict[str, dict[str, Any]] = {
    "dsgpa-f": {},
    "dsgpa-t": {"epsilon": 0.0},
    "dsgpa-f-pb": {"gamma": 1.0},
    "dsgpa-f-pb-exact": {"gamma": 1.0},
    "dsgpa-f-pb-exact-momentum": {"gamma": 1.0, "momentum": 1.0},
    "dm-sgd": {"beta": 0.0},
    "d-sgd-1": {},
    "d-sgd-2": {"epsilon": 0.0},
    "d2": {},
    "d-sgt-1": {},
    "d-sgt-2": {},
    "sgp": {},
    "push-diging": {},
    "gt-hsgd": {"beta": 1.0},
    "powered-tracking": {"gamma": 1.0},
    "d-asg": {"beta": 0.0},
    "c-sgd": {},
    "gossip-sgd": {"momentum": 0.0},
    **{name: {} for name in ("extra", "nids", "exact-diffusion", "aug-dgm")},
    **{name: {"beta": 0.0} for name in ("edm", "momentum-tracking", "qg-dsgdm")},
    "gossip-sgd-outer": {"outer_lr": 1.0, "outer_momentum": 0.0},
    "k-gt": {"eta_s": 1.0},
    "led": {},
    "proxskip": {},
    "choco-sgd": {},
    "beer": {},
    "motef": {"beta": 0.0},
}


@pytest.mark.parametrize("name", list(PLAIN_SGD))
def test_one_agent_is_plain_sgd(name: str) -> None:
    x, expected = X0[:1].copy(), [X0[:1].copy()]
    for k in range(T):
        x = x - 0.05 * stacked(x, k)
        expected.append(x)
    keywords = KEYWORDS[name] | PLAIN_SGD[name]
    assert_same(REFERENCES[name](X0[:1], np.zeros((1, 1)), np.ones((1, 1)), noisy, T, **keywords), expected)


def test_averaging_after_the_step_on_the_complete_graph_is_c_sgd() -> None:
    # With W = 11ᵀ/n and x⁺ = W(x − ηg), every agent is at the mean after each step.
    J = np.full((N, N), 1 / N)
    equal = np.tile(X0[0], (N, 1))
    pooled = ref.c_sgd(equal, L, J, noisy, T, eta=0.05)
    assert_same(ref.dm_sgd(equal, L, J, noisy, T, eta=0.05, beta=0.0), pooled)


def test_d_sgd_1_on_the_complete_graph_follows_c_sgd_in_the_mean_only() -> None:
    # x⁺ = Wx − ηg(x) leaves each agent one local step away from the mean. The mean is C-SGD's where all
    # gradients are affine with the same curvature, and not otherwise.
    J = np.full((N, N), 1 / N)
    equal = np.tile(X0[0], (N, 1))

    def equal_curvature(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return x - CENTRE[i] + np.random.default_rng((7, i, k)).normal(size=x.shape)

    found = ref.d_sgd_1(equal, J, J, equal_curvature, T, eta=0.05)
    assert_same([np.tile(x.mean(axis=0), (N, 1)) for x in found], ref.c_sgd(equal, J, J, equal_curvature, T, eta=0.05))
    assert np.ptp(found[-1], axis=0).min() > 1e-2
    mean = ref.d_sgd_1(equal, J, J, noisy, T, eta=0.05)[-1].mean(axis=0)
    assert np.abs(mean - ref.c_sgd(equal, J, J, noisy, T, eta=0.05)[-1][0]).max() > 1e-3


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("dsgpa-f", {}),
        ("d-sgd-1", {}),
        ("d-sgd-2", {"epsilon": 0.0}),
        ("d2", {}),
        ("d-sgt-1", {}),
        ("d-sgt-2", {}),
    ],
)
def test_mean_moves_by_the_mean_gradient(name: str, changed: dict[str, Any]) -> None:
    iterates = REFERENCES[name](X0, L, W, noisy, T, **(KEYWORDS[name] | changed))
    for k in range(T):
        step = iterates[k].mean(axis=0) - iterates[k + 1].mean(axis=0)
        np.testing.assert_allclose(step, 0.05 * stacked(iterates[k], k).mean(axis=0), atol=1e-12)


def test_jacobi_dsgpa_is_extra() -> None:
    eta, alpha = 0.05, 3.0
    beta = np.sqrt(alpha / (2 * eta))
    x = [X0, W @ X0 - eta * stacked(X0, 0)]
    for k in range(T - 1):
        change = stacked(x[k + 1], k + 1) - stacked(x[k], k)
        x.append((EYE + W) @ x[k + 1] - (EYE + W) @ x[k] / 2 - eta * change)
    got = ref.dsgpa(X0, (EYE - W) / (eta * alpha), W, noisy, T, eta=eta, alpha=alpha, beta=beta)
    assert_same(got, x)


def test_gauss_seidel_eliminated() -> None:
    eta, alpha, beta = 0.05, 2.0, 1.5
    one, two = eta * alpha * L, (eta * beta) ** 2 * L
    x = [X0, X0 - one @ X0 - two @ X0 - eta * stacked(X0, 0)]
    for k in range(T - 1):
        change = stacked(x[k + 1], k + 1) - stacked(x[k], k)
        x.append((2 * EYE - one - two) @ x[k + 1] - (EYE - one) @ x[k] - eta * change)
    assert_same(
        ref.dsgpa(X0, L, W, noisy, T, eta=eta, alpha=alpha, beta=beta, dual="gauss-seidel"),
        x,
    )


def test_gauss_seidel_from_consensus_is_dual_after_primal() -> None:
    # v⁺ = v + ηβ L x⁺ skips the first dual update, which is zero where L x_0 = 0.
    eta, alpha, beta = 0.05, 2.0, 1.5
    equal = np.tile(X0[0], (N, 1))
    x, v, expected = equal, np.zeros((N, P)), [equal]
    for k in range(T):
        x = x - eta * (alpha * L @ x + beta * v + stacked(x, k))
        v = v + eta * beta * L @ x
        expected.append(x)
    got = ref.dsgpa(equal, L, W, noisy, T, eta=eta, alpha=alpha, beta=beta, dual="gauss-seidel")
    assert_same(got, expected)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_growth_leaves_only_the_gradient_weight_changed(dual: str) -> None:
    # η_k α_k and η_k β_k do not depend on k, so T is F with g / (k+1)^ε.
    epsilon, keywords = 0.3, {**KEYWORDS["dsgpa-f"], "dual": dual}

    def damped(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return noisy(i, x, k) / (k + 1) ** epsilon

    assert_same(
        ref.dsgpa(X0, L, W, noisy, T, epsilon=epsilon, **keywords),
        ref.dsgpa(X0, L, W, damped, T, **keywords),
    )


def test_powerball() -> None:
    g = np.array([-4.0, -0.25, 0.0, 9.0])
    np.testing.assert_allclose(ref.powerball(g, 0.5), [-2, -0.5, 0, 3])
    np.testing.assert_array_equal(ref.powerball(g, 0.0), [-1, -1, 0, 1])
    np.testing.assert_array_equal(ref.powerball(g, 1.0), g)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_power_on_direction_is_the_equation(dual: str) -> None:
    eta, alpha, beta, gamma = 0.05, 2.0, 1.5, 0.7
    x, v, expected = X0, np.zeros((N, P)), [X0]
    for k in range(T):
        v_next = v + eta * beta * L @ x
        d = beta * (v if dual == "jacobi" else v_next) + stacked(x, k)
        x, v = x - eta * (alpha * L @ x + np.copysign(np.abs(d) ** gamma, d)), v_next
        expected.append(x)
    got = ref.dsgpa(
        X0,
        L,
        W,
        noisy,
        T,
        eta=eta,
        alpha=alpha,
        beta=beta,
        gamma=gamma,
        power_on="direction",
        dual=dual,
    )
    assert_same(got, expected)


def test_power_on_gradient_is_a_transform() -> None:
    keywords = KEYWORDS["dsgpa-f"]
    assert_same(
        ref.dsgpa(X0, L, W, noisy, T, gamma=0.7, **keywords),
        ref.dsgpa(X0, L, W, noisy, T, transform=lambda g: ref.powerball(g, 0.7), **keywords),
    )


@pytest.mark.parametrize("name", sorted(set(REFERENCES) - {"c-sgd"}))
def test_transform_acts_on_each_gradient(name: str) -> None:
    def tanh(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return np.tanh(noisy(i, x, k))

    method, keywords = REFERENCES[name], KEYWORDS[name]
    assert_same(method(X0, L, W, noisy, T, transform=np.tanh, **keywords), method(X0, L, W, tanh, T, **keywords))


def test_c_sgd_transforms_the_pooled_gradient() -> None:
    x = np.tile(X0.mean(axis=0), (N, 1))
    expected = x - 0.05 * np.sign(stacked(x, 0).mean(axis=0))
    assert_same(ref.c_sgd(X0, L, W, noisy, 1, eta=0.05, transform=np.sign), [x, expected])


@pytest.mark.parametrize(
    ("gamma", "power_on", "limit"),
    [
        (0.7, "gradient", 0.2709),
        (0.5, "gradient", 0.2),
        (1.0, "gradient", 1 / 3),
        (0.7, "direction", 1 / 3),
        (0.5, "direction", 1 / 3),
    ],
)
@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_where_powerball_settles(gamma: float, power_on: str, limit: float, dual: str) -> None:
    triangle = 3 * np.eye(3) - np.ones((3, 3))
    c = np.array([0.0, 0.0, 1.0])
    x = ref.dsgpa(
        np.array([[0.5], [-0.2], [0.9]]),
        triangle,
        np.eye(3) - triangle / 3,
        lambda i, x, k: x - c[i],
        4000,
        eta=0.01,
        alpha=5.0,
        beta=5.0,
        gamma=gamma,
        power_on=power_on,
        dual=dual,
    )[-1]
    # The limits have four digits; a power on a vanishing direction chatters by about (η/2)^(1/(1−γ)).
    np.testing.assert_allclose(x, limit, atol=6e-5)


@pytest.mark.parametrize(("name", "last"), [("d-sgt-1", EYE), ("d-sgt-2", W)])
def test_gradient_tracking_eliminated(name: str, last: np.ndarray) -> None:
    eta = 0.05
    x = [X0, W @ X0 - eta * last @ stacked(X0, 0)]
    for k in range(T - 1):
        change = stacked(x[k + 1], k + 1) - stacked(x[k], k)
        x.append(2 * W @ x[k + 1] - W @ W @ x[k] - eta * last @ change)
    assert_same(REFERENCES[name](X0, L, W, noisy, T, eta=eta), x)


def test_dm_sgd_eliminated() -> None:
    eta, beta = 0.05, 0.6
    x = [X0, W @ (X0 - eta * stacked(X0, 0))]
    for k in range(1, T):
        x.append(W @ x[k] + beta * W @ (x[k] - W @ x[k - 1]) - eta * W @ stacked(x[k], k))
    assert_same(ref.dm_sgd(X0, L, W, noisy, T, eta=eta, beta=beta), x)


def test_d2_is_exact_diffusion() -> None:
    # D² is exact diffusion: x⁺ = W(ψ + x − ψ₋) with ψ = x − ηg and ψ₋ = x_0 at the start.
    eta = 0.05
    x, psi_before, expected = X0, X0, [X0]
    for k in range(T):
        psi = x - eta * stacked(x, k)
        x, psi_before = W @ (psi + x - psi_before), psi
        expected.append(x)
    assert_same(ref.d2(X0, L, W, noisy, T, eta=eta), expected)


def test_d_asg_eliminated_and_nesterov() -> None:
    eta, beta = 0.05, 0.6
    x = [X0, X0]  # x_{−1}, x_0
    for k in range(T):
        y = x[-1] + beta * (x[-1] - x[-2])
        x.append(W @ y - eta * stacked(y, k))
    assert_same(ref.d_asg(X0, L, W, noisy, T, eta=eta, beta=beta), x[1:])
    assert_same(ref.d_asg(X0, L, W, noisy, T, eta=eta, beta=0.0), ref.d_sgd_1(X0, L, W, noisy, T, eta=eta))


def test_d_sgd_2_schedules() -> None:
    b, epsilon, zero = 0.1, 0.5, lambda i, x, k: np.zeros(P)
    mixed = X0
    for k in range(3):
        mixed = mixed - b * (1 + epsilon * k) ** -0.3 * (L @ mixed)
    got = ref.d_sgd_2(X0, L, W, zero, 3, a=1.0, b=b, epsilon=epsilon)[-1]
    np.testing.assert_allclose(got, mixed, atol=1e-12)
    # A constant gradient without mixing: x_3 = x_0 − a(1 + 1/1.5 + 1/2).
    got = ref.d_sgd_2(X0, L, W, lambda i, x, k: np.ones(P), 3, a=0.6, b=0.0, epsilon=epsilon)[-1]
    np.testing.assert_allclose(got, X0 - 1.3, atol=1e-12)
    assert_same(
        ref.d_sgd_2(X0, L, W, noisy, T, a=0.05, b=b, epsilon=0.0),
        ref.d_sgd_1(X0, L, EYE - b * L, noisy, T, eta=0.05),
    )


@pytest.mark.parametrize("name", ["d-sgt-1", "d-sgt-2", "d2"])
def test_corrected_methods_reach_the_optimum(name: str) -> None:
    assert np.linalg.eigvalsh(W).min() > -1 / 3
    x = REFERENCES[name](X0, L, W, exact, 1500, eta=0.1)[-1]
    np.testing.assert_allclose(x, np.tile(OPTIMUM, (N, 1)), atol=1e-9)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_dsgpa_reaches_the_optimum(dual: str) -> None:
    x = ref.dsgpa(X0, L, W, exact, 3000, eta=0.05, alpha=3.0, beta=3.0, dual=dual)[-1]
    np.testing.assert_allclose(x, np.tile(OPTIMUM, (N, 1)), atol=1e-9)


def test_d_sgd_1_stops_short_of_the_optimum() -> None:
    x = ref.d_sgd_1(X0, L, W, exact, 1500, eta=0.1)[-1]
    # It has converged, to (I − W)x + ηg(x) = 0, which is neither consensus nor the optimum.
    stationarity = (EYE - W) @ x + 0.1 * CURVATURE * (x - CENTRE)
    np.testing.assert_allclose(stationarity, 0, atol=1e-9)
    assert np.abs(x - OPTIMUM).max() > 1e-2


def test_paper_values_diverge_in_jacobi_order_only() -> None:
    ring = 2 * EYE - np.roll(EYE, 1, axis=1) - np.roll(EYE, -1, axis=1)

    def flat(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return np.zeros(P)

    values = {"eta": 0.03, "alpha": 5.0, "beta": 20.0}
    jacobi = ref.dsgpa(X0, ring, W, flat, 400, **values)[-1]
    gauss_seidel = ref.dsgpa(X0, ring, W, flat, 400, dual="gauss-seidel", **values)[-1]
    assert np.abs(jacobi).max() > 1e3
    np.testing.assert_allclose(gauss_seidel, np.tile(X0.mean(axis=0), (N, 1)), atol=1e-9)


def test_unknown_choices_are_refused() -> None:
    with pytest.raises(ValueError, match="power_on"):
        ref.dsgpa(X0, L, W, noisy, 1, eta=1, alpha=1, beta=1, power_on="both")
    with pytest.raises(ValueError, match="dual"):
        ref.dsgpa(X0, L, W, noisy, 1, eta=1, alpha=1, beta=1, dual="seidel")


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
def test_momentum_before_the_power_is_the_equation(dual: str) -> None:
    eta, alpha, beta, gamma, theta = 0.05, 2.0, 1.5, 0.7, 0.3
    x, v, m, expected = X0, np.zeros((N, P)), np.zeros((N, P)), [X0]
    for k in range(T):
        v_next = v + eta * beta * L @ x
        m = (1 - theta) * m + theta * (beta * (v if dual == "jacobi" else v_next) + stacked(x, k))
        x, v = x - eta * (alpha * L @ x + np.copysign(np.abs(m) ** gamma, m)), v_next
        expected.append(x)
    values = {"eta": eta, "alpha": alpha, "beta": beta, "gamma": gamma, "momentum": theta, "dual": dual}
    assert_same(ref.dsgpa(X0, L, W, noisy, T, power_on="direction", **values), expected)


def test_powered_tracking_with_a_power_of_one_is_gradient_tracking() -> None:
    assert_same(
        ref.powered_tracking(X0, L, W, noisy, T, eta=0.05, gamma=1.0), ref.d_sgt_1(X0, L, W, noisy, T, eta=0.05)
    )
