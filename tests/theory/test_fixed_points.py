"""Fixed points, against long simulations on heterogeneous quadratic costs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.optimize
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerdescent import InputError, algorithms, graphs, theory, train
from peerdescent.algorithms import DSGPA, PRESETS, make
from peerdescent.problems import Quadratic, quadratic
from peerdescent.transforms import Clip, ClipNorm, Normalize, Powerball, power

GRAPH = graphs.parse("er:5:0.6:seed=2")
K3 = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
PAIRS = Quadratic(A=[[1.0]] * 4, c=[[0.0], [0.0], [1.0], [1.0]])


def diagonal(seed: int = 3, agents: int = 5) -> Quadratic:
    random = np.random.default_rng(seed)
    return Quadratic(A=random.uniform(0.3, 2, (agents, 2)), c=random.normal(size=(agents, 2)))


def full(seed: int = 4, agents: int = 5) -> Quadratic:
    return quadratic(agents, 2, condition=5, seed=seed)


def limit(method: algorithms.Algorithm, problem: Quadratic, iterations: int = 6000) -> np.ndarray:
    """Where a simulation ends."""
    settings_: dict[str, Any] = {"dtype": "float64", "laplacian": "unit", "eval_every": iterations, "per_agent": False}
    return np.asarray(train(problem, GRAPH, method, iterations=iterations, **settings_).x)


METHODS: dict[str, dict[str, float]] = {
    "dsgpa-f": {"eta": 0.05, "alpha": 5.0, "beta": 3.0},
    "d2": {"eta": 0.05},
    "d-sgt-1": {"eta": 0.05},
    "d-sgt-2": {"eta": 0.05},
    "d-sgd-1": {"eta": 0.05},
    "d-sgd-2": {"alpha": 0.05, "beta": 0.2},
    "dm-sgd": {"eta": 0.02, "beta": 0.8},
    "d-asg": {"eta": 0.02, "beta": 0.5},
}
CONSENSUS = ("dsgpa-f", "d2", "d-sgt-1", "d-sgt-2")


@pytest.mark.parametrize("problem", [diagonal(), full()], ids=["diagonal", "full"])
@pytest.mark.parametrize("gamma", [1.0, 0.7, pytest.param(0.5, marks=pytest.mark.e2e)])
@pytest.mark.parametrize("name", list(METHODS))
def test_long_runs_converge_to_the_fixed_point(name: str, gamma: float, problem: Quadratic) -> None:
    method = make(name, gamma, **METHODS[name])
    found = theory.fixed_point(method, problem, GRAPH, "unit")
    np.testing.assert_allclose(limit(method, problem), found, rtol=0, atol=1e-9)
    consensus = np.ptp(found, axis=0).max() == 0
    assert consensus == (name in CONSENSUS)
    off = np.abs(found.mean(axis=0) - problem.optimum().numpy()).max()
    assert (off < 1e-9) == (gamma == 1 and name in CONSENSUS)  # the others have a bias


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
@pytest.mark.parametrize("gamma", [0.9, 0.7, 0.5])
@pytest.mark.parametrize("problem", [diagonal(), full()], ids=["diagonal", "full"])
def test_the_papers_method_and_the_exact_one(dual: Any, gamma: float, problem: Quadratic) -> None:
    biased, exact = (
        DSGPA(0.01, 5.0, 5.0, gamma, dual=dual, power_on=where)  # type: ignore[arg-type]
        for where in ("gradient", "direction")
    )
    np.testing.assert_allclose(limit(biased, problem), theory.fixed_point(biased, problem, GRAPH, "unit"), atol=1e-8)
    optimum = theory.fixed_point(exact, problem, GRAPH, "unit")
    np.testing.assert_allclose(optimum, np.tile(problem.optimum().numpy(), (5, 1)), atol=1e-12)
    np.testing.assert_allclose(limit(exact, problem), optimum, atol=3e-3)  # it oscillates there


@pytest.mark.parametrize(("gamma", "value"), [(1.0, 1 / 3), (0.7, 0.2709), (0.5, 0.2)])
def test_three_agents(gamma: float, value: float) -> None:
    # (1−x)^γ = 2x^γ, so x = 1/(1 + 2^(1/γ))
    graph = graphs.complete(3)
    biased = theory.fixed_point(make("dsgpa-f-pb", gamma=gamma), K3, graph)
    np.testing.assert_allclose(biased, value, atol=5e-5)
    np.testing.assert_allclose(biased, 1 / (1 + 2 ** (1 / gamma)), atol=1e-14)
    exact = theory.fixed_point(make("dsgpa-f-pb-exact", gamma=gamma), K3, graph)
    np.testing.assert_allclose(exact, 1 / 3, atol=1e-14)


@pytest.mark.filterwarnings("ignore:gamma")
def test_small_powers_lead_to_the_median() -> None:
    random = np.random.default_rng(1)
    c = random.normal(size=(7, 3))
    problem = Quadratic(A=random.uniform(0.5, 2, (7, 3)), c=c)
    found = theory.fixed_point(make("dsgpa-f-pb", gamma=0.01), problem, graphs.complete(7))
    np.testing.assert_allclose(found, np.tile(np.median(c, axis=0), (7, 1)), atol=0.01)


@pytest.mark.filterwarnings("ignore:gamma")
@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    agents=st.integers(2, 8),
    p=st.integers(1, 4),
    gamma=st.floats(0.3, 1),
    condition=st.floats(1, 300),
    spread=st.floats(0.01, 100),
)
@example(seed=564, agents=2, p=1, gamma=0.3125, condition=1.0, spread=0.03125)  # gradients of 5e-12
def test_powered_gradients_balance_whatever_the_costs(
    seed: int, agents: int, p: int, gamma: float, condition: float, spread: float
) -> None:
    problem = quadratic(agents, p, condition=condition, spread=spread, seed=seed)
    graph = graphs.complete(agents)
    for method in (make("dsgpa-f-pb", gamma=gamma), make("d-sgd-1", gamma)):
        x = theory.fixed_point(method, problem, graph)
        gradients = np.einsum("npq,nq->np", problem.A.numpy(), x - problem.c.numpy())
        u = power(gradients, gamma)
        # x has finitely many digits: a tiny gradient is known only up to their rounding, which the power enlarges
        rounding = 8 * agents * np.finfo(float).eps * np.abs(problem.A.numpy()).sum(axis=2).max() * np.abs(x).max()
        unknown = np.abs(power(np.abs(gradients) + rounding, gamma) - np.abs(u)).max()
        assert np.abs(u.sum(axis=0)).max() <= 1e-7 * np.abs(u).max() + agents * unknown
        if method.common_start or isinstance(method, DSGPA):
            assert np.ptp(x, axis=0).max() == 0
        else:  # Wx − ηu = x
            residual = graph.mixing() @ x - 0.1 * u - x
            assert np.abs(residual).max() <= 1e-7 * np.abs(u).max()


@pytest.mark.parametrize("gamma", [1.0, 0.6])
def test_bisection_and_newtons_method_agree(gamma: float) -> None:
    # one entry off the diagonal, too small to matter, selects the other algorithm
    plain = diagonal()
    A = plain.A.numpy().copy()
    A[0, 0, 1] = A[0, 1, 0] = 1e-14
    method = make("dsgpa-f-pb", gamma=gamma)
    found = [theory.fixed_point(method, Quadratic(A=matrix, c=plain.c.numpy()), GRAPH) for matrix in (plain.A, A)]
    np.testing.assert_allclose(*found, atol=1e-10)


def test_costs_that_only_together_have_a_minimum() -> None:
    flat = Quadratic(A=[[1.0, 0.0], [0.0, 2.0], [3.0, 0.0]], c=[[1.0, 9.0], [9.0, 2.0], [0.0, 9.0]])
    found = theory.fixed_point(make("dsgpa-f-pb", gamma=0.5), flat, graphs.complete(3))
    # in the first coordinate √(1−x) = √(3x), in the second only one agent has curvature
    np.testing.assert_allclose(found, [[0.25, 2.0]] * 3, atol=1e-12)


def test_without_a_dual_variable_the_agents_stay_apart() -> None:
    for where in ("gradient", "direction"):
        method = DSGPA(0.02, 5.0, 0.0, 0.7, power_on=where)  # type: ignore[arg-type]
        found = theory.fixed_point(method, diagonal(), GRAPH, "unit")
        np.testing.assert_allclose(limit(method, diagonal()), found, atol=1e-9)
        assert np.ptp(found, axis=0).max() > 0.01


def test_a_central_server_is_not_biased_by_a_power() -> None:
    found = theory.fixed_point(make("c-sgd", 0.5), full(), GRAPH)
    np.testing.assert_allclose(found, np.tile(full().optimum().numpy(), (5, 1)), atol=1e-12)


@pytest.mark.parametrize(
    ("method", "problem", "graph", "words"),
    [
        (make("dsgpa-f"), K3, graphs.ring(4), "3 agents and the graph 4"),
        (make("dsgpa-f", transform=Clip(1e-3)), PAIRS, graphs.ring(4), "a larger limit"),
        (make("d-sgd-1", transform=np.tanh), K3, graphs.ring(3), "nothing is known"),
        (make("dsgpa-f"), Quadratic(A=np.zeros((3, 1)), c=np.zeros((3, 1))), graphs.ring(3), "singular"),
        (make("d-sgd-1"), Quadratic(A=np.zeros((3, 1)), c=np.ones((3, 1))), graphs.ring(3), "singular"),
    ],
)
def test_what_has_no_fixed_point_gets_a_sentence(method: Any, problem: Any, graph: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        theory.fixed_point(method, problem, graph)


@pytest.mark.filterwarnings("ignore:gamma")
def test_signs_have_no_single_fixed_point() -> None:
    for method in (make("dsgpa-f-pb", gamma=0.0), make("d-sgd-1", 0.0)):
        with pytest.raises(InputError, match="whole interval"):
            theory.fixed_point(method, K3, graphs.ring(3))


@pytest.mark.filterwarnings("ignore:gamma")
def test_powers_multiply() -> None:
    twice, once = make("d-sgt-1", transform=Powerball(0.5).then(Powerball(0.8))), make("d-sgt-1", powerball=0.4)
    np.testing.assert_allclose(*(theory.fixed_point(m, diagonal(), GRAPH) for m in (twice, once)), atol=1e-12)


@pytest.mark.filterwarnings("ignore:this fixed point may not be the only one")
@pytest.mark.parametrize("problem", [diagonal(), full()], ids=["diagonal", "full"])
@pytest.mark.parametrize("name", ["dsgpa-f", "d2", "d-sgt-1", "d-sgd-1"])
def test_clipped_gradients_balance(name: str, problem: Quadratic) -> None:
    method = make(name, transform=Clip(0.5), **METHODS[name])
    found = theory.fixed_point(method, problem, GRAPH, "unit")
    np.testing.assert_allclose(limit(method, problem), found, rtol=0, atol=1e-9)
    gradients = np.einsum("npq,nq->np", problem.A.numpy(), found - problem.c.numpy())
    assert np.abs(gradients).max() > 0.5  # something is clipped
    assert np.abs(np.clip(gradients, -0.5, 0.5).sum(axis=0)).max() < 1e-9
    assert np.abs(found.mean(axis=0) - problem.optimum().numpy()).max() > 1e-3


@pytest.mark.parametrize("name", ["dsgpa-f", "d2", "d-sgt-1", "d-sgt-2"])
def test_after_the_correction_nothing_is_biased(name: str) -> None:
    problem = diagonal()
    for transform in (Powerball(0.7), Clip(0.05), Clip(0.3).then(Powerball(0.5))):
        method = make(name, transform=transform.on_direction(), **METHODS[name])
        found = theory.fixed_point(method, problem, GRAPH, "unit")
        np.testing.assert_allclose(found, np.tile(problem.optimum().numpy(), (5, 1)), atol=1e-12)
        assert not theory.heterogeneity_bias(method).biased
        assert theory.heterogeneity_bias(make(name, transform=transform, **METHODS[name])).biased
    clipped = make(name, transform=Clip(0.05).on_direction(), **METHODS[name])
    np.testing.assert_allclose(limit(clipped, problem, 20_000), found, atol=1e-6)


def test_momentum_before_the_power_does_not_move_the_fixed_point() -> None:
    problem, values = diagonal(), {"eta": 0.02, "alpha": 10.0, "beta": 3.0, "momentum": 0.2}
    exact, powered = (DSGPA(**values, gamma=0.7, power_on=where) for where in ("direction", "gradient"))  # type: ignore
    optimum = np.tile(problem.optimum().numpy(), (5, 1))
    np.testing.assert_allclose(theory.fixed_point(exact, problem, GRAPH, "unit"), optimum, atol=1e-12)
    np.testing.assert_allclose(limit(exact, problem), optimum, atol=1e-3)  # it oscillates there
    biased = theory.fixed_point(powered, problem, GRAPH, "unit")
    np.testing.assert_allclose(limit(powered, problem), biased, atol=1e-8)
    assert np.abs(biased - optimum).max() > 0.01


def test_theory_and_the_cards_agree_on_the_bias() -> None:
    for name in PRESETS:
        method = make(name)
        if "adam" in name or name == "sclip-ef":  # powers of their own
            with pytest.raises(InputError, match="whose step has a power"):
                theory.heterogeneity_bias(method)
        else:
            assert theory.heterogeneity_bias(method).biased == bool(method.bias), name


def test_unit_gradients_balance_at_the_geometric_median() -> None:
    c = np.random.default_rng(2).normal(size=(7, 2))
    median = c.mean(axis=0)
    for _ in range(2000):  # Weiszfeld's iteration
        weights = 1 / np.linalg.norm(c - median, axis=1)
        median = (weights[:, None] * c).sum(axis=0) / weights.sum()
    problem = Quadratic(A=np.ones((7, 2)), c=c)
    for method in (make("d-sgt-1", transform=Normalize()), make("extra", transform=Normalize())):
        found = theory.inspect_fixed_point(method, problem, graphs.ring(7))
        np.testing.assert_allclose(found.x, np.tile(median, (7, 1)), atol=1e-9)
        assert found.unique


def test_clipped_gradients_balance_where_hubers_loss_is_least() -> None:
    c = np.random.default_rng(5).normal(size=(6, 3)) * 2
    a = np.random.default_rng(6).uniform(0.5, 2, 6)

    def huber(x: np.ndarray) -> float:  # its gradient is Σ_i clip(a_i(x − c_i))
        lengths = a * np.linalg.norm(x - c, axis=1)
        return float((np.where(lengths < 1, lengths**2 / 2, lengths - 0.5) / a).sum())

    best = scipy.optimize.minimize(huber, c.mean(axis=0), method="BFGS", options={"gtol": 1e-12}).x
    problem = Quadratic(A=np.repeat(a[:, None], 3, axis=1), c=c)
    found = theory.inspect_fixed_point(make("d2", transform=ClipNorm(1.0)), problem, graphs.ring(6))
    np.testing.assert_allclose(found.x, np.tile(best, (6, 1)), atol=1e-6)
    assert found.unique
    assert found.attracting


def test_what_settles_after_the_correction_and_what_circles() -> None:
    for name in ("d-sgt-1", "d2", "extra", "dsgpa-f"):
        values = {"alpha": 5.0, "beta": 3.0} if name == "dsgpa-f" else {}
        clip, power_, unit = (
            theory.inspect_fixed_point(
                make(name, transform=t.on_direction(), eta=0.05, **values), K3, graphs.complete(3)
            )
            for t in (Clip(0.1), Powerball(0.7), Normalize())
        )
        np.testing.assert_allclose(clip.x, 1 / 3, atol=1e-12)
        assert clip.attracting
        assert power_.radius == unit.radius == np.inf


def test_a_norm_among_other_transforms_has_no_known_fixed_point() -> None:
    with pytest.raises(InputError, match="use a norm alone"):
        theory.fixed_point(make("d-sgt-1", transform=Clip(1.0).then(Normalize())), K3, graphs.complete(3))
