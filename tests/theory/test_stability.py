"""Stability against closed forms and simulation; tests/e2e/test_stability_cases.py has a thousand more cases."""

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.chosen_methods import LINEAR

from peerdescent import DivergedError, InputError, algorithms, graphs, theory, train
from peerdescent.algorithms.state import initial_state
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Quadratic
from peerdescent.transforms import Clip, Powerball, Sign

pytestmark = pytest.mark.filterwarnings("ignore:ηβ²")


def radius_of(method: algorithms.Algorithm, lam: float = 0.0, mu: float = 0.0, h: float = 0.0) -> float:
    return float(np.abs(np.linalg.eigvals(theory.recursion(method, lam, mu, h))).max())


@pytest.mark.parametrize(
    ("name", "dual", "limit"),
    [
        ("dsgpa-f", "jacobi", 0.0),
        ("dsgpa-f", "gauss-seidel", 6.06),
        ("dsgpa-t", "jacobi", 6.87),
        ("dsgpa-t", "gauss-seidel", 5.73),
    ],
)
def test_the_papers_values_are_stable_up_to_the_known_eigenvalue(name: str, dual: str, limit: float) -> None:
    for power_ in ("", "-pb"):  # on the gradient a power does not matter
        found = theory.stable_up_to(algorithms.make(name + power_, dual=dual))
        assert found == pytest.approx(limit, abs=0.005)


@pytest.mark.parametrize(
    ("name", "values", "limit"),
    [
        ("d-sgd-1", {}, 2),
        ("dm-sgd", {"beta": 0.9}, 2),
        ("dm-sgd", {"beta": 1.1}, 0),
        ("d-sgt-1", {}, 2),
        ("d-sgt-2", {}, 2),
        ("d2", {}, 4 / 3),
        ("d-asg", {"beta": 0.8}, 1 + 1 / 2.6),
        ("d-sgd-2", {"beta": 0.2}, 10),
        ("c-sgd", {}, math.inf),
        ("dsgpa-f-pb-exact", {"dual": "jacobi"}, 2 / (0.03 * 5)),
        ("dsgpa-f", {"dual": "jacobi", "alpha": 0.0}, 0),
        ("dsgpa-f-pb-exact", {"dual": "jacobi", "alpha": 0.0}, 0),
        ("dsgpa-f", {"eta": 0.1, "alpha": 1.0, "beta": 0.0}, 20),
    ],
)
def test_eigenvalues_up_to_which_methods_are_stable(name: str, values: Any, limit: float) -> None:
    assert theory.stable_up_to(algorithms.make(name, **values)) == pytest.approx(limit, abs=1e-6)


@pytest.mark.parametrize("eigenvalue", [1e-3, 0.1, 1.0, 10.0])
def test_the_papers_fixed_values_in_the_printed_order_are_unstable_for_every_eigenvalue(eigenvalue: float) -> None:
    matrix = theory.recursion(algorithms.make("dsgpa-f", dual="jacobi"), eigenvalue, 0.0)
    assert np.abs(np.linalg.eigvals(matrix)).max() > 1


SIZES = {"eta": st.floats(0.01, 1), "alpha": st.floats(0.1, 10), "beta": st.floats(0.1, 10)}


@given(**SIZES, lam=st.floats(0.05, 8), h=st.just(0.0) | st.floats(0.01, 10))
def test_both_dual_orders_follow_their_closed_forms(
    eta: float, alpha: float, beta: float, lam: float, h: float
) -> None:
    a, b, c = eta * alpha * lam, (eta * beta) ** 2 * lam, eta * h
    closed = {"jacobi": b < a + c and 2 * (a + c) < 4 + b, "gauss-seidel": 2 * (a + c) + b < 4}
    for dual, stable in closed.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            method = algorithms.DSGPA(eta, alpha, beta, dual=dual)
        radius = radius_of(method, lam=lam, h=h)
        if abs(radius - 1) > 1e-6:
            assert (radius < 1) == stable


