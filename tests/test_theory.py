"""What theory says, against closed forms, the paper's inequalities and simulation."""

import math
import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import DivergedError, InputError, algorithms, graphs, theory, train
from peerdescent.problems import Quadratic
from peerdescent.transforms import power

pytestmark = pytest.mark.filterwarnings("ignore:ηβ²")


def boundary(method: algorithms.Algorithm) -> float:
    """The largest eigenvalue of L up to which the method is stable, by bisection on its recursion."""
    low, high = 1e-6, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        radius = np.abs(np.linalg.eigvals(theory.recursion(method, middle, 0.0))).max()
        low, high = (middle, high) if radius < 1 else (low, middle)
    return low


@pytest.mark.parametrize(
    ("name", "dual", "limit"),
    [("dsgpa-f", "gauss-seidel", 6.06), ("dsgpa-t", "jacobi", 6.87), ("dsgpa-t", "gauss-seidel", 5.73)],
)
def test_the_papers_values_are_stable_up_to_the_known_eigenvalue(name: str, dual: str, limit: float) -> None:
    assert boundary(algorithms.make(name, dual=dual, epsilon=0.0)) == pytest.approx(limit, abs=0.005)


@pytest.mark.parametrize("eigenvalue", [1e-3, 0.1, 1.0, 10.0])
def test_the_papers_fixed_values_in_the_printed_order_are_unstable_for_every_eigenvalue(eigenvalue: float) -> None:
    matrix = theory.recursion(algorithms.make("dsgpa-f", dual="jacobi"), eigenvalue, 0.0)
    assert np.abs(np.linalg.eigvals(matrix)).max() > 1


@given(eta=st.floats(0.01, 1), alpha=st.floats(0.1, 10), beta=st.floats(0.1, 10), lam=st.floats(0.05, 8))
def test_both_dual_orders_follow_their_closed_forms(eta: float, alpha: float, beta: float, lam: float) -> None:
    a, b = eta * alpha * lam, (eta * beta) ** 2 * lam
    closed = {"jacobi": eta * beta**2 < alpha and a < 2 + b / 2, "gauss-seidel": a < 2 and 2 * a + b < 4}
    for dual, stable in closed.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = algorithms.DSGPA(eta, alpha, beta, dual=dual)
        radius = float(np.abs(np.linalg.eigvals(theory.recursion(method, lam, 0.0))).max())
        if abs(radius - 1) > 1e-6:
            assert (radius < 1) == stable


def diverges(method: algorithms.Algorithm, graph: graphs.Graph, laplacian: str) -> bool:
    """Flat costs, disagreeing starts and a whiff of noise, which wakes every mode: the linear dynamics alone."""
    n = graph.n
    problem = Quadratic(A=np.zeros((n, 1, 1)), c=np.zeros((n, 1)), noise=1e-6)
    start = torch.from_numpy(np.random.default_rng(0).standard_normal((n, 1)))
    try:
        result = train(
            problem,
            graph,
            method,
            x0=start,
            iterations=4000,
            eval_every=4000,
            batch_size=1,
            laplacian=laplacian,
            dtype="float64",
        )
    except DivergedError:
        return True
    return result.metrics[-1]["consensus_error"] > result.metrics[0]["consensus_error"]


@settings(max_examples=60, deadline=None)
@given(
    name=st.sampled_from([name for name in algorithms.PRESETS if name != "c-sgd"]),
    spec=st.sampled_from(["path:4", "star:6", "ring:5", "complete:4", "er:8:0.4:seed=3", "regular:6:3"]),
    factor=st.floats(0.05, 20),
    laplacian=st.sampled_from(["unit", "metropolis"]),
    dual=st.sampled_from(["jacobi", "gauss-seidel"]),
)
def test_stability_agrees_with_simulation(name: str, spec: str, factor: float, laplacian: str, dual: str) -> None:
    preset = algorithms.find(name)
    options = preset.options()
    values: dict[str, object] = {
        r: factor * float(options[r]) for r in preset.kind.rates if isinstance(options[r], float)
    }
    if "dual" in options:
        values |= {"dual": dual, "gamma": 1.0, "epsilon": 0.0}
    method, graph = algorithms.make(name, **values), graphs.parse(spec)
    verdict = theory.stability(method, graph, laplacian)
    if abs(verdict.margin) > 0.02:  # at the boundary 4,000 iterations cannot tell
        assert diverges(method, graph, laplacian) == (not verdict.stable), verdict.reason


def test_time_scale_is_that_of_the_slowest_mode() -> None:
    graph = graphs.ring(10)
    verdict = theory.stability(algorithms.DSGD1(), graph)
    slowest = 1 - (1 - math.cos(2 * math.pi / 10)) * 2 / 3
    assert verdict.radius == pytest.approx(slowest)
    assert verdict.tenfold == pytest.approx(math.log(0.1) / math.log(slowest))


def test_one_agent_and_centralized_methods_cannot_disagree() -> None:
    assert theory.stability(algorithms.make("dsgpa-f"), graphs.ring(1)).stable
    assert theory.stability(algorithms.make("c-sgd"), graphs.ring(5)).stable


def test_the_cures_are_stable_and_a_little_less_is_not() -> None:
    graph, method = graphs.star(10), algorithms.make("dsgpa-f")
    assert not theory.stability(method, graph, "unit").stable
    cures = theory.nearest_stable(method, graph, "unit")
    assert set(cures) == {"eta", "alpha", "beta"}
    for name, value in cures.items():
        assert theory.stability(algorithms.make("dsgpa-f", **{name: value}), graph, "unit").stable
        assert not theory.stability(algorithms.make("dsgpa-f", **{name: value * 1.001}), graph, "unit").stable


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


@pytest.mark.parametrize(
    ("spec", "iterations", "kappa1", "words"),
    [
        ("ring:10", 1000, None, "more than n³ = 1000"),
        ("ring:4", 100, 1.0, "needs more than"),
        ("ring:1", 9, None, "two agents"),
    ],
)
def test_infeasible_requests_get_a_sentence(spec: str, iterations: int, kappa1: float | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        theory.theorem1_parameters(graphs.parse(spec), iterations, kappa1=kappa1)


@given(
    g=st.lists(st.floats(1e-50, 1e6).flatmap(lambda a: st.sampled_from([a, -a, 0.0])), min_size=1, max_size=30),
    gamma=st.floats(0.5, 1),
)
def test_the_corrected_lemma_holds(g: list[float], gamma: float) -> None:
    left = float(np.sum(power(np.array(g), gamma) ** 2))
    assert left <= theory.corrected_lemma1_bound(g, gamma) * (1 + 1e-9)
