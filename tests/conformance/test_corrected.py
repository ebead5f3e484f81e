"""Corrected methods and momentum methods: forms as printed, special cases of each other, and where they end."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from tests.conformance.test_reference import EYE, OPTIMUM, X0, L, N, P, T, W, assert_same, exact, noisy, ref, stacked

from peerdescent import InputError, graphs, theory, train
from peerdescent.algorithms import DSGPA, make
from peerdescent.problems import Quadratic
from peerdescent.tracing.step import finish_step, start_step

LAZY = (EYE + W) / 2


class Dense:
    """The network of these tests as matrices."""

    def __init__(self, mixing: np.ndarray = W) -> None:
        self.W = mixing

    def laplacian(self, a: np.ndarray) -> np.ndarray:
        return self.disagreement(a)  # L = I − W

    def disagreement(self, a: np.ndarray) -> np.ndarray:
        return a - self.W @ a

    def mix(self, a: np.ndarray) -> np.ndarray:
        return self.W @ a

    def mean(self, a: np.ndarray) -> np.ndarray:
        return np.broadcast_to(a.mean(axis=0), a.shape)


def follow(name: str, *, mixing: np.ndarray = W, iterations: int = T, gradient: Any = noisy, **values: Any) -> Any:
    """The iterates of the library's step, on arrays."""
    method = make(name, **values)
    x = [X0]
    state = {"x": X0, **{key: X0 if at == "x" else np.zeros_like(X0) for key, at in method.memory().items()}}
    for k in range(iterations):
        net, numbers = Dense(mixing), SimpleNamespace(**method.hyperparameters(k))
        step, point = start_step(method, SimpleNamespace(**state), net, numbers)
        state = finish_step(method, step, np.stack([gradient(i, point[i], k) for i in range(N)]))
        x.append(state["x"])
    return x


def two_steps(first: np.ndarray, A: np.ndarray, B: np.ndarray, C: np.ndarray, eta: float = 0.05) -> list[np.ndarray]:
    """x⁺ = Ax − Bx₋ − ηC(g − g₋) from x_0 and x_1."""
    x = [X0, first]
    for k in range(T - 1):
        change = stacked(x[k + 1], k + 1) - stacked(x[k], k)
        x.append(A @ x[k + 1] - B @ x[k] - eta * C @ change)
    return x


def test_the_two_step_forms_as_printed() -> None:
    g = stacked(X0, 0)
    printed = {
        "extra": two_steps(W @ X0 - 0.05 * g, EYE + W, LAZY, EYE),
        "nids": two_steps(X0 - 0.05 * g, 2 * LAZY, LAZY, LAZY),
        "exact-diffusion": two_steps(LAZY @ (X0 - 0.05 * g), 2 * LAZY, LAZY, LAZY),
        "aug-dgm": two_steps(W @ (X0 - 0.05 * g), 2 * W, W @ W, W @ W),
    }
    for name, iterates in printed.items():
        assert_same(follow(name, eta=0.05), iterates)
        assert_same(ref.REFERENCES[name](X0, L, W, noisy, T, eta=0.05), iterates)


def test_aug_dgm_in_two_lines() -> None:
    x, y, g = X0, stacked(X0, 0), stacked(X0, 0)
    expected = [X0]
    for k in range(T):
        x = W @ (x - 0.05 * y)
        y, g = W @ (y + stacked(x, k + 1) - g), stacked(x, k + 1)
        expected.append(x)
    assert_same(follow("aug-dgm", eta=0.05), expected)


def test_extra_is_jacobi_dsgpa_with_these_weights() -> None:
    eta = 0.05
    method = {"alpha": 1 / eta, "beta": 1 / (np.sqrt(2) * eta), "dual": "jacobi"}
    assert_same(follow("dsgpa-f", eta=eta, **method), follow("extra", eta=eta))
    assert not DSGPA(eta, **method).dual_too_strong  # type: ignore[arg-type]


def test_exact_diffusion_is_d2_with_lazy_weights() -> None:
    assert_same(follow("d2", mixing=LAZY, eta=0.05), follow("exact-diffusion", eta=0.05))


def test_nids_is_exact_diffusion_from_the_second_iteration_on() -> None:
    nids = follow("nids", eta=0.05)
    assert np.abs(nids[1] - follow("exact-diffusion", eta=0.05)[1]).max() > 1e-3
    first = X0 - 0.05 * stacked(X0, 0)
    np.testing.assert_allclose(nids[1], first, atol=1e-15)


def test_without_momentum_they_are_the_methods_they_extend() -> None:
    assert_same(follow("momentum-tracking", eta=0.05, beta=0.0), follow("d-sgt-1", eta=0.05))
    assert_same(follow("edm", eta=0.05, beta=0.0), follow("exact-diffusion", eta=0.05))
    assert_same(follow("qg-dsgdm", eta=0.05, beta=0.0), follow("gossip-sgd", eta=0.05))  # W(x − ηg)


def test_tracked_momentum_is_the_mean_momentum() -> None:
    # Σc = 0, so the mean of u⁺ − c is the mean momentum, and the mean moves by it.
    x, u = follow("momentum-tracking", eta=0.05, beta=0.6), np.zeros(P)
    for k in range(T):
        u = 0.6 * u + stacked(x[k], k).mean(axis=0)
        np.testing.assert_allclose(x[k].mean(axis=0) - x[k + 1].mean(axis=0), 0.05 * u, atol=1e-13)


