"""Each hyperparameter by itself: the nearest stable value, and the interval in which it stays stable."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from peerdescent import schedules
from peerdescent.algorithms import Algorithm, varied
from peerdescent.mixing.periods import Period, Periods
from peerdescent.mixing.weights import MATCHED, MixingWeights
from peerdescent.theory.stability import Modes, bisect, judge, modes

REACH = 1000.0
"""The largest factor by which a hyperparameter is changed, up or down."""


def nearest_stable(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    communication_period: Period = 1,
    weights: MixingWeights | None = None,
) -> dict[str, float]:
    """For each step size of an unstable method the nearest value that alone would make it stable.

    Searched by factors of up to a thousand, to four digits; a step size that cannot achieve it is left out. The
    arguments are those of `stability`.

    >>> from peerdescent.algorithms import make
    >>> cures = nearest_stable(make("dsgpa-f"), "star:10", "unit")
    >>> round(cures["eta"], 4), round(cures["alpha"], 2)
    (0.0215, 0.67)
    """
    cures = {}
    for name, (own, stable) in _trials(algorithm, graph, laplacian, mixing, communication_period, weights).items():
        factors = [factor for up in (True, False) if (factor := _first(stable, up)) is not None]
        if factors:
            cures[name] = own * min(factors, key=lambda factor: abs(math.log(factor)))
    return cures


def stable_range(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    communication_period: Period = 1,
    weights: MixingWeights | None = None,
) -> dict[str, tuple[float, float]]:
    """For each step size the interval around its value in which it can be changed alone.

    0 and infinity mark ends beyond a factor of a thousand; the result is empty for a method that is itself
    unstable. The arguments are those of `stability`.

    >>> from peerdescent.algorithms import make
    >>> found = stable_range(make("dsgpa-t", dual="jacobi"), "ring:4", "unit")
    >>> [round(end, 3) for end in found["alpha"]]  # ηβ² = 0.72 must be below α
    [0.72, 6.61]
    """
    ranges = {}
    for name, (own, stable) in _trials(algorithm, graph, laplacian, mixing, communication_period, weights).items():
        if stable(1.0):
            low, high = (_first(stable, up, wanted=False) for up in (False, True))
            ranges[name] = (own * low if low else 0.0, own * high if high else math.inf)
    return ranges


def _trials(
    algorithm: Algorithm,
    graph: object,
    laplacian: str,
    mixing: str,
    communication_period: Period,
    weights: MixingWeights | None,
) -> dict[str, tuple[float, Callable[[float], bool]]]:
    """For each positive step size its value, and a test whether the method settles with a multiple of it."""
    periods = Periods.parse(communication_period)
    found = modes(algorithm, graph, laplacian, mixing, weights)

    def trial(name: str, own: float) -> Callable[[float], bool]:
        def stable(factor: float) -> bool:
            changed = varied(algorithm, **{name: factor * own})
            scale = _step(algorithm) / _step(changed) if laplacian == MATCHED else 1.0
            tried = Modes(found.matrix, scale * found.values)
            return all(judge(changed, tried, communication_period=m).settles for m in periods.distinct)

        return stable

    values = {name: schedules.nominal(getattr(algorithm, name)) for name in algorithm.rates}
    return {name: (own, trial(name, own)) for name, own in values.items() if own > 0}


def _step(algorithm: Algorithm) -> float:
    """αη, by which the matched Laplacian is divided; 1 for methods without such a product."""
    h = algorithm.nominal()
    return h["alpha"] * h["eta"] if "alpha" in h and "eta" in h else 1.0


def _first(stable: Callable[[float], bool], up: bool, wanted: bool = True) -> float | None:
    """The factor nearest to 1, above or below it, from which on the method is stable (or is not)."""
    steps = np.geomspace(1, REACH if up else 1 / REACH, 31)
    first = next((i for i, factor in enumerate(steps) if stable(float(factor)) is wanted), None)
    if first is None:
        return None
    nearer = float(steps[max(0, first - 1)])
    return bisect(lambda factor: stable(factor) is wanted, float(steps[first]), nearer, digits=1e-6)
