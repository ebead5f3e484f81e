"""Rounds with losses: zero row sums always, zero column sums unless one-sided, the same at any time and numbering."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent.algorithms import make
from peerdescent.graphs import as_graph
from peerdescent.mixing.impaired_rounds import ImpairedRounds, iteration_of
from peerdescent.mixing.impairments import parse_drop, parse_inactive
from peerdescent.mixing.weights import MixingWeights

WEIGHTS = MixingWeights.build(as_graph("er:12:0.4:seed=2"), "metropolis", "metropolis", make("dsgpa-f"))
DROPS = st.sampled_from(["0.3", "gilbert:0.2:0.4:0.7", "0.3:one-sided", "gilbert:0.1:0.1:one-sided"])
INACTIVE = st.sampled_from([None, "0.2", "markov:0.1:0.3", "cyclic:5:2"])


def rounds(drop=None, inactive=None, delay=0, seed=0, **more):
    law = None if inactive is None else parse_inactive(inactive)
    return ImpairedRounds(WEIGHTS, seed, None if drop is None else parse_drop(drop), law, delay, **more)


@settings(deadline=None, max_examples=25)
@given(drop=DROPS, inactive=INACTIVE, delay=st.integers(0, 3), seed=st.integers(0, 9), at=st.integers(0, 5000))
def test_what_is_left_out_and_what_stays(drop, inactive, delay, seed, at):
    impaired = rounds(drop, inactive, delay, seed)
    found, whole = impaired.at(at), WEIGHTS.at(0)
    received = {tuple(pair) for pair in found.pairs.tolist()}
    for one, all_of_it in ((found.laplacian, whole.laplacian), (found.disagreement, whole.disagreement)):
        dense, full = one.toarray(), all_of_it.toarray()
        assert np.abs(dense.sum(axis=1)).max() < 1e-15
        if "one-sided" not in drop:
            assert np.abs(dense.sum(axis=0)).max() < 1e-15
            assert (dense == dense.T).all()
        for i, j in np.argwhere(full - np.diag(np.diag(full))):
            assert dense[i, j] == (full[i, j] if (i, j) in received else 0)
    assert impaired.messages(at, at + 1) == len(received)
    again = rounds(drop, inactive, delay, seed)
    assert impaired.messages(0, 20) == sum(len(again.at(r).pairs) for r in range(20)) == -again.messages(20, 0)


def test_frequencies_are_those_of_the_laws():
    bursts, one_sided = rounds("gilbert:0.1:0.3:0.5"), rounds("0.2:one-sided", seed=3)
    lost = np.stack([bursts.lost_pairs(r) for r in range(3000)])
    assert lost.mean() == pytest.approx(0.1 / 0.4 * 0.5, rel=0.05)
    both = [one_sided.lost_pairs(r) for r in range(500)]
    assert 1 - np.mean(both) == pytest.approx(0.8, abs=0.01)
    pairs = [tuple(pair) for pair in rounds()._entries(0).pairs.tolist()]
    back = [pairs.index((j, i)) for i, j in pairs]
    assert np.mean([(mask & mask[back]).mean() for mask in both]) == pytest.approx(0.04, abs=0.01)


def test_nothing_arrives_from_or_at_an_inactive_agent_and_nothing_before_the_delay():
    impaired = rounds(inactive="0.3", delay=2)
    assert impaired.at(1).pairs.size == 0
    for r in range(2, 30):
        off = impaired.inactive_at(r) | impaired.inactive_at(r - 2)
        assert {tuple(p) for p in impaired.at(r).pairs.tolist()} == {
            (i, j) for i, j in WEIGHTS.pairs.tolist() if not (off[i] or off[j])
        }


def test_agents_that_stay_keep_their_fate_when_others_are_lost():
    stayed = [0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    whole = rounds("gilbert:0.2:0.3", "0.2", seed=4)
    graph = WEIGHTS.graph.subset(stayed)
    weights = MixingWeights.build(graph, "metropolis", "metropolis", make("dsgpa-f"))
    drop, law = parse_drop("gilbert:0.2:0.3"), parse_inactive("0.2")
    fewer = ImpairedRounds(weights, 4, drop, law, agents=stayed)
    for r in range(10):
        kept = {tuple(pair) for pair in whole.at(r).pairs.tolist()}
        assert {(stayed[i], stayed[j]) for i, j in fewer.at(r).pairs.tolist()} == {p for p in kept if 2 not in p}


@given(periods=st.lists(st.integers(1, 7), min_size=1, max_size=30))
def test_a_round_takes_place_in_one_iteration(periods):
    """With local iterations in between, inactivity is looked up in the iteration of the exchange."""
    iterations = np.cumsum(periods) - 1  # the last of so many iterations exchanges

    def before(k):
        return int((iterations < k).sum()) + max(0, k - 1 - int(iterations[-1]))

    assert [iteration_of(r, before) for r in range(len(periods))] == iterations.tolist()
