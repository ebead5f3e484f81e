"""Known facts about the methods, each tested through the public interface."""

from __future__ import annotations

import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import peerdescent
from peerdescent import Result, graphs
from peerdescent.algorithms import CSGD, DASG, DMSGD, DSGD1, DSGPA, PRESETS, Algorithm, make
from peerdescent.algorithms.state import initial_state
from peerdescent.data import stream
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem, Quadratic, logistic_nonconvex
from peerdescent.schedules import Inverse
from peerdescent.tracing.recording import vectors_sent
from peerdescent.transforms import power

F = {"eta": 0.03, "alpha": 5.0, "beta": 20.0}
T = {"eta": 0.08, "alpha": 4.0, "beta": 3.0}
P = 3


def start(n: int) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng((4, n)).normal(size=(n, P)))


def flat(n: int) -> Quadratic:
    """No gradient: only the linear dynamics of consensus."""
    return Quadratic(A=np.zeros((n, P)), c=np.zeros((n, P)))


def heterogeneous(n: int, noise: float = 0.0) -> Quadratic:
    random = np.random.default_rng((5, n))
    return Quadratic(A=random.uniform(0.5, 1.5, size=(n, P)), c=random.normal(size=(n, P)), noise=noise)


def run(problem: Problem, graph: object, method: Algorithm | str, iterations: int, **settings: Any) -> Result:
    exact = {"batch_size": 0, "dtype": "float64"}
    chosen = {**exact, "eval_every": max(1, iterations), "per_agent": False, **settings}
    chosen.setdefault("x0", start(problem.agents))
    return peerdescent.train(problem, graph, method, iterations=iterations, **chosen)


def disagreement(result: Result) -> float:
    return float((result.x - result.x_mean).abs().max())


# ---- The order of the dual update ----------------------------------------------------------------------

OTHERS = ("path:2", "star:6", "complete:4", "er:10:0.4")


@pytest.mark.parametrize(
    "graph",
    ["ring:5", *(pytest.param(g, marks=pytest.mark.e2e) for g in ("path:2", "star:6", "complete:4", "er:10:0.4"))],
)
@pytest.mark.parametrize("laplacian", ["unit", "metropolis", "metropolis:0.1"])
def test_the_printed_values_diverge_in_the_printed_order_on_every_graph(graph: str, laplacian: str) -> None:
    with pytest.warns(UserWarning, match="ηβ² = 12 is not below α = 5"):
        method = DSGPA(**F, dual="jacobi")
    n = graphs.parse(graph).n
    result = run(flat(n), graph, method, 400, laplacian=laplacian)
    assert disagreement(result) > 10 * disagreement(run(flat(n), graph, method, 0))


@pytest.mark.parametrize(("values", "bound"), [(F, 6.06), (T, 5.73)])
def test_the_printed_values_settle_with_the_dual_first_below_the_bound(values: Any, bound: float) -> None:
    for rho in (0.5, 3.0, 0.99 * bound, 1.01 * bound):
        # All positive eigenvalues of the complete graph's unit Laplacian are n.
        result = run(flat(4), "complete:4", DSGPA(**values, dual="gauss-seidel"), 1500, laplacian=f"unit:{rho / 4!r}")
        assert (disagreement(result) < 1e-4) == (rho < bound), rho


def test_er_graphs_are_often_beyond_it() -> None:
    rho = [np.linalg.eigvalsh(graphs.parse(f"er:10:0.4:seed={s}").laplacian("unit").toarray())[-1] for s in range(200)]
    assert np.median(rho) == pytest.approx(7.45, abs=0.15)


