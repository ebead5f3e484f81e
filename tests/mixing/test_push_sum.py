"""Push-sum: the weights of every round, and that the agents find the mean of what they start with."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.graphs.test_directed import digraphs

from peerdescent import graphs, train
from peerdescent.algorithms import PRESETS, make
from peerdescent.errors import InputError
from peerdescent.mixing import push_sum
from peerdescent.mixing.push_sum import PushSumRounds
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.problems import Quadratic

STAR = "directed-edges:0-1,0-2,0-3,1-0,2-0,3-2"  # unequal weights
OVER_TIME = "directed-rounds:4:0-1,1-2,0-3/2-3,3-0/2-1"


def rounds_of(spec: str) -> PushSumRounds:
    made = make_weights(graphs.parse(spec), "metropolis", "metropolis", make("sgp"))
    assert isinstance(made, PushSumRounds)
    return made


def literal(graph: graphs.DirectedGraph, count: int) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """P and w of the first rounds, from the definition."""
    each, w = [], [np.ones(graph.n)]
    for r in range(count):
        P = np.zeros((graph.n, graph.n))
        for j in range(graph.n):
            heard = [i for s, i in graph.arcs(r).edges if s == j]
            for i in (j, *heard):
                P[i, j] = 1 / (1 + len(heard))
        each.append(P)
        w.append(P @ w[-1])
    return each, w


@given(digraphs(), st.integers(0, 2**32 - 1))
@settings(max_examples=12, deadline=None)
def test_push_sum_finds_the_mean(graph: graphs.DirectedGraph, seed: int) -> None:
    rounds = PushSumRounds(graph)
    z = x = np.random.default_rng(seed).normal(size=(graph.n, 2))
    mean = x.mean(axis=0)
    for r in range(3000):
        made = rounds.at(r)
        w = np.ones(graph.n) if made.push_sum is None else made.push_sum[0]
        assert (w > 0).all()
        assert w.sum() == pytest.approx(graph.n, rel=1e-12)
        assert np.abs(made.disagreement.sum(axis=1)).max() < 1e-14
        assert np.abs(w @ z - graph.n * mean).max() < 1e-11 * (1 + r)
        z = z - made.disagreement @ z
        if np.ptp(z, axis=0).max() < 1e-12:
            break
    np.testing.assert_allclose(z, np.tile(mean, (graph.n, 1)), atol=1e-10)


@pytest.mark.parametrize("spec", [STAR, OVER_TIME, "directed-onepeer-exp:5"])
def test_rounds_are_those_of_the_definition_whichever_is_asked_first(spec: str, monkeypatch) -> None:
    monkeypatch.setattr(push_sum, "STRIDE", 16)
    graph = graphs.parse(spec)
    each, w = literal(graph, 200)
    for order in (range(0, 200, 7), [199, 3, 150, 0, 17, 120], [77]):
        rounds = rounds_of(spec)
        for r in order:
            made = rounds.at(r)
            A = np.diag(1 / w[r + 1]) @ each[r] @ np.diag(w[r])
            np.testing.assert_allclose(np.eye(graph.n) - made.disagreement.toarray(), A, atol=1e-13)
            assert {(j, i) for i, j in made.pairs.tolist()} == set(graph.arcs(r).edges)
            again = rounds.at(rounds.representative(r))
            np.testing.assert_array_equal(again.disagreement.toarray(), made.disagreement.toarray())


def test_the_weights_of_a_round_have_the_same_bits_whichever_was_asked_before() -> None:
    forwards, jumping = rounds_of(STAR), rounds_of(STAR)
    wanted = {r: forwards.at(r) for r in range(200)}
    for r in (150, 3, 199, 0, 57):
        np.testing.assert_array_equal(jumping.at(r).disagreement.toarray(), wanted[r].disagreement.toarray())
        np.testing.assert_array_equal(jumping.at(r).push_sum, wanted[r].push_sum)


def test_settled_weights_repeat_and_are_stationary() -> None:
    rounds = rounds_of(OVER_TIME)
    assert rounds.period is None
    assert rounds.representative(10**9) < 2000  # however late a run resumes, that is quick
    settled = rounds.settled()
    for r in range(3):
        late, limit = rounds.at(3 * 10**6 + r), settled.at(r)
        np.testing.assert_allclose(late.push_sum, limit.push_sum, rtol=1e-11)
        np.testing.assert_allclose(late.disagreement.toarray(), limit.disagreement.toarray(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("spec", ["directed-ring:6", "directed-exp:7", "directed-onepeer-exp:8"])
def test_where_everybody_gets_as_much_as_it_sends_all_weights_are_one(spec: str) -> None:
    rounds = rounds_of(spec)
    assert rounds.period == graphs.parse(spec).period
    assert all(rounds.at(r).push_sum is None for r in range(4))
    copied = pickle.loads(pickle.dumps(rounds))
    np.testing.assert_array_equal(copied.at(1).disagreement.toarray(), rounds.at(1).disagreement.toarray())


def test_the_directed_one_peer_graph_of_2_to_the_m_agents_averages_exactly() -> None:
    rounds, product = rounds_of("directed-onepeer-exp:8"), np.eye(8)
    for r in range(3):
        product = (np.eye(8) - rounds.at(r).disagreement.toarray()) @ product
    np.testing.assert_allclose(product, 1 / 8, rtol=1e-14)


@pytest.mark.parametrize("name", [name for name in PRESETS if not PRESETS[name].kind.directed])
def test_methods_that_need_both_directions_are_refused_by_name(name: str) -> None:
    words = rf"^{name} needs messages in both directions.*directed-ring:4 is directed: use sgp or push-diging, or an"
    with pytest.raises(InputError, match=words):
        train("quadratic", "directed-ring:4", name)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"compress": "topk:0.1"}, "compress = 'topk:0.1' and a directed graph exclude each other"),
        ({"consensus_step": 0.5}, "consensus_step = 0.5 and a directed"),
        ({"message_dtype": "bf16"}, "message_dtype = 'bf16' and a directed"),
        ({"drop": "0.1"}, "drop = '0.1' and a directed"),
        ({"inactive": "0.1"}, "inactive = '0.1' and a directed"),
        ({"delay": 2}, "delay = 2 and a directed"),
        ({"message_noise": 0.1}, "message_noise = 0.1 and a directed"),
        ({"laplacian": "unit"}, "laplacian = 'unit': methods on directed graphs use no Laplacian"),
        ({"mixing": "fastest"}, "mixing = 'fastest' is for undirected graphs"),
        ({"mixing": np.array([[0.5, 0.5], [0.5, 0.5]])}, "P is 2×2 and the graph has 3 agents"),
        ({"mixing": np.array([[0.5, 0.5, 0], [0.5, 0.25, 0.5], [0, 0.25, 0.5]])}, "no edge from 1 to 0"),
    ],
)
def test_what_a_directed_graph_cannot_have_is_refused(given: dict, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        train("quadratic", "directed-ring:3", "sgp", iterations=2, **given)
    assert str(caught.value).endswith(".")


def test_weights_of_your_own_decide_the_trajectory(tmp_path) -> None:
    P = np.array([[0.5, 0, 0.75], [0.5, 0.5, 0], [0, 0.5, 0.25]])
    file = tmp_path / "P.csv"
    np.savetxt(file, P, delimiter=",")
    problem, x0 = Quadratic(np.zeros((3, 2)), np.zeros((3, 2))), np.arange(6.0).reshape(3, 2)
    chosen = {"x0": x0, "iterations": 3, "batch_size": 0, "dtype": "float64"}
    x, w = x0, np.ones(3)
    for _ in range(3):
        x, w = P @ x, P @ w
    for graph, mixing in (("directed-ring:3", P), ("directed-ring:3", f"file:{file}"), (P, "weighted"), (P, P)):
        found = train(problem, graph, "sgp", mixing=mixing, **chosen)
        np.testing.assert_allclose(found.x.numpy(), x / w[:, None], rtol=1e-13)
    with pytest.raises(InputError, match=r"W is not symmetric, and ring:3 .* is undirected"):
        train(problem, "ring:3", "sgp", mixing=P, **chosen)
