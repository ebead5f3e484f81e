"""The statistics against SciPy, brute force and the tables and examples of Demšar 2006 and R's p.adjust."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from peerdescent.errors import InputError
from peerdescent.league import ranks

NEMENYI = {
    0.05: (1.960, 2.343, 2.569, 2.728, 2.850, 2.949, 3.031, 3.102, 3.164),
    0.10: (1.645, 2.052, 2.291, 2.459, 2.589, 2.693, 2.780, 2.855, 2.920),
}
"""Demšar 2006, table 5(a): critical values for two to ten classifiers."""
AUC = """
0.763 0.768 0.771 0.798
0.599 0.591 0.590 0.569
0.954 0.971 0.968 0.967
0.628 0.661 0.654 0.657
0.882 0.888 0.886 0.898
0.936 0.931 0.916 0.931
0.661 0.668 0.609 0.685
0.583 0.583 0.563 0.625
0.775 0.838 0.866 0.875
1.000 1.000 1.000 1.000
0.940 0.962 0.965 0.962
0.619 0.666 0.614 0.669
0.972 0.981 0.9751 0.975
0.957 0.978 0.946 0.970
"""
"""Demšar 2006, table 6: four classifiers on fourteen data sets, larger is better; the paper ranks one of the two 0.975
before the other, so that it is not written as a tie here."""
tables = st.integers(3, 6).flatmap(
    lambda k: st.lists(st.lists(st.integers(0, 4), min_size=k, max_size=k), min_size=2, max_size=9)
)


def test_the_example_of_demsar() -> None:
    scores = np.array([[float(x) for x in line.split()] for line in AUC.strip().splitlines()])
    ranked = ranks.ranks(-scores)
    assert ranked.mean(axis=0).round(3).tolist() == [3.143, 2.000, 2.893, 1.964]
    assert round(ranks.critical_difference(4, 14, 0.05), 2) == 1.25
    assert round(ranks.critical_difference(4, 14, 0.10), 2) == 1.12


@pytest.mark.parametrize("level", list(NEMENYI))
def test_critical_values_are_those_that_are_printed(level: float) -> None:
    for k, printed in enumerate(NEMENYI[level], start=2):
        q = ranks.critical_difference(k, 1, level) / math.sqrt(k * (k + 1) / 6)
        assert abs(q - printed) < 1e-3  # it prints three digits, some of them cut off


@settings(max_examples=60, deadline=None)
@given(tables)
def test_friedman_is_that_of_scipy_with_ties_too(table: list[list[int]]) -> None:
    values = np.array(table, dtype=np.float64)
    found = ranks.friedman(ranks.ranks(values))
    if all(len(set(row)) == 1 for row in table):
        assert found is None
        return
    assert found is not None
    expected = stats.friedmanchisquare(*values.T)
    assert np.allclose([found.statistic, found.p], [expected.statistic, expected.pvalue], rtol=1e-9, atol=1e-12)


def test_iman_and_davenport() -> None:
    found = ranks.friedman([[1, 2, 3], [2, 1, 3], [1, 2, 3], [1, 3, 2], [2, 1, 3]])
    assert found is not None
    chi = found.statistic
    assert found.f == pytest.approx(4 * chi / (5 * 2 - chi))
    assert found.p_f == pytest.approx(stats.f.sf(found.f, 2, 8))
    alike = ranks.friedman([[1, 2, 3]] * 4)
    assert alike is not None
    assert alike.f == math.inf
    assert alike.p_f == 0


def test_too_little_for_friedman() -> None:
    assert ranks.friedman([[1, 2, 3]]) is None
    assert ranks.friedman([[1, 2], [2, 1]]) is None


def test_diverged_methods_share_the_last_places() -> None:
    assert ranks.ranks([0.2, math.inf, 0.1, math.inf]).tolist() == [2, 3.5, 1, 3.5]
    with pytest.raises(InputError, match="not a number"):
        ranks.ranks([0.1, math.nan])


def test_holm_is_that_of_r() -> None:
    assert ranks.holm([0.01, 0.02, 0.03, 0.04, 0.05]) == pytest.approx([0.05, 0.08, 0.09, 0.09, 0.09])
    assert ranks.holm([0.9, 0.001, 0.5]) == pytest.approx([1.0, 0.003, 1.0])
    assert ranks.holm([]) == []


def test_wilcoxon_compares_ratios_and_corrects_for_their_number() -> None:
    draw = np.random.default_rng(3)
    scales = 10.0 ** draw.integers(-3, 3, 12)
    losses = scales[:, None] * draw.uniform(0.5, 1.5, (12, 4))
    found = ranks.against(losses, 2)
    single = [stats.wilcoxon(np.log(losses[:, j] / losses[:, 2])).pvalue for j in (0, 1, 3)]
    assert found[2] == 1
    assert [found[j] for j in (0, 1, 3)] == pytest.approx(ranks.holm([float(p) for p in single]))


def test_wilcoxon_with_runs_that_diverged() -> None:
    losses = np.array([[0.1 + 0.01 * i, math.inf] for i in range(10)])
    assert ranks.against(losses, 0)[1] == pytest.approx(2 / 2**10)
    assert ranks.against(np.full((6, 2), math.inf), 0) == [1.0, 1.0]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(2, 40), min_size=1, max_size=9), st.integers(1, 30))
def test_groups_are_all_maximal_sets_within_the_difference(halves: list[int], difference: int) -> None:
    ordered = sorted(h / 2 for h in halves)
    n, width = len(ordered), difference / 2 + 0.25
    within = [(a, b) for a in range(n) for b in range(a + 1, n) if ordered[b] - ordered[a] < width]
    maximal = [(a, b) for a, b in within if not any(c <= a and b <= d and (c, d) != (a, b) for c, d in within)]
    assert ranks.groups(ordered, width) == maximal
