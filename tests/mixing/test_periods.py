"""Schedules of communication periods: when messages travel, how many did, and what is refused."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent._util.randomness import stream
from peerdescent._util.schema import LARGEST
from peerdescent.errors import InputError
from peerdescent.mixing.periods import Periods


def simulated(segments: list[tuple[int, int]], iterations: int) -> list[bool]:
    """Whether each iteration exchanges: a counter that starts anew with every segment."""
    starts, exchanges, counter, m = dict(segments), [], 0, 1
    for k in range(iterations):
        if k in starts:
            counter, m = 0, starts[k]
        counter += 1
        exchanges.append(counter == m)
        counter %= m
    return exchanges


@given(
    st.integers(1, 9),
    st.lists(st.tuples(st.integers(1, 40), st.integers(1, 9)), max_size=5, unique_by=lambda segment: segment[0]),
)
def test_rounds_are_counted_from_the_start_of_each_segment(first: int, later: list[tuple[int, int]]) -> None:
    segments = [(0, first), *sorted(later)]
    text = ",".join([str(first), *(f"{m}@{start}" for start, m in segments[1:])])
    periods, expected = Periods.parse(text), simulated(segments, 60)
    assert [periods.exchanges(k) for k in range(60)] == expected
    assert [periods.rounds_before(k) for k in range(61)] == [sum(expected[:k]) for k in range(61)]
    assert periods.text == text
    assert Periods.parse(periods.plain) == periods
    assert periods.longest == max(m for _, m in segments)
    assert periods.always == all(m == 1 for _, m in segments)
    before = [-1, *(k for k in range(60) if expected[k])]
    assert [periods.steps(k) for k in range(60)] == [k - max(j for j in before if j < k) for k in range(60)]


@given(st.integers(1, 50), st.integers(0, 10**12))
def test_a_number_is_one_period_for_all_iterations(m: int, k: int) -> None:
    for written in (m, str(m), f" {m}@0 "):
        periods = Periods.parse(written)
        assert periods.plain == m
        assert type(periods.plain) is int
        assert periods.exchanges(k) == ((k + 1) % m == 0)
        assert periods.rounds_before(k) == k // m


NUMBERS = (0, -1, True, 1.5, 2.0, None, [1], LARGEST + 1)
RANDOM = ("random", "random:", "random:0", "random:1.1", "random:nan", "random:x", "random:.5,2@3")
TEXTS = ("", "0", "-1", "1.5", "8,", ",8", "8,4", "8@5", "8@0,4@", "@3", "8,4@1000,1@1000", "8,4@1000,1@5", "8,0@3")
STRANGE = ("8;4@3", "8,4@3@5", f"{LARGEST + 1}", "9" * 5000, "١", "²", "1e3")


@pytest.mark.parametrize("wrong", [*NUMBERS, *RANDOM, *TEXTS, *STRANGE])
def test_anything_else_is_refused_in_one_sentence(wrong: Any) -> None:
    with pytest.raises(InputError, match=r"^communication_period = .*\.$"):
        Periods.parse(wrong)


@given(st.sampled_from([0.02, 0.2, 0.7, 1.0]), st.integers(0, 5), st.integers(0, 3000))
def test_random_exchanges_are_a_function_of_the_seed_and_the_iteration(p: float, seed: int, k: int) -> None:
    coins = np.concatenate([stream(seed, "communication", block=b).random(1024) < p for b in range(3)])
    periods = Periods.parse(f"random:{p}").seeded(seed)
    assert periods.exchanges(k) == coins[k]
    assert periods.rounds_before(k) == coins[:k].sum()
    assert periods.steps(k) == k - max(np.flatnonzero(coins[:k]), default=-1)
    assert periods.always == (p == 1)
    assert Periods.parse(periods.plain).seeded(seed) == periods


def test_random_exchanges_have_their_probability() -> None:
    assert Periods.parse("random:0.2").rounds_before(100_000) == pytest.approx(20_000, abs=500)
    assert Periods.parse("random:0.2").words == "in a random 0.2 of all iterations"