def test_quasi_global_momentum_survives_a_step_size_of_zero() -> None:
    method = make("qg-dsgdm", eta="cosine:0.1:10")
    assert method.hyperparameters(10)["per_eta"] == 0.0
    found = follow("qg-dsgdm", eta="cosine:0.1:10", iterations=30)
    assert np.isfinite(found[-1]).all()


def test_d_adam_without_the_maximum_is_gossip_adam() -> None:
    # A gradient that never shrinks: then w = v̂ with β₃ = 0, and what is left is Adam, combined first.
    def growing(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return (k + 1.0) * (1 + np.arange(P) + i)

    shared: dict[str, Any] = {"eta": 0.05, "beta1": 0.5, "beta2": 0.9, "gradient": growing}
    assert_same(follow("d-adam", beta3=0.0, **shared), follow("gossip-adam", order="combine-then-adapt", **shared))

    def shrinking(i: int, x: np.ndarray, k: int) -> np.ndarray:
        return growing(i, x, k) / (k + 1.0) ** 3

    shared["gradient"] = shrinking
    ours, adam = follow("d-adam", beta3=0.0, **shared), follow("gossip-adam", order="combine-then-adapt", **shared)
    assert np.abs(ours[-1] - adam[-1]).max() > 0.05  # Adam's steps grow again, these do not


@pytest.mark.parametrize(
    ("values", "message"),
    [({"eps": 0}, "eps = 0"), ({"eps": "x"}, "eps = 'x'"), ({"beta2": 1}, "beta2 = 1"), ({"eta": -1}, "eta = -1")],
)
def test_wrong_values_of_d_adam_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make("d-adam", **values)


MOMENTUM = {"edm": {"beta": 0.6}, "momentum-tracking": {"beta": 0.6}, "qg-dsgdm": {"beta": 0.6}}


@pytest.mark.parametrize("name", ["extra", "nids", "exact-diffusion", "edm", "aug-dgm", "momentum-tracking"])
def test_corrected_methods_reach_the_optimum(name: str) -> None:
    x = follow(name, iterations=1000, gradient=exact, eta=0.1, **MOMENTUM.get(name, {}))[-1]
    np.testing.assert_allclose(x, np.tile(OPTIMUM, (N, 1)), atol=1e-9)


@pytest.mark.parametrize("name", ["qg-dsgdm", "d-adam"])
def test_the_others_keep_a_bias(name: str) -> None:
    rates = {"eta": 0.1, **MOMENTUM.get(name, {})} if name == "qg-dsgdm" else {"eta": 0.002}
    x = follow(name, iterations=1500, gradient=exact, **rates)[-1]
    assert np.abs(x - OPTIMUM).max() > 1e-2
    if name == "qg-dsgdm":  # it has converged, to x = W(x − ηg), as D-SGD that mixes after the step
        stationarity = x - W @ (x - 0.1 * np.stack([exact(i, x[i], 0) for i in range(N)]))
        np.testing.assert_allclose(stationarity, 0, atol=1e-9)


def test_the_printed_form_drifts_and_ours_does_not() -> None:
    """In single precision: the mean must move by the mean gradient, here not at all."""
    W32, x = W.astype(np.float32), (1e3 + X0).astype(np.float32)

    class Differences(Dense):
        def disagreement(self, a: np.ndarray) -> np.ndarray:
            return np.einsum("ij,ijp->ip", self.W, a[:, None] - a[None])

    lazy, before = (np.eye(N, dtype=np.float32) + W32) / 2, x
    ours = {"x": x, "v": np.zeros_like(x)}
    method = make("exact-diffusion", eta=0.1)
    for _ in range(3000):
        x, before = lazy @ (2 * x - before), x
        step, point = start_step(
            method, SimpleNamespace(**ours), Differences(W32), SimpleNamespace(eta=np.float32(0.1))
        )
        ours = finish_step(method, step, np.zeros_like(point))
    mean = (1e3 + X0).mean(axis=0)
    drift = [np.abs(a.mean(axis=0, dtype=np.float64) - mean).max() for a in (x, ours["x"])]
    assert drift[1] < 0.1 < drift[0]


@pytest.mark.parametrize("name", ["extra", "nids", "exact-diffusion", "edm"])
def test_their_condition_on_the_graph(name: str) -> None:
    assert theory.stable_up_to(make(name)) > 2 - 1e-6  # every connected graph
    for graph in ("hypercube:3", "ring:6", "onepeer-exp:4"):
        assert theory.stability(make(name), graph).stable, graph


def test_on_graphs_over_time_they_reach_the_optimum_with_the_weights_as_they_are() -> None:
    random = np.random.default_rng(3)
    problem = Quadratic(A=random.uniform(0.5, 1.5, (4, P)), c=random.normal(size=(4, P)))
    for name in ("extra", "nids", "exact-diffusion", "aug-dgm"):
        settings: dict[str, Any] = {"iterations": 600, "eval_every": 600, "per_agent": False, "dtype": "float64"}
        result = train(problem, graphs.parse("onepeer-exp:4"), make(name, eta=0.1), **settings)
        assert not result.notes
        assert float((result.x - problem.optimum()).abs().max()) < 1e-9, name
