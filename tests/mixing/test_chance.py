"""When something happens: frequencies against closed forms, and answers that do not depend on who asks when."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerdescent.mixing.chance import Bursts, Independent, Turns

PLACES = np.stack([np.arange(50), np.arange(50) + 1], axis=1)
CHAINS = [Bursts(0.05, 0.2), Bursts(0.02, 0.5, 0.6), Bursts(0.7, 0.9), Bursts(0.5, 0.5)]


def runs(column):
    """The lengths of the runs of True that begin and end inside."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], column.astype(int), [0]])))
    lengths = (edges[1::2] - edges[::2]).tolist()
    return lengths[int(column[0]) : len(lengths) - int(column[-1])]


@pytest.mark.parametrize("law", [Independent(0.1), *CHAINS])
def test_the_rate_is_the_closed_form(law):
    happened = law.happens(1, "drop", PLACES, 0, 4000)
    expected = law.rate if isinstance(law, Independent) else law.P / (law.P + law.R) * law.loss
    assert law.rate == pytest.approx(expected)
    by_place = happened.mean(axis=0)
    assert abs(by_place.mean() - expected) < 4 * by_place.std(ddof=1) / np.sqrt(len(by_place))
    first = law.happens(1, "drop", np.stack([np.arange(4000)] * 2, axis=1), 0, 1).mean()
    assert abs(first - expected) < 4 * np.sqrt(expected / 4000), "the chain is stationary from time 0 on"


@pytest.mark.parametrize("chain", CHAINS)
def test_a_burst_lasts_one_over_R_on_average(chain):
    lengths = np.array([length for column in chain.states(2, "drop", PLACES, 0, 4000).T for length in runs(column)])
    assert abs(lengths.mean() - 1 / chain.R) < 4 * max(lengths.std(), 1e-9) / np.sqrt(len(lengths)) + 1e-12


@settings(deadline=None, max_examples=40)
@example(P=1.0, R=1.0, start=1001)
@example(P=1e-9, R=1e-9, start=700)
@given(P=st.floats(1e-3, 1), R=st.floats(1e-3, 1), start=st.integers(0, 1500))
def test_a_chain_can_be_asked_at_any_time(P, R, start):
    """Stepping from time 0, with the definition of the chain, gives what looking back gives."""
    chain, places = Bursts(P, R), PLACES[:5]
    from_the_start = chain.states(3, "drop", places, 0, start + 3)
    assert (chain.states(3, "drop", places, start, 3) == from_the_start[start:]).all()
    one = chain.states(3, "drop", places[2:3], start, 3)
    assert (one[:, 0] == from_the_start[start:, 2]).all()


def test_a_chain_never_looks_back_further_than_it_must(monkeypatch):
    """A million rounds on, with bursts of five rounds, it draws a few hundred numbers per place."""
    from peerdescent.mixing import chance

    drawn, uniforms = [], chance.uniforms

    def counted(*arguments):
        numbers = uniforms(*arguments)
        drawn.append(numbers[0].size)
        return numbers

    monkeypatch.setattr(chance, "uniforms", counted)
    Bursts(0.05, 0.2).states(0, "drop", PLACES, 10**6, 1)
    assert sum(drawn) < 500 * len(PLACES)


def test_agents_take_turns():
    off = Turns(6, 2).happens(0, "inactive", np.stack([np.arange(3)] * 2, axis=1), 0, 600)
    assert (off.sum(axis=1) == 1).all()
    assert (off.mean(axis=0) == Turns(6, 2).rate).all()
    assert off[:6].T.astype(int).tolist() == [[1, 1, 0, 0, 0, 0], [0, 0, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1]]
