"""Philox for arrays: the published answers, and numbers that depend on nothing but their place."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

from peerdescent.data.counters import philox, uniforms

ONES = 0xFFFFFFFF
AGENTS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((ONES,) * 4, (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_published_answers(counter, key, expected):
    words = tuple(np.array([word], dtype=np.uint64) for word in counter)
    assert tuple(int(word[0]) for word in philox(words, key)) == expected


@settings(deadline=None, max_examples=30)
@given(seed=st.integers(0, 2**63 - 1), i=AGENTS, j=AGENTS, time=st.integers(0, 2**63 - 1))
def test_a_number_depends_on_its_own_place_only(seed, i, j, time):
    alone = [float(u[0]) for u in uniforms(seed, "a", np.array([i]), np.array([j]), np.array([time]))]
    many = uniforms(seed, "a", np.array([3, i]), np.array([4, j]), np.array([[time], [5]]))
    assert alone == [float(u[0, 1]) for u in many]
    assert all(0 < u < 1 for u in alone)
    assert alone != [float(u[0]) for u in uniforms(seed, "b", np.array([i]), np.array([j]), np.array([time]))]


def test_the_numbers_are_uniform_and_uncorrelated():
    u = np.stack(uniforms(3, "test", np.arange(40), np.arange(40) + 1, np.arange(500)[:, None]))
    assert kstest(u.ravel(), "uniform").pvalue > 0.01
    centred = u - 0.5
    for one, other in (
        (centred[:, 1:], centred[:, :-1]),
        (centred[:, :, 1:], centred[:, :, :-1]),
        (u[:1] - 0.5, u[1:] - 0.5),
    ):
        products = one * other
        assert abs(products.mean()) < 4 * products.std() / np.sqrt(products.size)
