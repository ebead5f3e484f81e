"""Stability on graphs over time: known facts, the decoupled result where there is one, and simulations."""

import math
import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.support.rounds import matchings, one_peer, path_halves, rounds_of

from peerdescent import InputError, algorithms, graphs, theory
from peerdescent.algorithms.state import initial_state
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory import sequences
from peerdescent.theory.agents import AgentsStep, KnownRounds, exchanges
from peerdescent.theory.growth import growth, mean_square
from peerdescent.theory.prediction import predict, predict_ranges
from peerdescent.theory.recursion import Equation

pytestmark = pytest.mark.filterwarnings("ignore:ηβ²")

STABLE: list[tuple[str, bool, dict[str, float]]] = [
    ("d2", True, {}),
    ("d-sgt-1", False, {}),
    ("d-sgt-2", False, {}),
    ("dsgpa-f", False, {"beta": 0.5}),
    ("dsgpa-f", False, {"beta": 2.0}),
]


def made(name: str, eta: float, values: dict[str, float]) -> algorithms.Algorithm:
    extra = {"alpha": 1 / eta, **values} if name == "dsgpa-f" else values
    return algorithms.make(name, eta=eta, **extra)


@pytest.mark.parametrize("eta", [0.05, 0.2])
@pytest.mark.parametrize("h", [0.0, 1.0])
def test_methods_on_the_one_peer_exponential_graph(eta: float, h: float) -> None:
    unstable = theory.judge_rounds(algorithms.make("d2", eta=eta), one_peer(4), h)
    assert not unstable.stable
    if h == 0:
        assert unstable.radius**4 == pytest.approx(3)
        assert unstable.reason == "one period of 4 rounds has spectral radius 3, 1.31607 per iteration"
    for name, lazy, values in STABLE:
        verdict = theory.judge_rounds(made(name, eta, values), one_peer(4, lazy), h)
        assert verdict.settles, name
        assert verdict.estimate is None


def test_methods_on_random_matchings() -> None:
    for name, lazy, values in [("d2", False, {}), *STABLE]:
        verdict = theory.judge_rounds(made(name, 0.2, values), matchings(16, 300, lazy), sample=300)
        assert verdict.stable == (name != "d2" or lazy), name
        assert verdict.decided
        assert verdict.estimate is not None
        assert verdict.estimate.rounds == 300
        assert verdict.estimate.low <= verdict.radius <= verdict.estimate.high
        assert "estimated from 300 rounds" in verdict.reason


CASES = [
    ("d-sgd-1", {}),
    ("d2", {}),
    ("d-asg", {}),
    ("d-sgt-1", {}),
    ("dm-sgd", {}),
    ("dsgpa-t", {}),
    ("dsgpa-f-pb", {}),
    ("dsgpa-f-pb-exact", {}),
    ("dsgpa-f", {"beta": 0.0}),
    ("c-sgd", {}),
]


@pytest.mark.parametrize(("name", "values"), CASES)
@pytest.mark.parametrize(("period", "delay", "h"), [(1, 0, 0.0), (3, 0, 0.3), (1, 2, 0.0), (2, 1, 0.3)])
def test_one_graph_as_a_sequence_gives_the_decoupled_result(
    name: str, values: Any, period: int, delay: int, h: float
) -> None:
    method, graph = algorithms.make(name, **values), graphs.parse("er:7:0.5:seed=1")
    weights = MixingWeights.build(graph, "unit", "metropolis", method)
    modes = theory.stability(method, graph, "unit", "metropolis", h, period, weights, delay)
    whole = theory.judge_rounds(method, weights, h, period, delay)
    assert whole.stable == modes.stable
    assert whole.radius == pytest.approx(modes.radius, abs=1e-7)
    assert whole.mean == pytest.approx(modes.mean)
    assert whole.shrinkage == pytest.approx(modes.shrinkage, abs=1e-7)


