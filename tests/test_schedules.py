from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.algorithms import DSGD1, DSGPA
from peerdescent.errors import InputError
from peerdescent.schedules import Inverse, Power, at, parse

REALS = st.floats(-1e6, 1e6)


def test_power_counts_from_one() -> None:
    schedule = Power(0.08, -0.5)
    assert [schedule(k) for k in (0, 3, 15)] == pytest.approx([0.08, 0.04, 0.02])
    assert Power(2.0, 1e-5)(0) == 2.0
    assert isinstance(Power(1, 0)(5), float)


def test_inverse_counts_from_zero() -> None:
    assert [Inverse(0.1, 1.0)(k) for k in (0, 1, 3)] == pytest.approx([0.1, 0.05, 0.025])
    assert Inverse(0.2, 0.5, 0.3)(6) == pytest.approx(0.2 / 4**0.3)
    assert Inverse(0.2, 0.0)(1000) == 0.2


@given(base=REALS, exponent=REALS)
def test_power_reads_what_it_writes(base: float, exponent: float) -> None:
    schedule = Power(base, exponent)
    assert parse(str(schedule), "eta") == schedule


@given(base=REALS, rate=st.floats(0, 1e6), power=REALS)
def test_inverse_reads_what_it_writes(base: float, rate: float, power: float) -> None:
    schedule = Inverse(base, rate, power)
    assert parse(str(schedule), "eta") == schedule


@given(number=REALS)
def test_numbers_are_rates(number: float) -> None:
    assert parse(number, "eta") == number
    assert parse(repr(number), "eta") == number
    assert at(parse(np.float64(number), "eta"), 7) == number


def test_the_power_of_an_inverse_may_be_left_out() -> None:
    assert parse("inverse:0.1:0.5", "eta") == Inverse(0.1, 0.5, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "", "fast", "nan", "inf", "-inf", "power", "power:", "power:1", "power:1:2:3", "power:1:x", "power:nan:1",
        "inverse:1", "inverse:1:2:3:4", "inverse:1:inf", "Power:1:2", "1:2", None, True, [0.1],
    ],
)  # fmt: skip
def test_what_is_no_rate_is_refused_by_name(text: Any) -> None:
    with pytest.raises(InputError, match=r"^beta = .* is not a rate: expected a number, power:BASE:EXPONENT"):
        parse(text, "beta")


def test_any_callable_is_a_schedule() -> None:
    def halving(k: int) -> float:
        return 0.5**k

    assert parse(halving, "eta") is halving
    assert at(halving, 3) == 0.125
    assert at(3, 99) == 3.0
    assert DSGD1(eta=halving).hyperparameters(2) == {"eta": 0.25}


@pytest.mark.parametrize("eta", [-0.1, "power:-1:0.5", math.nan, lambda k: -1.0, lambda k: math.inf])
def test_a_step_size_starts_finite_and_not_negative(eta: Any) -> None:
    with pytest.raises(InputError, match="eta"):
        DSGD1(eta=eta)


@pytest.mark.parametrize("eta", ["inverse:0.1:-0.5", "inverse:0.1:-0.3:0.5"])
def test_a_decay_that_runs_into_a_pole_is_refused(eta: Any) -> None:
    # base/(1 − ck) is infinite and then negative (or complex) within a few iterations.
    with pytest.raises(InputError, match="not negative"):
        DSGD1(eta=eta)
    with pytest.raises(InputError, match="not negative"):
        Inverse(0.1, -2.0)


def test_growth_beyond_the_largest_number_is_infinite_and_raises_nothing() -> None:
    assert Power(1.0, 1000.0)(9) == math.inf


def test_a_method_writes_its_schedules_down_and_reads_them_again() -> None:
    method = DSGPA(eta="power:0.1:-0.25", alpha=Inverse(2.0, 0.1), beta="3")  # type: ignore[arg-type]
    written = method.parameters()
    assert written["eta"] == "power:0.1:-0.25"
    assert written["beta"] == 3.0
    assert DSGPA(**written) == method
    assert method.hyperparameters(15)["eta"] == pytest.approx(0.05)


@given(k=st.integers(0, 10**9))
def test_growth_is_relative_to_the_first_iteration(k: int) -> None:
    h = DSGPA(eta=0.08, alpha=4.0, beta=3.0, epsilon=0.25).hyperparameters(k)
    assert h["eta"] * h["alpha"] == pytest.approx(0.32)
    assert h["beta"] == pytest.approx(3.0 * (k + 1) ** 0.25)
