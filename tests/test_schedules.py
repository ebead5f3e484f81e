"""Schedules: their values, their texts, and what is refused."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.algorithms import DSGD1, DSGPA
from peerdescent.errors import InputError
from peerdescent.schedules import KNOWN, Cosine, Inverse, Power, Rate, Step, Warmup, at, base, nominal, parse, text

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


def test_cosine_falls_from_the_base_to_the_floor_and_stays_there() -> None:
    schedule = Cosine(0.1, 100, 0.02)
    assert [schedule(k) for k in (0, 50, 100, 10**6)] == pytest.approx([0.1, 0.06, 0.02, 0.02])
    assert Cosine(0.1, 3000)(1000) == pytest.approx(0.1 * (1 + math.cos(math.pi / 3)) / 2)
    values = [schedule(k) for k in range(120)]
    assert values == sorted(values, reverse=True)


def test_step_multiplies_from_each_milestone_on() -> None:
    schedule = Step(0.8, 0.5, (10, 30))
    assert [schedule(k) for k in (0, 9, 10, 29, 30, 10**6)] == [0.8, 0.8, 0.4, 0.4, 0.2, 0.2]


@pytest.mark.parametrize("rest", [0.2, Cosine(0.2, 50), Inverse(0.2, 0.1), Step(0.2, 0.1, (3,))])
def test_warmup_is_a_linear_ramp_up_to_the_rest(rest: Rate) -> None:
    schedule = Warmup(10, rest)
    for k in range(60):
        assert schedule(k) == pytest.approx(at(rest, k) * min(1, (k + 1) / 10))
    assert base(schedule) == 0.2
    assert nominal(schedule) == at(rest, 9)


PLAIN = st.one_of(
    REALS,
    st.builds(Power, REALS, REALS),
    st.builds(Inverse, REALS, st.floats(0, 1e6), REALS),
    st.builds(lambda a, b, n: Cosine(max(a, b), n, min(a, b)), *2 * [st.floats(0, 1e6)], st.integers(1, 10**9)),
    st.builds(
        lambda scale, factor, changes: Step(scale, factor, tuple(sorted(changes))),
        REALS,
        st.floats(0, 1e6),
        st.sets(st.integers(1, 10**9), min_size=1, max_size=5),
    ),
)
RATES = PLAIN | st.builds(Warmup, st.integers(1, 10**9), PLAIN)


@given(rate=RATES)
def test_every_rate_reads_what_it_writes(rate: Rate) -> None:
    assert parse(text(rate), "eta") == rate
    if isinstance(rate, KNOWN):
        assert str(rate) == text(rate)


@given(rate=RATES, k=st.integers(0, 10**9))
def test_no_schedule_raises_at_any_iteration(rate: Rate, k: int) -> None:
    assert isinstance(at(rate, k), float)


def test_texts_have_optional_parts() -> None:
    assert parse("cosine:0.1:100", "eta") == Cosine(0.1, 100)
    assert parse("step:0.1:0.5:10:20", "eta") == Step(0.1, 0.5, (10, 20))
    assert parse("warmup:5:0.1", "eta") == Warmup(5, 0.1)
    assert parse("warmup:100:cosine:0.1:3000", "eta") == Warmup(100, Cosine(0.1, 3000))
    assert Warmup(5, "step:1:0.1:7") == Warmup(5, Step(1.0, 0.1, (7,)))  # type: ignore[arg-type]
    assert str(Power(np.float64(0.1), np.float64(-1))) == "power:0.1:-1.0"


@given(number=REALS)
def test_numbers_are_rates(number: float) -> None:
    assert parse(number, "eta") == number
    assert parse(repr(number), "eta") == number
    assert at(parse(np.float64(number), "eta"), 7) == number


def test_the_power_of_an_inverse_is_optional() -> None:
    assert parse("inverse:0.1:0.5", "eta") == Inverse(0.1, 0.5, 1.0)


@pytest.mark.parametrize(
    "text",
    [
        "", "fast", "nan", "inf", "-inf", "power", "power:", "power:1", "power:1:2:3", "power:1:x", "power:nan:1",
        "inverse:1", "inverse:1:2:3:4", "inverse:1:inf", "Power:1:2", "1:2", None, True, [0.1],
        "cosine", "cosine:1", "cosine:1:2:3:4", "cosine:1:2.5", "cosine:1:x", "step", "step:1", "step:1:2:x", "warmup",
        "warmup:", "warmup:x:1", "cosine:1:" + "9" * 5000,
    ],
)  # fmt: skip
def test_an_invalid_rate_is_refused_by_name(text: Any) -> None:
    with pytest.raises(InputError, match=r"^beta = .* is not a rate: expected a number, power:BASE:EXPONENT"):
        parse(text, "beta")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("cosine:1:0", "at least 1"),
        ("cosine:1:10:2", "a floor between 0 and the base"),
        ("cosine:1:10:-1", "a floor between 0 and the base"),
        ("step:1:0.1", "iterations above 0, in increasing order"),
        ("step:1:0.1:5:5", "iterations above 0, in increasing order"),
        ("step:1:0.1:0", "iterations above 0, in increasing order"),
        ("step:1:-0.1:5", "a factor that is not negative"),
        ("warmup:0:1", "at least 1"),
        ("warmup:9", "what follows a warm-up = '' is not a rate"),
        ("warmup:9:warmup:9:1", "cannot contain another"),
        ("warmup:1:" * 5000, "cannot contain another"),
        ("python:lab.halving", "is a Python function"),
        ("warmup:9:python:lab.halving", "is a Python function"),
    ],
)
def test_a_wrong_schedule_gets_a_specific_message(given: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse(given, "eta")
    assert str(caught.value).startswith("eta = ")


def halving(k: int) -> float:
    return float(0.5**k)


def scaled(scale: float, k: int) -> float:
    return scale * halving(k)


class Falling:
    def __call__(self, k: int) -> float:
        return 1 / (k + 1)


@dataclass(frozen=True)
class Constant:
    value: float

    def __call__(self, k: int) -> float:
        return self.value


@pytest.mark.parametrize(
    ("rate", "name"),
    [
        (halving, "halving"),
        (functools.partial(scaled, 0.5), "scaled"),
        (Falling(), "Falling"),
        (Constant(0.3), "Constant(value=0.3)"),
    ],
)
def test_a_python_function_has_a_stable_name_that_is_not_read_back(rate: Any, name: str) -> None:
    written = DSGD1(eta=rate).parameters()["eta"]
    assert written == DSGD1(eta=rate).parameters()["eta"] == f"python:{__name__}.{name}"
    assert f"warmup:9:{written}" == DSGD1(eta=Warmup(9, rate)).parameters()["eta"]
    with pytest.raises(InputError, match=r"eta = 'python:.*' is a Python function"):
        DSGD1(eta=written)


def test_any_callable_is_a_schedule() -> None:
    assert parse(halving, "eta") is halving
    assert at(halving, 3) == 0.125
    assert at(3, 99) == 3.0
    assert DSGD1(eta=halving).hyperparameters(2) == {"eta": 0.25}


@pytest.mark.parametrize("eta", [-0.1, "power:-1:0.5", math.nan, lambda k: -1.0, lambda k: math.inf])
def test_a_step_size_starts_finite_and_not_negative(eta: Any) -> None:
    with pytest.raises(InputError, match="eta"):
        DSGD1(eta=eta)


@pytest.mark.parametrize("eta", ["inverse:0.1:-0.5", "inverse:0.1:-0.3:0.5"])
def test_a_decay_with_a_pole_is_refused(eta: Any) -> None:
    # base/(1 − ck) is infinite and then negative (or complex) within a few iterations.
    with pytest.raises(InputError, match="not negative"):
        DSGD1(eta=eta)
    with pytest.raises(InputError, match="not negative"):
        Inverse(0.1, -2.0)


def test_overflow_is_infinite_or_zero_and_raises_nothing() -> None:
    assert Power(1.0, 1000.0)(9) == math.inf
    assert Inverse(1.0, 1.0, 1e308)(1) == 0.0
    assert Inverse(1.0, 1.0, -1e308)(1) == math.inf


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


@pytest.mark.parametrize("wrong", [None, "x", float("nan"), torch.zeros(2)])
@pytest.mark.parametrize(
    "make",
    [
        lambda wrong: Power(wrong, 1.0),
        lambda wrong: Inverse(0.1, wrong),
        lambda wrong: Cosine(wrong, 10),
        lambda wrong: Step(0.1, wrong, (1,)),
        lambda wrong: Step(0.1, 0.5, wrong),
    ],
)
def test_what_is_no_number_is_refused(make: Callable[[Any], object], wrong: Any) -> None:
    with pytest.raises(InputError, match="schedule"):
        make(wrong)