@pytest.mark.filterwarnings("ignore:ηβ²")
@pytest.mark.parametrize("side", [0.98, 1.02], ids=["inside", "outside"])
@pytest.mark.parametrize(
    ("dual", "eta", "alpha", "beta", "boundary"),
    [
        # ηβ² < α, whatever λ is: β is moved across the boundary
        ("jacobi", 0.1, 4.0, np.sqrt(4.0 / 0.1), "beta"),
        # ηαλ < 2 + (ηβ)²λ/2
        ("jacobi", 0.08, 4.0, 3.0, 2 / (0.08 * 4 - (0.08 * 3) ** 2 / 2)),
        ("jacobi", 0.1, 5.0, 1.0, 2 / (0.1 * 5 - 0.1**2 / 2)),
        # 2ηαλ + (ηβ)²λ < 4
        ("gauss-seidel", 0.03, 5.0, 20.0, 4 / (2 * 0.03 * 5 + (0.03 * 20) ** 2)),
        ("gauss-seidel", 0.08, 4.0, 3.0, 4 / (2 * 0.08 * 4 + (0.08 * 3) ** 2)),
        ("gauss-seidel", 0.1, 5.0, 1.0, 4 / (2 * 0.1 * 5 + 0.1**2)),
    ],
)
@pytest.mark.parametrize("graph", ["complete:5", "ring:4"])
def test_stability_thresholds(
    graph: str, dual: Any, eta: float, alpha: float, beta: float, boundary: float | str, side: float
) -> None:
    if boundary == "beta":
        beta, rho = beta * side**0.5, 4.0
    else:
        rho = float(boundary) * side
    n = graphs.parse(graph).n
    unscaled = float(np.linalg.eigvalsh(graphs.parse(graph).laplacian("unit").toarray())[-1])
    method = DSGPA(eta, alpha, float(beta), dual=dual)
    result = run(flat(n), graph, method, 1500, laplacian=f"unit:{rho / unscaled!r}")
    before = disagreement(run(flat(n), graph, "d-sgd-1", 0))
    ratio = disagreement(result) / before
    assert ratio < 1e-3 if side < 1 else ratio > 1e3


@pytest.mark.parametrize(("beta", "iterations"), [(0.1, 4000), (3.0, 50)])
def test_without_disagreement_weight_the_printed_order_diverges_and_warns(beta: float, iterations: int) -> None:
    with pytest.warns(UserWarning, match="diverges"):
        method = DSGPA(eta=0.5, alpha=0.0, beta=beta, dual="jacobi")
    result = run(flat(4), "complete:4", method, iterations)
    assert disagreement(result) > 10 * disagreement(run(flat(4), "complete:4", method, 0))


def test_stable_values_and_the_other_order_construct_without_warnings() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        DSGPA(**T, dual="jacobi")
        DSGPA(**F)
        DSGPA(eta=0.1, alpha=0.0, beta=0.0, dual="jacobi")
        for name in PRESETS:
            make(name)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_jacobi_with_the_right_weights_is_extra(kernel: str) -> None:
    eta, alpha, n, steps, spec = 0.08, 3.0, 7, 40, "er:7:0.5"
    method = DSGPA(eta, alpha, float(np.sqrt(alpha / (2 * eta))), dual="jacobi")
    problem = heterogeneous(n, noise=0.2)
    noise = [stream(0, "noise", i).standard_normal((steps, P)) for i in range(n)]
    A, c = problem.A.diagonal(dim1=1, dim2=2).numpy(), problem.c.numpy()

    def g(x: np.ndarray, k: int) -> np.ndarray:
        return A * (x - c) + 0.2 * np.stack([noise[i][k] for i in range(n)])

    W, I = graphs.parse(spec).mixing().toarray(), np.eye(n)  # noqa: E741
    before = start(n).numpy()
    x = W @ before - eta * g(before, 0)
    for k in range(1, steps):
        x, before = (I + W) @ x - (I + W) / 2 @ before - eta * (g(x, k) - g(before, k - 1)), x
    scaled = f"metropolis:{1 / (eta * alpha)!r}"
    result = run(problem, spec, method, steps, laplacian=scaled, batch_size=1, kernel=kernel)
    np.testing.assert_allclose(result.x.numpy(), x, rtol=0, atol=1e-12)


# ---- What is conserved ---------------------------------------------------------------------------------


