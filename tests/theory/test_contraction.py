"""How fast mixing contracts over time, against closed forms and products that are written out."""

import math
from itertools import combinations

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st
from tests.support.rounds import averaging, matchings, one_peer, path_halves, rounds_of

from peerdescent import InputError, algorithms, graphs, theory
from peerdescent.mixing.weights import MixingWeights


def test_the_one_peer_exponential_graph_reaches_exact_consensus_in_one_period() -> None:
    found = theory.contraction(one_peer(4))
    assert found.per_period == pytest.approx(0, abs=1e-12)
    assert str(found) == "exact consensus after one period of 4 rounds"


def test_a_base_graph_of_three_agents_reaches_exact_consensus() -> None:
    # 3 = 2 + 1: after two of three agents have met, weights of 1/3 and 2/3 finish
    first = averaging(3, [(0, 1)])
    second = np.array([[1 / 3, 0, 2 / 3], [0, 1, 0], [2 / 3, 0, 1 / 3]])
    rounds = rounds_of([first, second, averaging(3, [(0, 1)])])
    product = np.linalg.multi_dot([averaging(3, [(0, 1)]), second, first])
    assert np.allclose(product, 1 / 3)
    assert theory.contraction(rounds).per_period == pytest.approx(0, abs=1e-12)
    assert theory.judge_rounds(algorithms.make("d-sgd-1"), rounds).radius == pytest.approx(0, abs=1e-4)


def test_a_period_of_two() -> None:
    rounds = path_halves(6)
    W0, W1 = (np.eye(6) - rounds.at(r).disagreement.toarray() for r in (0, 1))
    radius = np.abs(np.linalg.eigvals(W1 @ W0 - 1 / 6)).max()
    found = theory.contraction(rounds)
    assert found.per_period == pytest.approx(radius)
    assert found.per_round == pytest.approx(math.sqrt(radius))
    assert f"{math.sqrt(radius):.4g} per round" in str(found)


def test_one_graph_has_its_gap() -> None:
    method, graph = algorithms.make("d-sgd-1"), graphs.parse("star:6")
    weights = MixingWeights.build(graph, "metropolis", "metropolis", method)
    assert theory.contraction(weights).gap == pytest.approx(weights.spectrum.gap)


@pytest.mark.parametrize(("n", "expected"), [(8, 6 / 14), (7, 1 / 2)])
def test_random_matchings_contract_as_their_expectation(n: int, expected: float) -> None:
    # a pair meets with probability 1/(n−1), or 1/n if one agent is left out; W is a projection, so E[WᵀW] = E[W]
    found = theory.contraction(matchings(n, 600), sample=600)
    assert found.sample == 600
    assert found.per_round == pytest.approx(math.sqrt(expected), abs=0.03)
    assert 0 < found.spread < 0.03
    assert "estimated from 600 rounds" in str(found)


@given(drop=st.floats(0, 0.9), name=st.sampled_from(["path:4", "ring:4", "star:4"]))
def test_lost_messages_contract_as_the_mean_over_all_outcomes(drop: float, name: str) -> None:
    graph = graphs.parse(name)
    assert isinstance(graph, graphs.Graph)
    D, edges = np.eye(4) - graph.mixing().toarray(), graph.edges
    second = np.zeros((4, 4))
    for count in range(len(edges) + 1):
        for lost in combinations(edges, count):
            W = np.eye(4) - D
            for i, j in lost:
                W[i, i], W[j, j] = W[i, i] + W[i, j], W[j, j] + W[i, j]
                W[i, j] = W[j, i] = 0
            second += drop**count * (1 - drop) ** (len(edges) - count) * W.T @ W
    expected = math.sqrt(np.linalg.eigvalsh(second - 1 / 4).max())
    assert theory.lossy_contraction(scipy.sparse.csr_array(D), drop).per_round == pytest.approx(expected)


def test_lossy_weights_must_be_symmetric() -> None:
    with pytest.raises(InputError, match="not symmetric"):
        theory.lossy_contraction(scipy.sparse.csr_array(np.array([[1.0, -1.0], [0.0, 0.0]])), 0.1)


def test_invariants_survive_symmetric_rounds_and_not_one_sided_losses() -> None:
    for name in ("d2", "d-sgt-1", "dsgpa-f"):
        assert theory.invariants(algorithms.make(name), one_peer(3)).survive
    lost = rounds_of([averaging(2, [(0, 1)]), np.array([[0.5, 0.5], [0.0, 1.0]])])
    found = theory.invariants(algorithms.make("d2"), lost)
    assert (found.survive, found.broken_in) == (False, 1)
    assert str(found).startswith("sum of v = 0: broken from round 1 on")
    assert theory.invariants(algorithms.make("d-sgd-1"), lost).survive  # it has none
