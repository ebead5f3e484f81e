import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.errors import InputError
from peerdescent.report import human_bytes
from peerdescent.report.formatting import UNITS, with_spread


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1, "1 B"),
        (999, "999 B"),
        (1000, "1.00 kB"),
        (9_996, "10.0 kB"),
        (99_960, "100 kB"),
        (999_499, "999 kB"),
        (999_999, "1.00 MB"),
        (1_085_568_000, "1.09 GB"),
        (2.5e12, "2.50 TB"),
        (1e22, "10000 EB"),
    ],
)
def test_bytes_have_three_digits_and_a_unit(n, text):
    assert human_bytes(n) == text


@given(st.integers(0, 10**20))
def test_bytes_are_right_to_three_digits(n):
    number, unit = human_bytes(n).split()
    assert float(number) * 1000 ** UNITS.index(unit) == pytest.approx(n, rel=5.1e-3)
    assert len(number.replace(".", "")) <= 3


@pytest.mark.parametrize("n", [-1, math.nan, math.inf])
def test_impossible_bytes_are_refused(n):
    with pytest.raises(InputError, match="number of bytes"):
        human_bytes(n)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([0.4563, 0.4588], "0.4576 ± 0.0018"),
        ([0.5, 0.6], "0.550 ± 0.071"),
        ([1, 40], "20 ± 28"),
        ([12345.6, 13000.0], "12670 ± 460"),
        ([1e-12, 2e-12], "1.50e-12 ± 7.1e-13"),
        ([1.2e9, 1.3e9], "1.250e+09 ± 7.1e+07"),
        ([0.4576, 0.457600001], "0.457600 ± 7e-10"),
        ([0.25, 0.25], "0.25 ± 0"),
        ([-1, 1], "0.0 ± 1.4"),
        ([0.123456], "0.1235"),
    ],
)
def test_mean_and_deviation_are_rounded_to_the_same_place(values, text):
    assert with_spread(values) == text


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=5))
def test_rounding_keeps_five_digits_of_the_mean_and_one_of_the_deviation(values):
    mean, deviation = (float(part) for part in with_spread(values).split(" ± "))
    spread = math.dist(values, [sum(values) / len(values)] * len(values)) / math.sqrt(len(values) - 1)
    assert mean == pytest.approx(sum(values) / len(values), rel=1e-3, abs=spread / 10 + 1e-300)
    assert deviation == pytest.approx(spread, rel=0.51, abs=1e-9 * max(map(abs, values)) + 1e-300)
