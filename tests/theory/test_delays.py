"""Late messages, against the closed form of delayed consensus."""

import math

import pytest
from tests.support.rounds import one_peer

from peerdescent import algorithms, graphs, theory
from peerdescent.mixing.weights import MixingWeights
from peerdescent.theory.prediction import predict


@pytest.mark.parametrize("delay", [0, 1, 2, 5])
def test_delayed_consensus_is_stable_up_to_the_known_eigenvalue(delay: int) -> None:
    # x⁺ = x − μx_{k−d} is stable if and only if μ < 2 sin(π/(4d+2))
    found = theory.stable_up_to(algorithms.make("d-sgd-1"), delay=delay)
    assert found == pytest.approx(2 * math.sin(math.pi / (4 * delay + 2)), abs=1e-6)


def test_the_largest_delay() -> None:
    # weights of a lazy complete graph have μ = 1/2, below 2 sin(π/10) = 0.618 and above 2 sin(π/14) = 0.445
    assert theory.largest_delay(algorithms.make("d-sgd-1"), "complete:6", mixing="lazy") == 2
    assert theory.largest_delay(algorithms.make("d-asg", beta=0.8), "hypercube:3") is None
    slow = algorithms.make("dsgpa-f", eta=0.001, alpha=5.0, beta=1.0)
    assert theory.largest_delay(slow, "ring:4") == 50


def test_a_prediction_with_a_delay_names_a_smaller_step() -> None:
    method = algorithms.make("d-sgd-2", beta=0.9)
    graph = graphs.parse("complete:4")
    assert isinstance(graph, graphs.Graph)
    weights = MixingWeights.build(graph, "metropolis", "metropolis", method)
    assert predict(method, weights, "metropolis", "metropolis").settles
    found = predict(method, weights, "metropolis", "metropolis", delay=2)
    assert found.settles is False
    assert found.cures["beta"] == pytest.approx(2 * math.sin(math.pi / 10), rel=1e-3)
    assert found.suggestion == "beta = 0.61"
    assert "ρ(L) < 0.6867" in found.condition


def test_a_delay_on_a_sequence() -> None:
    method = algorithms.make("d-sgd-1")
    assert theory.judge_rounds(method, one_peer(3)).settles
    assert theory.judge_rounds(method, one_peer(3, lazy=True), delay=1).settles
    assert not theory.judge_rounds(method, one_peer(3), delay=4).settles