def follow(method: Algorithm, spec: str, iterations: int, seed: int = 0) -> list[dict[str, np.ndarray]]:
    """Every state after every step, with random gradients of which the last is kept as "gradient"."""
    graph = graphs.parse(spec)
    x = torch.from_numpy(stream(seed, "x").standard_normal((graph.n, P)))
    network = make_network(
        MixingWeights.build(graph, "metropolis", "metropolis", method), torch.float64, torch.device("cpu")
    )
    update = make_update(method, initial_state(method, x), network, "plain")
    states = []
    for k in range(iterations):
        update.begin(k)
        update.gradient.copy_(torch.from_numpy(stream(seed, "g", 0, k).standard_normal(x.shape)))
        update.finish(k)
        kept = {**update.state, "gradient": update.gradient}
        states.append({name: array.numpy().copy() for name, array in kept.items()})
    return states


@given(
    name=st.sampled_from([name for name in PRESETS if name.startswith("dsgpa")]),
    spec=st.sampled_from(["path:5", "star:6", "ring:1", "er:8:0.4", "complete:3"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_the_dual_variables_sum_to_zero(name: str, spec: str, seed: int) -> None:
    for state in follow(make(name), spec, 20, seed):
        np.testing.assert_allclose(state["v"].sum(axis=0), 0, atol=1e-12 * (1 + np.abs(state["v"]).max()))
    assert spec == "ring:1" or np.abs(state["v"]).max() > 1e-3


@given(
    name=st.sampled_from(["d-sgt-1", "d-sgt-2"]),
    powerball=st.sampled_from([None, 0.5, 0.7]),
    spec=st.sampled_from(["path:5", "star:6", "ring:1", "er:8:0.4"]),
    seed=st.integers(0, 99),
)
@settings(max_examples=20, deadline=None)
def test_the_mean_tracker_is_the_mean_gradient(name: str, powerball: float | None, spec: str, seed: int) -> None:
    for state in follow(make(name, powerball=powerball), spec, 20, seed):
        gradient = power(state["gradient"], 1.0 if powerball is None else powerball)
        np.testing.assert_allclose(state["y"].mean(axis=0), gradient.mean(axis=0), atol=1e-13)


@given(
    spec=st.one_of(
        st.tuples(st.integers(2, 12), st.integers(0, 99)).map(lambda ns: f"er:{ns[0]}:0.5:seed={ns[1]}"),
        st.integers(1, 12).map("star:{}".format),
        st.integers(1, 12).map("ring:{}".format),
    ),
    name=st.sampled_from(list(PRESETS)),
)
@settings(max_examples=60, deadline=None)
def test_every_run_mixes_by_a_symmetric_doubly_stochastic_matrix(spec: str, name: str) -> None:
    weights = MixingWeights.build(graphs.parse(spec), "metropolis", "metropolis", make(name))
    W = weights.mixing.toarray()
    np.testing.assert_array_equal(W, W.T)
    np.testing.assert_allclose(W.sum(axis=0), 1, atol=1e-14)
    assert W.min() >= -1e-15
    edges = {(i, j) for i, j in zip(*np.nonzero(np.triu(W, 1) > 1e-15), strict=True)}
    assert edges == set(graphs.parse(spec).edges)


# ---- Special cases -------------------------------------------------------------------------------------


def minibatch_problem(n: int) -> Problem:
    return logistic_nonconvex(agents=n, samples=60 * n, dimension=P - 1)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_averaging_after_the_step_on_the_complete_graph_is_c_sgd(kernel: str) -> None:
    problem, n = minibatch_problem(6), 6
    common: dict[str, Any] = {"batch_size": 5, "mixing": "uniform", "x0": start(n)[0], "kernel": kernel}
    pooled = run(problem, "complete:6", CSGD(eta=0.3), 60, **common)
    result = run(problem, "complete:6", DMSGD(eta=0.3, beta=0.0), 60, **common)
    np.testing.assert_allclose(result.x.numpy(), pooled.x.numpy(), rtol=0, atol=1e-13)
    assert disagreement(result) < 1e-13


def test_c_sgd_takes_all_samples_at_once() -> None:
    # Six agents with one sample each a step, or one with the same six: exact gradients on the pooled data.
    problem, n = minibatch_problem(6), 6
    together = logistic_nonconvex(agents=1, samples=360, dimension=P - 1)
    x0 = start(n)[0]
    six = run(problem, "ring:6", CSGD(eta=0.3), 40, x0=x0)
    one = run(together, "ring:1", CSGD(eta=0.3), 40, x0=x0)
    np.testing.assert_allclose(six.x.numpy(), one.x.expand(6, -1).numpy(), rtol=0, atol=1e-12)


def test_d_sgd_1_with_exact_averaging_follows_c_sgd_in_the_mean_where_curvatures_are_equal() -> None:
    n = 5
    c = np.random.default_rng(6).normal(size=(n, P))
    common: dict[str, Any] = {"batch_size": 1, "mixing": "uniform", "x0": start(n)[0]}
    equal = Quadratic(A=np.ones((n, P)), c=c, noise=0.5)
    own, pooled = (run(equal, "complete:5", method, 60, **common) for method in (DSGD1(0.1), CSGD(0.1)))
    np.testing.assert_allclose(own.x_mean.numpy(), pooled.x[0].numpy(), rtol=0, atol=1e-13)
    # Each agent keeps its last local step, so only the mean agrees, and only for equal curvatures.
    assert disagreement(own) > 1e-2
    own, pooled = (run(heterogeneous(n, 0.5), "complete:5", method, 60, **common) for method in (DSGD1(0.1), CSGD(0.1)))
    assert float((own.x_mean - pooled.x[0]).abs().max()) > 1e-3


ONE_AGENT = {
    **{n: make(n, eta=0.07, gamma=1.0, epsilon=0.0, momentum=1.0) for n in PRESETS if n.startswith("dsgpa")},
    "powered-tracking": make("powered-tracking", eta=0.07, gamma=1.0),
    **{name: make(name, eta=0.07) for name in ("d-sgd-1", "d2", "d-sgt-1", "d-sgt-2", "c-sgd", "sgp", "push-diging")},
    "d-sgd-2": make("d-sgd-2", alpha=0.07),
    "dm-sgd": DMSGD(eta=0.07, beta=0.0),
    "d-asg": DASG(eta=0.07, beta=0.0),
    "gt-hsgd": make("gt-hsgd", eta=0.07, beta=1.0),
    "gossip-sgd": make("gossip-sgd", eta=0.07),
    **{name: make(name, eta=0.07) for name in ("k-gt", "led", "proxskip", "choco-sgd", "beer")},
    "motef": make("motef", eta=0.07, beta=0.0),
    **{name: make(name, eta=0.07) for name in ("extra", "nids", "exact-diffusion", "aug-dgm")},
    "clipped-d-sgd": make("clipped-d-sgd", eta=0.07, tau=1e6),
    **{name: make(name, eta=0.07, beta=0.0) for name in ("edm", "momentum-tracking", "qg-dsgdm")},
    "gossip-sgd-outer": make("gossip-sgd-outer", eta=0.07, outer_lr=1.0, outer_momentum=0.0),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("name", list(ONE_AGENT))
def test_one_agent_is_plain_sgd(name: str, kernel: str) -> None:
    noise = stream(0, "noise").standard_normal((64, P))
    problem = heterogeneous(1, noise=0.5)
    A, c, x = problem.A[0].numpy(), problem.c[0].numpy(), start(1)[0].numpy()
    for k in range(30):
        x = x - 0.07 * (A @ (x - c) + 0.5 * noise[k])
    result = run(problem, "ring:1", ONE_AGENT[name], 30, batch_size=1, kernel=kernel)
    np.testing.assert_allclose(result.x[0].numpy(), x, rtol=0, atol=1e-13)


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize(
    ("name", "values", "optimizer"),
    [
        (
            "gossip-sgd",
            {"momentum": 0.8, "weight_decay": 0.1},
            partial(torch.optim.SGD, momentum=0.8, weight_decay=0.1),
        ),
        ("gossip-adam", {"weight_decay": 0.1}, partial(torch.optim.Adam, weight_decay=0.1)),
        ("gossip-adamw", {"beta2": 0.95}, partial(torch.optim.AdamW, betas=(0.9, 0.95))),
    ],
)
def test_one_agent_is_the_optimizer_of_torch(name: str, values: Any, optimizer: Any, kernel: str) -> None:
    problem = heterogeneous(1)
    x = torch.nn.Parameter(start(1)[0].clone())
    opt = optimizer([x], lr=0.07)
    for _ in range(30):
        x.grad = problem.A[0] @ (x.detach() - problem.c[0])
        opt.step()
    result = run(problem, "ring:1", make(name, eta=0.07, **values), 30, kernel=kernel)
    np.testing.assert_allclose(result.x[0].numpy(), x.detach().numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["dsgpa-f-pb", "dsgpa-t-pb", "dsgpa-f-pb-exact", "dsgpa-t-pb-exact"])
@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_a_power_of_one_is_the_plain_method(name: str, kernel: str) -> None:
    problem = heterogeneous(6, noise=0.3)
    plain, powered = (
        run(problem, "er:6:0.5", method, 60, batch_size=2, kernel=kernel).x
        for method in (make(name[:7]), make(name, gamma=1.0))
    )
    assert torch.equal(plain, powered)
    assert not torch.allclose(plain, run(problem, "er:6:0.5", name, 60, batch_size=2, kernel=kernel).x, rtol=1e-3)


def test_a_power_of_zero_is_signed_descent() -> None:
    with pytest.warns(UserWarning, match="below 1/2"):
        method = make("dsgpa-f-pb", gamma=0.0)
    result = run(heterogeneous(1), "ring:1", method, 1)
    moved = (start(1) - result.x).abs()
    np.testing.assert_allclose(moved.numpy(), 0.03, rtol=1e-12)


def test_zero_momentum_and_zero_decay_are_d_sgd() -> None:
    problem = heterogeneous(6, noise=0.3)
    plain = run(problem, "er:6:0.5", DSGD1(eta=0.1), 40, batch_size=2).x
    nesterov = run(problem, "er:6:0.5", DASG(eta=0.1, beta=0.0), 40, batch_size=2).x
    constant = make("d-sgd-2", alpha=Inverse(0.1, 0.0), beta=1.0)
    np.testing.assert_allclose(nesterov.numpy(), plain.numpy(), rtol=0, atol=1e-13)
    result = run(problem, "er:6:0.5", constant, 40, batch_size=2)  # L = I − W
    np.testing.assert_allclose(result.x.numpy(), plain.numpy(), rtol=0, atol=1e-13)


# ---- What the powerball does ---------------------------------------------------------------------------


def test_lemma_1_as_printed_is_false() -> None:
    assert float(power(torch.tensor([0.1], dtype=torch.float64), 0.7) ** 2) == pytest.approx(0.0398, abs=5e-5)
    assert float(power(torch.tensor([0.1], dtype=torch.float64), 0.7) ** 2) > 0.1**2


@given(
    g=arrays(np.float64, st.integers(1, 12), elements=st.floats(-1e6, 1e6, allow_subnormal=False)),
    gamma=st.floats(0, 1),
)
@example(g=np.array([0.1]), gamma=0.7)
@example(g=np.ones(12), gamma=0.0)
@settings(max_examples=200, deadline=None)
def test_lemma_1_corrected(g: np.ndarray, gamma: float) -> None:
    g = np.where(np.abs(g) < 1e-100, 0.0, g)  # powers of smaller numbers underflow
    left = float((power(torch.from_numpy(g), gamma) ** 2).sum())
    norm = float((np.abs(g) ** (1 + gamma)).sum()) ** (1 / (1 + gamma))
    right = len(g) ** ((1 - gamma) / (1 + gamma)) * norm ** (2 * gamma)
    assert left <= right * (1 + 1e-9)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
@pytest.mark.parametrize(
    ("gamma", "power_on", "limit"),
    [
        (1.0, "gradient", 1 / 3),
        (0.7, "gradient", 0.2709),
        (0.5, "gradient", 0.2),
        (0.7, "direction", 1 / 3),
        (0.5, "direction", 1 / 3),
    ],
)
def test_where_the_powerball_settles_on_heterogeneous_data(
    dual: Any, gamma: float, power_on: Any, limit: float
) -> None:
    problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    method = DSGPA(eta=0.01, alpha=5.0, beta=5.0, gamma=gamma, power_on=power_on, dual=dual)
    x0 = torch.tensor([[0.5], [-0.2], [0.9]])
    result = run(problem, "complete:3", method, 4000, laplacian="unit", x0=x0)
    # The limits have four digits; a power on a vanishing direction chatters by about (η/2)^(1/(1−γ)).
    np.testing.assert_allclose(result.x.numpy(), limit, atol=6e-5)
    if power_on == "gradient" and gamma < 1:
        assert abs(float(power(result.x.double() - problem.c, gamma).sum())) < 1e-6


# ---- What is sent, and which W -------------------------------------------------------------------------

SENT = {
    **{name: 1 for name in PRESETS if name.startswith("dsgpa")},
    **{"dm-sgd": 2, "d-sgd-1": 1, "d-sgd-2": 1, "d2": 1, "d-sgt-1": 2, "d-sgt-2": 2, "d-asg": 1, "c-sgd": 0},
    **{"gt-hsgd": 2, "gt-nsgdm": 2, "sclip-ef": 1},
    "powered-tracking": 2,
    **{name: 1 for name in PRESETS if name.startswith("gossip")},
    **{"k-gt": 2, "led": 1, "proxskip": 1, "choco-sgd": 1, "beer": 2, "motef": 2},
    **{"sgp": 1, "push-diging": 2},
    **{
        "extra": 1,
        "nids": 1,
        "exact-diffusion": 1,
        "edm": 1,
        "aug-dgm": 2,
        "momentum-tracking": 2,
        "qg-dsgdm": 1,
        "d-adam": 1,
        "clipped-d-sgd": 1,
    },
}


@pytest.mark.parametrize("name", list(PRESETS))
@pytest.mark.parametrize(("dtype", "size"), [("float32", 4), ("float64", 8)])
def test_vectors_sent(name: str, dtype: str, size: int) -> None:
    assert vectors_sent(make(name)) == SENT[name]
    result = run(heterogeneous(5), "star:5", name, 7, dtype=dtype, compress="none")
    directions = 2 * 4  # each of the star's four edges is used both ways
    assert result.metrics["bytes_sent"] == [0, 7 * SENT[name] * directions * P * size]


@pytest.mark.parametrize("graph", ["hypercube:3", "ring:4", "ring:6", "ring:14", "ring:20"])
def test_d2_uses_the_lazy_matrix_where_needed_and_notes_it(graph: str) -> None:
    # λmin(W) is −1/2 on the hypercube and exactly −1/3 on every even ring, where rounding must not decide.
    n = graphs.parse(graph).n
    result = run(heterogeneous(n), graph, make("d2", eta=0.1), 3000)
    assert len(result.notes) == 1
    assert "(I+W)/2" in result.notes[0]
    np.testing.assert_allclose(result.x.numpy(), heterogeneous(n).optimum().expand(n, P).numpy(), atol=1e-6)
    assert not run(heterogeneous(n), graph, "d-sgd-1", 2).notes


@pytest.mark.parametrize("graph", ["ring:5", "path:6", "complete:4", "ring:1"])
def test_d2_keeps_a_suitable_matrix(graph: str) -> None:
    n = graphs.parse(graph).n
    result = run(heterogeneous(n), graph, make("d2", eta=0.1), 1)
    assert not result.notes
    W, problem = graphs.parse(graph).mixing().toarray(), heterogeneous(n)
    x, A = start(n).numpy(), problem.A.diagonal(dim1=1, dim2=2).numpy()
    np.testing.assert_allclose(result.x.numpy(), W @ (x - 0.1 * A * (x - problem.c.numpy())), atol=1e-13)
