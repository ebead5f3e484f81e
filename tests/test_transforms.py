"""Transforms: powers, signs and clips on tensors, arrays, numbers and recorded equations."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from peerdescent.errors import InputError
from peerdescent.expressions import Array, Clamp, Power
from peerdescent.transforms import Chain, Clip, Powerball, Sign, Transform, power

GAMMAS = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
NUMBERS = st.floats(-1e100, 1e100, allow_subnormal=False)
VECTORS = arrays(np.float64, st.integers(1, 8), elements=NUMBERS)


def sigma(a: float, gamma: float) -> float:
    """The definition, on one number."""
    return 0.0 if a == 0 else math.copysign(abs(a) ** gamma, a)


@given(g=VECTORS, gamma=GAMMAS)
@settings(max_examples=150, deadline=None)
def test_power_is_its_definition_for_tensors_arrays_and_numbers(g: np.ndarray, gamma: float) -> None:
    expected = [sigma(a, gamma) for a in g.tolist()]
    np.testing.assert_allclose(power(torch.from_numpy(g), gamma).numpy(), expected, rtol=1e-14)
    np.testing.assert_allclose(power(g, gamma), expected, rtol=1e-14)
    np.testing.assert_allclose([power(a, gamma) for a in g.tolist()], expected, rtol=1e-14)


@given(g=VECTORS, gamma=GAMMAS)
@settings(max_examples=50, deadline=None)
def test_power_is_odd_and_does_not_change_its_argument(g: np.ndarray, gamma: float) -> None:
    a = torch.from_numpy(g.copy())
    assert torch.equal(power(-a, gamma), -power(a, gamma))
    assert torch.equal(a, torch.from_numpy(g))


@given(g=VECTORS, first=GAMMAS, second=GAMMAS)
@settings(max_examples=50, deadline=None)
def test_powers_multiply(g: np.ndarray, first: float, second: float) -> None:
    twice = power(power(torch.from_numpy(g), first), second).numpy()
    np.testing.assert_allclose(twice, power(torch.from_numpy(g), first * second).numpy(), rtol=1e-11)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("gamma", [0.0, 0.3, 0.5, 0.7, 1.0])
def test_zero_stays_zero_and_nan_stays_nan(gamma: float, dtype: torch.dtype) -> None:
    # A sign that turned NaN into 0 would hide a divergence.
    a = torch.tensor([0.0, -0.0, math.nan], dtype=dtype)
    out = power(a, gamma)
    assert out.dtype == dtype
    assert out[:2].tolist() == [0, 0]
    assert math.isnan(out[2])
    assert np.isnan(power(np.array([math.nan]), gamma)).all()


@pytest.mark.parametrize("gamma", [0.3, 0.5, 0.7, 1.0])
def test_infinity_stays_infinite(gamma: float) -> None:
    a = torch.tensor([math.inf, -math.inf])
    assert torch.equal(power(a, gamma), a)


def test_a_power_of_one_costs_nothing() -> None:
    g = torch.ones(3)
    assert power(g, 1.0) is g
    x = Array("x")
    assert power(x, 1) is x


def test_transforms_record_their_equation() -> None:
    g = Array("g")
    assert isinstance(Powerball(0.7)(g), Power)
    assert isinstance(Clip(2.0)(g), Clamp)
    assert str(Clip(2.0).then(Powerball(0.7)).then(Sign())(g)) == "power(power(clamp(g, 2), 0.7), 0)"
    assert Transform()(g) is g


@pytest.mark.parametrize("gamma", [-0.1, 1.1, math.nan, math.inf, "0.5", None])
def test_powers_outside_the_unit_interval_are_refused(gamma: Any) -> None:
    with pytest.raises(InputError, match="outside"):
        Powerball(gamma)


def test_powers_below_a_half_warn() -> None:
    with pytest.warns(UserWarning, match="below 1/2"):
        Powerball(0.49)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Powerball(0.5).gamma == 0.5
        Sign()


@pytest.mark.parametrize("limit", [0, -1.0, math.nan, math.inf, "much", None])
def test_clip_limits_must_be_positive_numbers(limit: Any) -> None:
    with pytest.raises(InputError, match="clip limit"):
        Clip(limit)


@given(g=VECTORS, limit=st.floats(1e-3, 1e3))
@settings(max_examples=50, deadline=None)
def test_clip_cuts_each_entry(g: np.ndarray, limit: float) -> None:
    expected = [max(-limit, min(limit, a)) for a in g.tolist()]
    assert Clip(limit)(torch.from_numpy(g)).tolist() == expected
    assert Clip(limit)(g).tolist() == expected
    assert [float(Clip(limit)(a)) for a in g.tolist()] == expected


def test_clip_keeps_nan() -> None:
    assert math.isnan(Clip(1.0)(torch.tensor(math.nan)))


def test_a_chain_applies_the_first_first() -> None:
    g = torch.tensor([-16.0, 0.25])
    assert Clip(4.0).then(Powerball(0.5))(g).tolist() == [-2.0, 0.5]
    assert Powerball(0.5).then(Clip(3.0))(g).tolist() == [-3.0, 0.5]
    assert Clip(1.0).then(Sign()) == Chain(Clip(1.0), Sign())
    assert Sign()(g).tolist() == [-1.0, 1.0]
