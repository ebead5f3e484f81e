"""sgp and push-diging on directed graphs: equality with the papers' equations, and what they converge to."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conformance import reference
from tests.conformance.test_every_method import BATCH, ITERATIONS, SEED, noisy_quadratic, one_thread, start
from tests.conformance.test_sequences import Clock, Varying
from tests.graphs.test_directed import digraphs
from tests.kernels.test_torch_kernel import EagerPasses
from tests.mixing.test_push_sum import OVER_TIME, STAR, literal

from peerdescent import Result, graphs, train
from peerdescent.algorithms import SGP, PushDIGing, make
from peerdescent.algorithms.state import initial_state
from peerdescent.kernels.plain import PlainUpdate
from peerdescent.mixing.network import make_network
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.problems import Problem, Quadratic
from peerdescent.training.invariants import drift
from peerdescent.transforms import Powerball

__all__ = ["one_thread"]  # a fixture that pytest finds here
GRAPHS = ("directed-ring:5", "directed-exp:6", STAR, OVER_TIME, "directed-onepeer-exp:6")
BOTH = ("sgp", "push-diging")


def run(problem: Problem, graph: object, method: Any, **chosen: Any) -> Result:
    common = {"iterations": ITERATIONS, "batch_size": BATCH, "seed": SEED, "dtype": "float64", "per_agent": False}
    return train(problem, graph, method, x0=torch.from_numpy(start(problem.agents)), **{**common, **chosen})


def transcribed(name: str, graph: graphs.DirectedGraph, eta: float, **keywords: Any) -> np.ndarray:
    _, gradient = noisy_quadratic(graph.n)
    clock = Clock(gradient)
    P = Varying(clock, literal(graph, ITERATIONS + 1)[0])
    method = reference.REFERENCES[name]
    return method(start(graph.n), np.eye(graph.n), P, clock.gradient, ITERATIONS, eta=eta, **keywords)[-1]


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("spec", GRAPHS)
@pytest.mark.parametrize("name", BOTH)
def test_equals_the_equations_of_the_paper(name: str, spec: str, kernel: str) -> None:
    graph = graphs.parse(spec)
    problem, _ = noisy_quadratic(graph.n)
    expected = transcribed(name, graph, eta=0.07)
    assert np.abs(expected).max() < 20
    result = run(problem, graph, make(name, eta=0.07), kernel=kernel)
    np.testing.assert_allclose(result.x.numpy(), expected, atol=1e-10 * np.abs(expected).max())
    vectors = {"sgp": 1, "push-diging": 2}[name]
    assert result.metrics["bytes_sent"][-1] == vectors * 8 * problem.dimension * graph.edges_before(ITERATIONS)


@pytest.mark.parametrize("name", BOTH)
def test_a_power_acts_on_the_gradient_before_it_is_divided_by_the_weight(name: str) -> None:
    graph = graphs.parse(STAR)
    expected = transcribed(name, graph, eta=0.05, transform=lambda g: reference.powerball(g, 0.7))
    result = run(noisy_quadratic(graph.n)[0], graph, make(name, eta=0.05, transform=Powerball(0.7)))
    np.testing.assert_allclose(result.x.numpy(), expected, atol=1e-9 * np.abs(expected).max())


@pytest.mark.e2e
@given(digraphs(6), st.sampled_from(BOTH))
@settings(max_examples=5, deadline=None)
def test_equals_the_equations_on_random_graphs(graph: graphs.DirectedGraph, name: str) -> None:
    expected = transcribed(name, graph, eta=0.03)
    result = run(noisy_quadratic(graph.n)[0], graph, make(name, eta=0.03), kernel="plain")
    np.testing.assert_allclose(result.x.numpy(), expected, atol=1e-9 * max(1, np.abs(expected).max()))


@pytest.mark.parametrize("local", [False, True])
@pytest.mark.parametrize("spec", [STAR, OVER_TIME])
@pytest.mark.parametrize("name", BOTH)
def test_the_passes_of_the_torch_kernel_are_those_of_the_equation(name: str, spec: str, local: bool) -> None:
    """Evaluated without torch.compile, which is slow; and the sums that must stay as they are."""
    method, graph = make(name, eta=0.05), graphs.parse(spec)
    network = make_network(make_weights(graph, "metropolis", "metropolis", method), torch.float64, torch.device("cpu"))
    network = network.without_messages() if local else network
    x0 = torch.from_numpy(start(graph.n))
    updates = [kind(method, initial_state(method, x0), network) for kind in (PlainUpdate, EagerPasses)]
    for k in range(12):
        for update in updates:
            update.gradient.copy_(torch.sin(update.begin(k) + k))
            update.finish(k)
        assert max(drift(method, updates[0].state).values(), default=0.0) < 1e-14
    for array, value in updates[0].state.items():
        assert torch.equal(updates[1].state[array], value), array


# ---- Known facts ---------------------------------------------------------------------------------------


def heterogeneous(n: int) -> tuple[Quadratic, np.ndarray]:
    random = np.random.default_rng((5, n))
    A, c = random.uniform(0.5, 1.5, size=(n, 5)), random.normal(size=(n, 5))
    return Quadratic(A=A, c=c), (A * c).sum(axis=0) / A.sum(axis=0)


@pytest.mark.parametrize("spec", ["directed-ring:5", STAR, OVER_TIME, "directed-onepeer-exp:6"])
def test_push_diging_reaches_the_optimum_of_heterogeneous_quadratics(spec: str) -> None:
    problem, optimum = heterogeneous(graphs.parse(spec).n)
    result = run(problem, spec, PushDIGing(eta=0.05), iterations=3000, batch_size=0)
    np.testing.assert_allclose(result.x.numpy(), np.tile(optimum, (problem.agents, 1)), atol=1e-9)


@pytest.mark.e2e
def test_sgp_weighs_all_agents_equally_however_the_edges_are() -> None:
    """The smaller the step, the nearer its bias is to zero; without push-sum, agent 0 of the star would count most."""
    problem, optimum = heterogeneous(4)
    far = []
    for eta in (0.02, 0.01, 0.005):
        result = run(problem, STAR, SGP(eta=eta), iterations=6000, batch_size=0)
        far.append(float(np.abs(result.x.numpy() - optimum).max()))
    assert far[1] / far[0] == pytest.approx(0.5, abs=0.1)
    assert far[2] / far[1] == pytest.approx(0.5, abs=0.1)


@pytest.mark.parametrize("spec", ["ring:6", "star:5", "onepeer-exp:4"])
def test_on_undirected_graphs_sgp_descends_and_then_mixes(spec: str) -> None:
    """x⁺ = W(x − ηg), as gossip-sgd without momentum does."""
    problem, _ = noisy_quadratic(graphs.parse(spec).n)
    gossip = make("gossip-sgd", eta=0.07, momentum=0.0)
    sgp, same = (run(problem, spec, method, kernel="plain").x for method in (SGP(eta=0.07), gossip))
    assert torch.equal(sgp, same)
    push, tracking = (run(problem, spec, make(name, eta=0.07), kernel="plain").x for name in ("push-diging", "d-sgt-2"))
    if graphs.parse(spec).period == 1:  # d-sgt-2 mixes its tracker a round later
        torch.testing.assert_close(push, tracking, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("period", [3, "1,4@10"])
@pytest.mark.parametrize("spec", [STAR, OVER_TIME])
def test_local_steps_keep_the_weights(spec: str, period: int | str) -> None:
    problem, _ = heterogeneous(4)
    graph = graphs.parse(spec)
    P, x, w = literal(graph, 60)[0], start(4), np.ones((4, 1))
    eta, exchanges, r = 0.05, run_exchanges(period, 40), 0
    for k in range(40):
        x = x - eta * np.einsum("ipq,iq->ip", problem.A.numpy(), x / w - problem.c.numpy())
        if exchanges[k]:
            x, w, r = P[r] @ x, P[r] @ w, r + 1
    for kernel in ("plain", "compiled"):
        chosen = {"iterations": 40, "batch_size": 0, "communication_period": period, "kernel": kernel}
        np.testing.assert_allclose(run(problem, graph, SGP(eta=eta), **chosen).x.numpy(), x / w, rtol=1e-11)


def run_exchanges(period: int | str, count: int) -> list[bool]:
    """Which iterations exchange, for the two periods above."""
    if isinstance(period, int):
        return [(k + 1) % period == 0 for k in range(count)]
    return [k < 10 or (k - 10 + 1) % 4 == 0 for k in range(count)]