def simulated(method: algorithms.Algorithm, rounds: KnownRounds, iterations: int, h: float, delay: int = 0) -> float:
    """The growth per iteration of disagreement: the method's own step on tensors, with delays written out."""
    n, past = rounds.n, dict[int, list[torch.Tensor]]()
    generator = torch.Generator().manual_seed(0)
    state = initial_state(method, torch.randn(n, 1, generator=generator, dtype=torch.float64))
    numbers, logs = SimpleNamespace(**method.nominal()), 0.0
    for k in range(iterations):
        given, asked = rounds.at(k), iter(range(100))

        def late(a: torch.Tensor, asked: Any = asked, past: Any = past) -> torch.Tensor:
            queue = past.setdefault(next(asked), [torch.zeros_like(a)] * delay)
            queue.append(a)
            return queue.pop(0)

        L, D = (torch.from_numpy(matrix.toarray()) for matrix in (given.laplacian, given.disagreement))
        net = SimpleNamespace(
            laplacian=lambda a, L=L, late=late: L @ late(a),
            disagreement=lambda a, D=D, late=late: D @ late(a),
            mix=lambda a, D=D, late=late: a - D @ late(a),
        )
        step = method.step(SimpleNamespace(**state), net, numbers)  # type: ignore[arg-type]
        point = next(step)
        try:
            step.send(h * point)
        except StopIteration as end:
            state = {**state, **end.value}
        spread = {name: a - a.mean(0) for name, a in state.items()}
        travelling = [a - a.mean(0) for queue in past.values() for a in queue]  # x alone may pass close to zero
        size = math.sqrt(sum(float((a**2).sum()) for a in [*spread.values(), *travelling]))
        state = {name: a / size for name, a in spread.items()}
        past = {key: [(a - a.mean(0)) / size for a in queue] for key, queue in past.items()}
        if k >= iterations // 2:
            logs += math.log(size)
    return math.exp(logs / (iterations - iterations // 2))


@given(
    name=st.sampled_from(["d-sgd-1", "d2", "d-asg", "d-sgt-1", "dsgpa-f"]),
    eta=st.floats(0.02, 0.6),
    h=st.sampled_from([0.0, 0.5]),
    delay=st.sampled_from([0, 0, 1, 2]),
    seed=st.integers(0, 99),
)
@example(name="d-sgd-1", eta=0.5, h=0.0, delay=2, seed=95)
@settings(max_examples=6)
def test_the_radius_of_a_period_is_the_growth_of_a_simulation(
    name: str, eta: float, h: float, delay: int, seed: int
) -> None:
    generator = np.random.default_rng(seed)
    matrices = []
    for _ in range(3):  # symmetric, doubly stochastic, dense
        A = generator.random((5, 5))
        A = (A + A.T) / 12
        matrices.append(A - np.diag(A.sum(axis=1)) + np.eye(5))
    rounds = rounds_of(matrices, scale=2.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = made(name, eta, {"beta": 1.0} if name == "dsgpa-f" else {})
    verdict = theory.judge_rounds(method, rounds, h, delay=delay)
    radii = sequences.PeriodRadii(Equation(method), rounds, h, 1, delay)
    radius = float(radii.over(np.ones(1))[0, 0])
    if verdict.mean <= 1 + 1e-9:
        assert verdict.radius == pytest.approx(radius)
    assert simulated(method, rounds, 400, h, delay) == pytest.approx(radius, rel=0.015)


def test_large_networks_use_an_iterative_method(monkeypatch: pytest.MonkeyPatch) -> None:
    method, rounds = algorithms.make("d-sgt-1", eta=0.1), path_halves(12)
    exact = theory.judge_rounds(method, rounds, 0.5)
    monkeypatch.setattr(sequences, "EXACT_UP_TO", 10)
    assert theory.judge_rounds(method, rounds, 0.5).radius == pytest.approx(exact.radius, abs=1e-6)
    assert theory.judge_rounds(algorithms.make("d-sgd-1"), one_peer(4)).radius == pytest.approx(0, abs=1e-3)
    powered = algorithms.make("dsgpa-f-pb-exact", eta=0.1, alpha=5.0, beta=1.0)
    far = theory.judge_rounds(powered, path_halves(6)).radius
    monkeypatch.setattr(sequences, "EXACT_UP_TO", 800)
    assert far == pytest.approx(theory.judge_rounds(powered, path_halves(6)).radius, abs=1e-3)
    monkeypatch.setattr(sequences, "LARGEST", 10)
    assert predict(method, rounds, "metropolis", "metropolis").stable is None


def test_a_sequence_that_never_connects_two_parts_does_not_settle() -> None:
    apart = rounds_of([np.kron(np.eye(2), np.full((2, 2), 0.5))] * 2)
    verdict = theory.judge_rounds(algorithms.make("d-sgd-1"), apart)
    assert not verdict.settles
    assert verdict.radius == pytest.approx(1)


def test_growth_and_mean_square_of_a_known_random_product() -> None:
    # plain mixing of two agents: their difference is halved or kept, with probability one half each
    generator = np.random.default_rng(0)
    kept, halved = np.eye(2), np.array([[0.75, 0.25], [0.25, 0.75]])
    rounds = rounds_of([kept if generator.random() < 0.5 else halved for _ in range(1000)], repeats=False)
    sample = exchanges(rounds, 1000)
    step = AgentsStep(Equation(algorithms.make("d-sgd-1")))
    found = growth(step, sample, 2)
    assert found.low < math.sqrt(0.5) < found.high
    assert found.high - found.low < 0.12
    share = np.mean([(rounds.at(r).disagreement.data != 0).any() for r in range(500)])  # of rounds that halve
    assert mean_square(step, sample[:500], 2) == pytest.approx(math.sqrt(1 - 0.75 * share))


def test_a_prediction_says_what_it_was_estimated_from_and_what_would_help() -> None:
    unknown = predict(algorithms.make("d2", eta=0.05), matchings(6, 1000), "metropolis", "metropolis")
    assert unknown.stable is None
    assert unknown.estimated_from == 1000
    assert unknown.interval is not None
    assert unknown.interval[0] < 1 < unknown.interval[1]
    assert unknown.sentence("d2").startswith("d2: theory cannot tell whether it is stable: disagreement is multiplied")
    assert "estimated from 1,000 rounds" in unknown.reason
    strong = algorithms.make("dsgpa-f", eta=0.5, alpha=2.0, beta=5.0)
    found = predict(strong, one_peer(2), "metropolis", "metropolis")
    assert found.settles is False
    assert found.suggestion
    name, _, value = found.suggestion.partition(" = ")
    cured = algorithms.varied(strong, **{name: float(value)})
    assert theory.judge_rounds(cured, one_peer(2)).settles
    _, high = predict_ranges(cured, one_peer(2), "metropolis", "metropolis")["beta"]
    assert high is not None
    for factor, stable in ((0.99, True), (1.01, False)):
        assert theory.judge_rounds(algorithms.varied(cured, beta=factor * high), one_peer(2)).settles is stable


def test_a_method_with_both_matrices_is_judged_as_a_whole() -> None:
    class Both(algorithms.DSGD1):
        def step(self, s: Any, net: Any, h: Any) -> Any:
            g = yield s.x
            return {"x": net.mix(s.x) - h.eta * net.laplacian(s.x) - h.eta * g}

    method, graph = Both(eta=0.1), graphs.parse("path:5")
    weights = MixingWeights.build(graph, "unit", "metropolis", method)
    matrix = weights.mixing.toarray() - 0.1 * weights.laplacian.toarray() - 1 / 5
    expected = np.abs(np.linalg.eigvalsh(matrix)).max()
    assert theory.stability(method, graph, "unit").radius == pytest.approx(expected)
    assert predict(method, weights, "unit", "metropolis").settles


def test_wrong_rounds_get_a_sentence() -> None:
    with pytest.raises(InputError, match="expected the L and W"):
        theory.judge_rounds(algorithms.make("d2"), "ring:4")  # type: ignore[arg-type]
    broken = rounds_of([np.array([[0.5, 0.4], [0.4, 0.5]])])
    assert "do not sum to zero" in predict(algorithms.make("d2"), broken, "metropolis", "metropolis").reason
