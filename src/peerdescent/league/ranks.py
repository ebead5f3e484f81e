"""Statistics of ranks: Friedman's test, Nemenyi's critical difference, Wilcoxon's test with Holm's correction.

Pure functions on arrays of tasks × methods; smaller losses are better, and an infinite loss shares the last places.
References: Demšar 2006; Iman and Davenport 1980; Holm 1979.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerdescent.errors import InputError

Numbers = NDArray[np.float64]


def ranks(losses: ArrayLike) -> Numbers:
    """The ranks of the methods on each task, 1 for the smallest loss; equal losses share the mean of their places.

    >>> ranks([[0.3, 0.1, 0.3], [1.0, math.inf, math.inf]]).tolist()
    [[2.5, 1.0, 2.5], [1.0, 2.5, 2.5]]
    """
    from scipy.stats import rankdata

    values = np.asarray(losses, dtype=np.float64)
    if np.isnan(values).any():
        raise InputError("a loss is not a number: give inf for a run that diverged.")
    found: Numbers = rankdata(values, axis=-1)
    return found


@dataclass(frozen=True)
class Friedman:
    """Friedman's test, that all methods are alike.

    Args:
        statistic: χ²_F, corrected for ties.
        p: its probability under χ² with k−1 degrees of freedom.
        f: Iman and Davenport's F_F = (N−1)χ²/(N(k−1) − χ²); infinite if all tasks rank the methods alike.
        p_f: its probability under F with k−1 and (k−1)(N−1) degrees of freedom.
    """

    statistic: float
    p: float
    f: float
    p_f: float


def friedman(ranked: ArrayLike) -> Friedman | None:
    """Friedman's test on ranks of tasks × methods; None if there are fewer than 2 tasks or 3 methods, or only ties.

    χ²_F = [12/(Nk(k+1)) Σ_j R_j² − 3N(k+1)] / C with rank sums R_j and C = 1 − Σ(t³−t)/(Nk(k²−1)) over all groups of
    t ties.

    >>> test = friedman([[1, 2, 3], [1, 2, 3], [1, 3, 2], [1, 2, 3]])
    >>> round(test.statistic, 6), round(test.p, 6)
    (6.5, 0.038774)
    """
    from scipy.stats import chi2
    from scipy.stats import f as f_distribution

    table = np.asarray(ranked, dtype=np.float64)
    tasks, k = table.shape
    if tasks < 2 or k < 3:
        return None
    counts = [np.unique(row, return_counts=True)[1].astype(np.float64) for row in table]
    ties = 1 - sum(float((t**3 - t).sum()) for t in counts) / (tasks * k * (k**2 - 1))
    if ties <= 0:
        return None
    sums = table.sum(axis=0)
    statistic = (12 / (tasks * k * (k + 1)) * float(sums @ sums) - 3 * tasks * (k + 1)) / ties
    rest = tasks * (k - 1) - statistic
    f = (tasks - 1) * statistic / rest if rest > 1e-9 * statistic else math.inf
    return Friedman(
        statistic,
        float(chi2.sf(statistic, k - 1)),
        f,
        float(f_distribution.sf(f, k - 1, (k - 1) * (tasks - 1))),
    )


def critical_difference(methods: int, tasks: int, level: float = 0.05) -> float:
    """Nemenyi's critical difference q·√(k(k+1)/(6N)): mean ranks that differ by less are not told apart.

    q is the upper quantile of the studentized range of k methods with infinitely many degrees of freedom, over √2.

    >>> round(critical_difference(methods=5, tasks=30), 3)
    1.114
    """
    from scipy.stats import studentized_range

    q = float(studentized_range.ppf(1 - level, methods, np.inf)) / math.sqrt(2)
    return q * math.sqrt(methods * (methods + 1) / (6 * tasks))


def groups(mean_ranks: Sequence[float], difference: float) -> list[tuple[int, int]]:
    """The largest groups of methods within a critical difference, as first and last place among the sorted mean ranks.

    A group of one is left out.

    >>> groups([1.0, 2.0, 2.5, 5.0, 5.5], 1.6)
    [(0, 2), (3, 4)]
    """
    ordered = sorted(mean_ranks)
    found: list[tuple[int, int]] = []
    for first, low in enumerate(ordered):
        last = max(i for i, high in enumerate(ordered) if high - low < difference or i == first)
        if last > first and (not found or last > found[-1][1]):
            found.append((first, last))
    return found


def holm(probabilities: Sequence[float]) -> list[float]:
    """Holm's adjusted probabilities: the i-th smallest of m times m−i+1, never below a smaller one, at most 1.

    >>> [round(p, 6) for p in holm([0.01, 0.04, 0.03])]
    [0.03, 0.06, 0.06]
    """
    adjusted = [1.0] * len(probabilities)
    before = 0.0
    for place, i in enumerate(sorted(range(len(probabilities)), key=lambda i: probabilities[i])):
        before = max(before, min(1.0, (len(probabilities) - place) * probabilities[i]))
        adjusted[i] = before
    return adjusted


def against(losses: ArrayLike, first: int) -> list[float]:
    """Wilcoxon's signed-rank test of one method against each other one, on log losses, corrected after Holm.

    Differences of logarithms compare ratios, so that a task with large losses does not outweigh the others. A task
    that both lost counts as a tie. The method itself has 1.

    >>> rows = [[0.1 + 0.01 * i, 0.2 + 0.03 * i, 0.1 + 0.01 * i] for i in range(8)]
    >>> against(rows, 0)
    [1.0, 0.015625, 1.0]
    """
    values = np.asarray(losses, dtype=np.float64)
    others = [j for j in range(values.shape[1]) if j != first]
    adjusted = dict(zip(others, holm([_wilcoxon(values[:, j], values[:, first]) for j in others]), strict=True))
    return [adjusted.get(j, 1.0) for j in range(values.shape[1])]


def _wilcoxon(one: Numbers, other: Numbers) -> float:
    from scipy.stats import wilcoxon

    tiny = np.finfo(np.float64).tiny
    logs = [np.log(np.maximum(values, tiny)) for values in (one, other)]
    largest = 1e6  # beyond any logarithm: a diverged run lost by more than any other
    apart = np.subtract(*(np.minimum(values, largest) for values in logs))
    return float(wilcoxon(apart).pvalue) if np.any(apart) else 1.0