@given(c=st.floats(0, 5), w=st.floats(-0.99, 0.99), beta=st.floats(0, 1.2), lam=st.floats(0.05, 8))
def test_the_baselines_follow_their_closed_forms(c: float, w: float, beta: float, lam: float) -> None:
    closed = {
        "d-sgd-1": (abs(w - c) < 1, {"eta": c}),
        "d-sgd-2": (abs(1 - beta * lam - c) < 1, {"alpha": c, "beta": beta}),
        "d-asg": (-1 / (1 + 2 * beta) < w - c and abs(w - c) * beta < 1, {"eta": c, "beta": beta}),
        "d2": (w * (2 * c - 3) < 1 and abs(w * (1 - c)) < 1, {"eta": c}),
        "d-sgt-1": (c < (1 + w) ** 2 / 2, {"eta": c}),
        "d-sgt-2": (2 * c * w < (1 + w) ** 2 and w**2 - c * w < 1, {"eta": c}),
    }
    for name, (stable, values) in closed.items():  # the curvature is 1
        radius = radius_of(algorithms.make(name, **values), lam=lam * (name == "d-sgd-2"), mu=1 - w, h=1.0)
        if abs(radius - 1) > 1e-6:
            assert (radius < 1) == stable, name


@given(c=st.floats(0, 5), w=st.floats(-0.99, 0.99), beta=st.floats(0, 1.2))
def test_heavy_ball_in_a_mode_is_the_means_times_w(c: float, w: float, beta: float) -> None:
    method = algorithms.make("dm-sgd", eta=c, beta=beta)
    mean = radius_of(method, h=1.0)
    assert radius_of(method, mu=1 - w, h=1.0) == pytest.approx(abs(w) * mean)
    if abs(mean - 1) > 1e-6:
        assert (mean < 1) == (0 < c < 2 * (1 + beta) and beta < 1)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("c-sgd", 2), ("d-sgd-1", 2), ("d2", 2), ("d-sgt-1", 2), ("d-sgt-2", 2), ("dm-sgd", 3.6), ("d-asg", 3.6 / 2.6)],
)
def test_curvature_limits_the_step_of_the_mean(name: str, limit: float) -> None:
    # n = 1, where there is nothing but the mean; both momentum methods have β = 0.8
    for side in (0.99, 1.01):
        verdict = theory.stability(algorithms.make(name, eta=0.1), graphs.ring(1), curvature=side * limit / 0.1)
        assert verdict.stable == (side < 1)
        assert verdict.mean < 1 if side < 1 else verdict.mean == verdict.radius > 1
    assert theory.stability(algorithms.make(name, eta=0.1), graphs.ring(1)).mean == pytest.approx(1)


def diverges(method: algorithms.Algorithm, graph: graphs.Graph, laplacian: str) -> bool:
    """The linear dynamics alone: flat costs, different starting points, and a little noise to excite every mode."""
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
    if float(result.x.abs().max()) > 1e3 * float(start.abs().max()):  # the mean may be all that grows
        return True
    return result.metrics[-1]["consensus_error"] > result.metrics[0]["consensus_error"]


