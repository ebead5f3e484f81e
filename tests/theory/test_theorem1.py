"""Theorem 1's parameters against its inequalities, and Lemma 1, corrected."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent import InputError, algorithms, graphs, theory, train
from peerdescent.problems import Quadratic
from peerdescent.theory.theorem1 import kappa2_bound
from peerdescent.transforms import power


def test_theorem_1s_parameters_satisfy_its_inequalities_on_200_random_graphs() -> None:
    random = np.random.default_rng(1)
    for seed in range(200):
        n = int(random.integers(2, 15))
        graph = graphs.erdos_renyi(n, float(random.uniform(0.4, 1)), seed=seed)
        T = n**3 + int(random.integers(1, 10**6))
        kind = ("unit", "metropolis")[seed % 2]
        values = theory.theorem1_parameters(graph, T, kind)
        eigenvalues = np.linalg.eigvalsh(graph.laplacian(kind).toarray())
        rho, rho2, k1, k2 = eigenvalues[-1], eigenvalues[1], values["kappa1"], values["kappa2"]
        assert k1 > 1 / rho2 + 1
        assert 0 < k2 < min(((k1 - 1) * rho2 - 1) / (rho + (2 * k1**2 + 1) * rho**2 + 1), 0.2)
        assert values["beta"] == pytest.approx(k2 * math.sqrt(T / n))
        assert values["alpha"] == pytest.approx(k1 * values["beta"])
        assert values["eta"] == pytest.approx(math.sqrt(n / T))
        for other in (0.98 * k1, 1.02 * k1):  # κ₁ is where the bound on κ₂ is largest
            if other > 1 / rho2 + 1:
                assert theory.theorem1_parameters(graph, T, kind, other)["kappa2"] <= k2 * (1 + 1e-9)


def test_theorem_1s_parameters_are_stable_in_the_printed_order_on_random_graphs() -> None:
    for seed in range(50):
        n = 2 + seed % 12
        graph = graphs.erdos_renyi(n, 0.6, seed=seed)
        values = theory.theorem1_parameters(graph, n**3 + 10 ** (seed % 6))
        method = algorithms.DSGPA(*(values[name] for name in ("eta", "alpha", "beta")), dual="jacobi")
        assert theory.stability(method, graph).stable


def test_theorem_1s_parameters_are_slow_however_long_the_run_is() -> None:
    graph = graphs.parse("authors10")
    slow = []
    for T in (10**4, 10**6):
        values = theory.theorem1_parameters(graph, T, "unit")
        method = algorithms.DSGPA(*(values[name] for name in ("eta", "alpha", "beta")), dual="jacobi")
        slow.append(theory.stability(method, graph, "unit").tenfold)
    assert slow[0] == pytest.approx(slow[1], rel=1e-6)  # ηα = κ₁κ₂ and ηβ = κ₂ do not depend on T
    values = theory.theorem1_parameters(graph, 30000, "unit")
    assert slow[0] == pytest.approx(math.log(10) * values["kappa1"] / values["kappa2"], rel=0.002)
    assert slow[0] == pytest.approx(340_894, rel=1e-3)  # the paper's experiment has 30,000 iterations
    assert theory.stability(algorithms.make("dsgpa-t"), graph, "unit").tenfold < 100


def test_the_papers_experiments_do_not_satisfy_the_theorem() -> None:
    failing = theory.theorem1_failing(algorithms.make("dsgpa-f-pb"), rho=5.17, rho2=0.158, n=10, iterations=30000)
    assert "κ₁ = α/β = 0.25" in failing[0]
    assert "κ₂ = ηβ = 0.6" in failing[1]


@pytest.mark.parametrize("gamma", [1.0, 0.5])
def test_theorem_1s_gradient_bound_cannot_hold_where_costs_differ(gamma: float) -> None:
    # Guaranteed: the mean of ‖∇f(x̄_k)‖² falls like 1/√(nT). Exact gradients, its own parameters, three agents.
    problem, graph, means = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]]), graphs.complete(3), []
    for T in (2_000, 32_000):
        values = theory.theorem1_parameters(graph, T, "unit")
        method = algorithms.DSGPA(*(values[name] for name in ("eta", "alpha", "beta")), gamma, dual="jacobi")
        assert not theory.theorem1_failing(method, 3, 3, 3, T)
        often: dict[str, Any] = {"iterations": T, "eval_every": T // 2000, "per_agent": False}
        run = train(problem, graph, method, laplacian="unit", dtype="float64", **often)
        means.append(float(np.mean(np.square(run.metrics["gradient_norm"]))))
    if gamma == 1:
        assert means[1] < means[0] / 3  # four times as many √T
    else:
        np.testing.assert_allclose(means, (1 / 3 - 1 / 5) ** 2, rtol=0.15)


@pytest.mark.parametrize(
    ("spec", "iterations", "kappa1", "words"),
    [
        ("ring:10", 1000, None, "more than n³ = 1000 iterations, not 1000"),
        ("ring:4", 100, 1.0, "needs more than"),
        ("ring:1", 9, None, "two agents"),
    ],
)
def test_infeasible_requests_get_a_sentence(spec: str, iterations: int, kappa1: float | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        theory.theorem1_parameters(graphs.parse(spec), iterations, kappa1=kappa1)


def test_a_disconnected_graph_gets_a_sentence() -> None:
    with pytest.raises(InputError, match="it has 2 parts"):
        theory.theorem1_parameters(graphs.Graph(4, ((0, 1), (2, 3))), 1000)


@given(
    g=st.lists(st.floats(1e-50, 1e6).flatmap(lambda a: st.sampled_from([a, -a, 0.0])), min_size=1, max_size=30),
    gamma=st.floats(0.5, 1),
)
def test_the_corrected_lemma_holds(g: list[float], gamma: float) -> None:
    left = float(np.sum(power(np.array(g), gamma) ** 2))
    assert left <= theory.corrected_lemma1_bound(g, gamma) * (1 + 1e-9)


@given(size=st.floats(1e-6, 1e6), p=st.integers(1, 30), gamma=st.floats(0.5, 1))
def test_the_corrected_lemma_is_sharp_for_equal_entries(size: float, p: int, gamma: float) -> None:
    g = np.full(p, size)
    assert float(np.sum(power(g, gamma) ** 2)) == pytest.approx(theory.corrected_lemma1_bound(g, gamma))


@given(size=st.floats(1e-9, 0.5), gamma=st.floats(0.5, 0.95))
def test_lemma_1_as_printed_fails_for_every_small_number(size: float, gamma: float) -> None:
    assert power(np.array([size]), gamma)[0] ** 2 > size**2  # for p = 1 every norm is the absolute value


@given(
    g=st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20).filter(lambda g: max(map(abs, g)) > 1e-3),
    gamma=st.floats(0.5, 1),
)
def test_lemma_1_as_printed_holds_for_gradients_that_are_long_enough(g: list[float], gamma: float) -> None:
    entries = np.array(g) / max(map(abs, g))
    length = float(np.sum(np.abs(entries) ** (1 + gamma)) ** (1 / (1 + gamma)))
    entries *= len(g) ** (0.5 / (1 + gamma)) / length  # now its norm is p^(1/(2(1+γ)))
    for factor in (1.0, 2.0, 100.0):
        norm = float(np.sum(np.abs(factor * entries) ** (1 + gamma)) ** (1 / (1 + gamma)))
        assert float(np.sum(power(factor * entries, gamma) ** 2)) <= norm**2 * (1 + 1e-9)


ENDS = {"rho2": st.floats(1e-3, 50), "ratio": st.floats(1, 1000), "spread": st.floats(1.001, 100)}


@given(**ENDS)
def test_theorem_1s_parameters_are_stable_in_both_dual_orders_for_every_spectrum(
    rho2: float, ratio: float, spread: float
) -> None:
    rho, kappa1 = rho2 * ratio, spread * (1 / rho2 + 1)
    kappa2 = kappa2_bound(kappa1, rho, rho2)
    assert kappa2 < 1 / (2 * kappa1 * rho)
    assert kappa2 <= 1 / (4 * (1 + math.sqrt(1.5)))  # so that the 1/5 never binds
    for lam in (rho2, rho):  # a = κ₁κ₂λ, b = κ₂²λ
        a, b = kappa1 * kappa2 * lam, kappa2**2 * lam
        assert b < a
        assert 2 * a + b < 4
        assert b / a**2 == pytest.approx(1 / (kappa1**2 * lam))
        assert b / a**2 < 1 / 4
        slow = (a - math.sqrt(a * a - 4 * b)) / 2  # 1 − the slow root
        assert kappa2 / kappa1 * (1 - 1e-6) <= slow <= 2 * kappa2 / kappa1


def test_the_fastest_of_theorem_1s_parameters_are_slow_too() -> None:
    values = np.linalg.eigvalsh(graphs.authors10().laplacian("unit").toarray())

    def tenfold(scale: float) -> float:
        rho, rho2 = scale * values[-1], scale * values[1]
        kappas = (1 / rho2 + 1) * np.geomspace(1.01, 10, 2000)
        return math.log(10) * min(k / (0.99 * kappa2_bound(float(k), rho, rho2)) for k in kappas)

    assert tenfold(1.0) == pytest.approx(285_000, rel=0.02)
    assert min(tenfold(s) for s in np.geomspace(0.01, 10, 40)) == pytest.approx(142_000, rel=0.03)


def test_theorem_1s_proof_needs_more_than_its_conditions() -> None:
    values = theory.theorem1_parameters("authors10", 30_000, "unit")
    rho2 = float(np.linalg.eigvalsh(graphs.authors10().laplacian("unit").toarray())[1])
    needed = theory.theorem1_proof_iterations(values["kappa1"], values["kappa2"], rho2, 10)
    assert needed == pytest.approx(4.9e11, rel=0.02)
    beta = values["kappa2"] * math.sqrt(needed / 10)
    kappa3 = 1 / rho2 + values["kappa1"] + 1
    assert beta == pytest.approx(kappa3)  # b₁ = ½(2β − κ₃)η − (5/2)β²η² ≥ ½(κ₂ − 5κ₂²) with ηβ = κ₂
    for factor in (0.99, 1.01):
        k2, b = values["kappa2"], factor * beta
        assert (0.5 * (2 * b - kappa3) * k2 / b >= 0.5 * k2) == (factor > 1)
    with pytest.raises(InputError, match="above 0"):
        theory.theorem1_proof_iterations(1.0, 0.0, 1.0, 10)


@given(
    gamma=st.floats(0.05, 0.95),
    eta=st.floats(-3, 1).map(lambda exponent: 10.0**exponent),
    start=st.lists(st.floats(-5, 5), min_size=3, max_size=3),
)
def test_powered_gradients_on_equal_costs(gamma: float, eta: float, start: list[float]) -> None:
    # f(x) = Σ_l (1 − cos x_l) + (x₁ + x₂)²/2, nonconvex, with f* = 0 and L_f = 3
    x, T, norms = np.array(start), 60, []

    def cost(x: Any) -> float:
        return float((1 - np.cos(x)).sum() + (x[0] + x[1]) ** 2 / 2)

    first = cost(x)
    for _ in range(T):
        g = np.sin(x) + np.array([1.0, 1.0, 0.0]) * (x[0] + x[1])
        norms.append((np.abs(g) ** (1 + gamma)).sum())
        x = x - eta * np.sign(g) * np.abs(g) ** gamma
    S = 3 * 3 ** ((1 - gamma) / (1 + gamma))
    exponent = 2 * gamma / (1 - gamma) * math.log(2 * gamma * eta * S / (1 + gamma))
    floor = (1 - gamma) / (1 + gamma) * eta * S * math.exp(min(exponent, 600.0))
    assert np.mean(norms) <= (2 * first / (eta * T) + floor) * (1 + 1e-9)
