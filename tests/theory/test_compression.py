"""Bounds on the consensus step of compressed messages, and flat runs, against a transcription of CHOCO-GOSSIP."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.support.rounds import one_peer

from peerdescent import algorithms, graphs, theory
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.compression import bounds

Rows = NDArray[np.float64]


def topk(share: float, rows: Rows) -> Rows:
    kept = max(1, round(share * rows.shape[1]))
    limit = -np.sort(-np.abs(rows), axis=1)[:, kept - 1 : kept]
    return np.where(np.abs(rows) >= limit, rows, 0.0)


def weights_of(method: algorithms.Algorithm, graph: str = "ring:10") -> MixingWeights:
    made = graphs.parse(graph)
    assert isinstance(made, graphs.Graph)
    return MixingWeights.build(made, "metropolis", "metropolis", method)


def gossip(W: Rows, share: float, c: float, rounds: int) -> tuple[float, float]:
    """CHOCO-GOSSIP's squared error before and after, agents by agents."""
    n = len(W)
    x = np.random.default_rng(0).standard_normal((n, 20))
    copies, mean = np.zeros_like(x), x.mean(axis=0)
    errors = []
    for _ in range(rounds):
        copies = copies + topk(share, x - copies)
        errors.append(float(((x - mean) ** 2).sum() + ((x - copies) ** 2).sum()))
        x = np.stack([x[i] + c * sum(W[i, j] * (copies[j] - copies[i]) for j in range(n)) for i in range(n)])
    return errors[0], errors[-1]


def test_the_proved_steps_converge_at_the_proved_rate() -> None:
    W, share = weights_of(algorithms.make("d-sgd-1"), "ring:5").mixing.toarray(), 0.25
    values = np.sort(np.linalg.eigvalsh(W))
    gap, rho = 1 - max(-values[0], values[-2]), 1 - values[0]
    choco, small = theory.choco_step(share, gap, rho), theory.small_gain_step(share, rho)
    assert choco < small < 1
    first, last = gossip(W, share, choco, 200)
    assert last < (1 - gap**2 * share / 82) ** 199 * first
    first, last = gossip(W, share, 0.99 * small, 200)
    assert last < 1e-3 * first


def test_limits_of_the_bounds() -> None:
    assert theory.small_gain_step(1.0, 2.0) == 1
    assert theory.small_gain_step(0.5, 1.0) == pytest.approx(2 * (1 - math.sqrt(0.5)) / (1 + math.sqrt(0.5)))
    assert theory.choco_step(0.0, 0.5, 1.5) == 0


@pytest.mark.parametrize("name", ["d-sgt-1", "dsgpa-f"])
def test_flat_runs_decide_whether_top_ten_percent_works(name: str) -> None:
    values = {"alpha": 20.0, "beta": 5.0} if name == "dsgpa-f" else {}
    method = algorithms.make(name, eta=0.05, **values)
    weights = weights_of(method)
    found = {c: theory.flat_run(method, weights, lambda a, *_: topk(0.1, a), c, rounds=300) for c in (1.0, 0.2)}
    assert [found[c].outcome for c in (1.0, 0.2)] == ["diverged", "contracted"]
    assert str(found[0.2]) == "a flat run of 300 rounds contracted"


def test_flat_runs_of_graphs_over_time_and_without_compression() -> None:
    method = algorithms.make("d2", eta=0.05)
    for rounds, outcome in ((one_peer(4), "diverged"), (one_peer(4, lazy=True), "contracted")):
        assert theory.flat_run(method, rounds, lambda a, *_: a, rounds=100, dimension=2).outcome == outcome
    stuck = theory.flat_run(algorithms.make("d-sgd-1"), one_peer(2), lambda a, *_: 0 * a, rounds=9, dimension=2)
    assert (stuck.outcome, stuck.factor) == ("neither", 1.0)
    assert "did not decide" in str(stuck)


def test_each_kind_of_method_gets_a_sentence() -> None:
    known = algorithms.make("d-sgd-1")
    bound, text = bounds(known, 0.1, weights_of(known))
    assert bound == pytest.approx(theory.small_gain_step(0.1, 4 / 3))
    assert "larger c usually work" in text
    for name, words in (("d-sgt-2", "BEER"), ("dsgpa-f", "no bound on c is known")):
        method = algorithms.make(name)
        bound, text = bounds(method, 0.1, weights_of(method))
        assert bound is None
        assert words in text
    assert bounds(known, 0.1, one_peer(2)) == (None, "no bound on c is known for DSGD1 on graphs that change")