@settings(max_examples=20, deadline=None)
@given(
    name=st.sampled_from([name for name in LINEAR if name != "c-sgd"]),
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
    values |= {name: options[name] for name in (*preset.kind.momenta, *preset.kind.shares) if float(values[name]) > 1}
    if "dual" in options:
        values |= {"dual": dual, "gamma": 1.0, "epsilon": 0.0}
    method, graph = algorithms.make(name, **values), graphs.parse(spec)
    verdict = theory.stability(method, graph, laplacian)
    if abs(verdict.margin) > 0.02:  # at the boundary 4,000 iterations cannot decide
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


def test_a_longer_communication_period_takes_proportionally_longer() -> None:
    for name in ("d-sgd-1", "dsgpa-f", "d2"):
        each, third = (theory.stability(algorithms.make(name), graphs.ring(6), communication_period=m) for m in (1, 3))
        assert third.tenfold == pytest.approx(3 * each.tenfold)


def test_a_schedule_of_periods_is_judged_by_its_worst() -> None:
    method, graph = algorithms.make("d-sgd-1"), graphs.ring(6)
    worst = theory.stability(method, graph, communication_period="2,5@100,1@200")
    alone = theory.stability(method, graph, communication_period=5)
    assert worst.radius == alone.radius
    assert worst.reason == f"{alone.reason} with communication period 5"
    primal_dual = algorithms.make("dsgpa-f")
    ends = [theory.stable_up_to(primal_dual, communication_period=m) for m in (1, 4)]
    assert theory.stable_up_to(primal_dual, communication_period="1,4@9") == min(ends)


def test_nesterov_diverges_on_the_cube() -> None:
    cube, method = graphs.hypercube(3), algorithms.make("d-asg")
    assert not theory.stability(method, cube).stable
    assert diverges(method, cube, "metropolis")
    assert theory.stability(method, cube, mixing="lazy").stable


@pytest.mark.parametrize("seed", range(20))
def test_metropolis_weights_make_the_papers_values_stable_with_the_dual_first(seed: int) -> None:
    for spec in (f"er:{5 + seed}:0.4:seed={seed}", f"ba:{5 + seed}:2:seed={seed}", f"star:{2 + seed}"):
        graph = graphs.parse(spec)
        assert np.linalg.eigvalsh(graph.laplacian().toarray())[-1] < 2
        assert theory.stability(algorithms.make("dsgpa-f"), graph).stable
        assert theory.stability(algorithms.make("dsgpa-t"), graph).stable
        assert theory.stability(algorithms.make("dsgpa-t", dual="jacobi"), graph).stable


@given(**SIZES, seed=st.integers(0, 50))
def test_a_matched_laplacian_leaves_one_condition(eta: float, alpha: float, beta: float, seed: int) -> None:
    graph, ratio = graphs.erdos_renyi(6, 0.5, seed=seed), eta * beta**2 / alpha
    largest = np.linalg.eigvalsh(graph.laplacian().toarray())[-1]  # of I−W
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        jacobi, gauss_seidel = (
            theory.stability(algorithms.DSGPA(eta, alpha, beta, dual=dual), graph, "matched")
            for dual in ("jacobi", "gauss-seidel")
        )
    if abs(jacobi.margin) > 1e-6:
        assert jacobi.stable == (ratio < 1)
    if abs(gauss_seidel.margin) > 1e-6:
        assert gauss_seidel.stable == (largest * (2 + ratio) < 4)


@pytest.mark.parametrize("h", [0.0, 1.0, 5.0])
def test_curved_costs_stabilize_a_strong_dual_in_the_printed_order(h: float) -> None:
    # ηβ² < α + h/λ in every mode: ηβ² = 2.5 is above α = 2, and λ = 4 on the complete graph
    method, graph = algorithms.DSGPA(0.1, 2.0, 5.0, dual="jacobi"), graphs.complete(4)
    stable = 2.0 + h / 4 > 2.5
    assert theory.stability(method, graph, "unit", curvature=h).stable == stable
    assert (theory.stable_up_to(method, curvature=h) > 4) == stable
    problem = Quadratic(A=np.full((4, 1), h), c=np.arange(4.0)[:, None])
    start = torch.tensor([[3.0], [-1.0], [0.5], [2.0]], dtype=torch.float64)
    settings: dict[str, Any] = {"laplacian": "unit", "dtype": "float64", "x0": start}
    error = train(problem, graph, method, iterations=600, **settings).metrics["consensus_error"]
    assert error[-1] < 1e-6 * error[0] if stable else error[-1] > 1e3 * error[0]


def test_the_warning_about_a_strong_dual_names_the_exception() -> None:
    with pytest.warns(UserWarning, match="unless the costs are curved enough"):
        algorithms.DSGPA(0.03, 5.0, 20.0, dual="jacobi")


def test_after_a_warm_up_the_full_step_decides() -> None:
    for eta in (0.03, "warmup:1000:0.03", "warmup:1000:cosine:0.03:5000"):
        method = algorithms.make("dsgpa-f", eta=eta)
        assert not theory.stability(method, "star:10", "unit").stable
        assert theory.nearest_stable(method, "star:10", "unit")["eta"] == pytest.approx(0.0215, abs=1e-4)
    warm = MixingWeights.build(graphs.ring(5), "matched", "metropolis", algorithms.make("dsgpa-f", eta="warmup:9:0.1"))
    full = MixingWeights.build(graphs.ring(5), "matched", "metropolis", algorithms.make("dsgpa-f", eta=0.1))
    np.testing.assert_array_equal(warm.laplacian.toarray(), full.laplacian.toarray())


def test_graphs_may_be_texts_and_weights_may_be_given() -> None:
    for name in ("dsgpa-f", "d2", "c-sgd"):
        method = algorithms.make(name)
        weights = MixingWeights.build(graphs.star(10), "unit", "metropolis", method)
        for function in (theory.stability, theory.nearest_stable, theory.stable_range):
            expected = function(method, graphs.star(10), "unit")
            assert function(method, "star:10", "unit") == expected
            assert function(method, "star:10", "unit", weights=weights) == expected


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid value")
@pytest.mark.parametrize("name", ["d-sgd-1", "dsgpa-f", "dm-sgd", "d2", "dsgpa-f-pb-exact"])
def test_a_step_that_overflows_is_unstable(name: str) -> None:
    assert not theory.stability(algorithms.make(name, eta=1e308), "ring:6", curvature=1.0).settles


# ---- Powers --------------------------------------------------------------------------------------------


def oscillation(method: algorithms.DSGPA, graph: graphs.Graph, h: float, iterations: int) -> float:
    """The largest entry of βv + g over the last tenth of a run on f_i = h‖x−c_i‖²/2."""
    weights = MixingWeights.build(graph, "unit", "metropolis", method)
    random = np.random.default_rng(3)
    start, c = (torch.from_numpy(random.standard_normal((graph.n, 4))) for _ in range(2))
    update = make_update(
        method, initial_state(method, start), make_network(weights, torch.float64, torch.device("cpu"))
    )
    largest = 0.0
    for k in range(iterations):
        torch.mul(update.begin(k) - c, h, out=update.gradient)
        if k > 0.9 * iterations:
            beta = method.hyperparameters(k)["beta"]
            largest = max(largest, float((beta * update.state["v"] + update.gradient).abs().max()))
        update.finish(k)
    return largest


@pytest.mark.parametrize("h", [0.1, 1.0])
@pytest.mark.parametrize(
    "values",
    [
        {"gamma": 0.7},
        {"gamma": 0.5},
        {"gamma": 0.0},
        {"gamma": 0.7, "dual": "jacobi"},
        {"gamma": 0.7, "dual": "jacobi", "alpha": 12.5},
        {"gamma": 0.5, "beta": 5.0},
    ],
)
@pytest.mark.filterwarnings("ignore:gamma")
def test_a_power_on_the_direction_keeps_oscillating_at_the_predicted_size(values: Any, h: float) -> None:
    method, graph = algorithms.make("dsgpa-f-pb-exact", **values), graphs.authors10()
    predicted = theory.stability(method, graph, "unit", curvature=h)
    assert predicted.stable
    assert predicted.chatter is not None
    assert predicted.chatter / 5 < oscillation(method, graph, h, 10000) < 5 * predicted.chatter
    assert predicted.settles == (predicted.chatter < 1)


def test_how_finely_the_papers_values_settle_with_the_exact_power() -> None:
    method, graph = algorithms.make("dsgpa-f-pb-exact"), graphs.authors10()
    assert theory.stability(method, graph, "unit").chatter == pytest.approx(0.40, abs=0.01)
    assert oscillation(method, graph, 0.1, 10000) == pytest.approx(0.60, abs=0.02)


def test_where_the_plain_method_diverges_the_power_on_the_direction_stays_bounded() -> None:
    graph = graphs.authors10()
    plain, exact = (algorithms.make(name, dual="jacobi") for name in ("dsgpa-f", "dsgpa-f-pb-exact"))
    assert not theory.stability(plain, graph, "unit").stable
    bounded = theory.stability(exact, graph, "unit")
    assert bounded.stable
    assert not bounded.settles
    assert bounded.tenfold == math.inf
    assert diverges(plain, graph, "unit")
    assert oscillation(exact, graph, 1.0, 10000) < 100


def test_a_power_on_the_gradient_bounds_every_step_size() -> None:
    # |1 − ηh| = 9 diverges; σ is flat far away, so that the powered method stays within |hx| = (ηh/2)^(1/(1−γ))
    graph = graphs.ring(5)
    assert not theory.stability(algorithms.make("d-sgd-1"), graph, curvature=100.0).stable
    powered = theory.stability(algorithms.make("d-sgd-1", powerball=0.5), graph, curvature=100.0)
    assert powered.stable
    assert not powered.settles
    assert theory.stability(algorithms.make("c-sgd", powerball=0.5), graph, curvature=100.0).chatter == pytest.approx(
        (0.1 * 100 / 2) ** 2, rel=0.01
    )


def test_clips_and_signs_are_flat_far_away_too() -> None:
    for transform in (Clip(1.0), Sign(), Clip(2.0).then(Powerball(0.5))):
        method = algorithms.DSGD1(eta=0.1, transform=transform)
        assert theory.stability(method, graphs.ring(5), curvature=100.0).stable


def test_a_step_that_is_not_linear_gets_a_sentence() -> None:
    @dataclass(frozen=True)
    class Squared(algorithms.DSGD1):
        def step(self, s: Any, net: Any, h: Any) -> Any:
            g = yield s.x
            return {"x": net.mix(s.x) * s.x - h.eta * g}

    with pytest.raises(InputError, match="not linear"):
        theory.stability(Squared(), graphs.ring(4))
