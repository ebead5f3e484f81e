"""Streams: pure functions of their arguments, distinct, uniform, and the same tomorrow as today."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from peerdescent.data import stream
from peerdescent.errors import InputError

SEEDS = st.integers(0, 2**63 - 1)
SMALL = st.integers(0, 2**20)


def draw(*arguments, count=8):
    return stream(*arguments).integers(2**62, size=count).tolist()


@settings(deadline=None)
@given(seed=SEEDS, purpose=st.text(), agent=SMALL, block=SMALL)
def test_a_stream_is_a_pure_function_of_its_arguments(seed, purpose, agent, block):
    first = draw(seed, purpose, agent, block)
    draw(seed, purpose, agent, block + 1)
    assert draw(seed, purpose, agent, block) == first


@settings(deadline=None)
@given(
    one=st.tuples(SEEDS, st.text(), SMALL, SMALL),
    other=st.tuples(SEEDS, st.text(), SMALL, SMALL),
    changed=st.integers(0, 3),
)
def test_changing_any_one_argument_changes_the_stream(one, other, changed):
    assume(one[changed] != other[changed])
    neighbour = (*one[:changed], other[changed], *one[changed + 1 :])
    assert not set(draw(*one)) & set(draw(*neighbour))


def test_neighbouring_agents_and_blocks_are_uncorrelated():
    rows = [stream(0, "noise", a, b).normal(size=4096) for a in range(4) for b in range(4)]
    correlation = np.corrcoef(rows) - np.eye(len(rows))
    assert np.abs(correlation).max() < 5 / np.sqrt(4096)


def test_long_draws_of_one_block_never_enter_the_next():
    here = stream(5, "a", 1, 0).integers(2**63 - 1, size=200_000)
    following = stream(5, "a", 1, 1).integers(2**63 - 1, size=200_000)
    assert len(np.intersect1d(here, following)) == 0


def test_uniform_frequencies():
    # the first numbers of many streams, which is how minibatches use them
    firsts = [stream(11, "minibatch", agent, block).integers(10) for agent in range(50) for block in range(100)]
    assert chisquare(np.bincount(firsts, minlength=10)).pvalue > 1e-3


def test_the_same_in_another_process_and_in_later_versions():
    program = "from peerdescent.data import stream; print(stream(7, 'minibatch', 3).integers(100, size=4).tolist())"
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    assert result.stdout.strip() == "[27, 73, 66, 94]"


@pytest.mark.parametrize("seed", [-1, 2**63, 1.0, "1", None, True])
def test_bad_seeds_are_named(seed):
    with pytest.raises(InputError, match=r"^seed is .*expected an integer"):
        stream(seed, "minibatch")


@pytest.mark.parametrize("name", ["agent", "block"])
def test_bad_agents_and_blocks_are_named(name):
    with pytest.raises(InputError, match=f"^{name} is -1"):
        stream(0, "minibatch", **{name: -1})


def test_numpy_integers_are_whole_numbers():
    assert draw(np.int64(3), "a", np.uint8(2)) == draw(3, "a", 2)
