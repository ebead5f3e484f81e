"""Each hyperparameter by itself: the nearest stable value, and the interval in which it stays stable."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from peerdescent import schedules
from peerdescent.algorithms import Algorithm, varied
from peerdescent.errors import InputError
from peerdescent.mixing.periods import OnePeriod, Period, Periods
from peerdescent.mixing.rounds import Rounds
from peerdescent.mixing.weights import MATCHED, MixingWeights
from peerdescent.theory.agents import KnownRounds, as_rounds
from peerdescent.theory.radii import Modes
from peerdescent.theory.recursion import Equation
from peerdescent.theory.sequences import judge_rounds
from peerdescent.theory.stability import bisect, judge, modes

Settles = Callable[[Algorithm, float], bool]
"""Whether a changed method settles, with L times a number."""
TRIED_UP_TO = 150
"""Numbers, states × agents, up to which step sizes are tried on a sequence of graphs."""
TRIAL_ROUNDS = 100
"""The rounds of a random sequence on which they are tried."""
REACH = 1000.0
"""The largest factor by which a hyperparameter is changed, up or down."""


def nearest_stable(
    algorithm: Algorithm,
    graph: object,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    communication_period: Period = 1,
    weights: Rounds | None = None,
    delay: int = 0,
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
    for name, (own, stable) in _trials(
        algorithm, graph, laplacian, mixing, communication_period, weights, delay
    ).items():
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
    weights: Rounds | None = None,
    delay: int = 0,
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
    for name, (own, stable) in _trials(
        algorithm, graph, laplacian, mixing, communication_period, weights, delay
    ).items():
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
    weights: Rounds | None,
    delay: int,
) -> dict[str, tuple[float, Callable[[float], bool]]]:
    """For each positive step size its value, and a test whether the method settles with a multiple of it."""
    periods = Periods.parse(communication_period).distinct
    if weights is None or isinstance(weights, MixingWeights):
        settles = _in_modes(modes(algorithm, graph, laplacian, mixing, weights), periods, delay)
    else:
        settles = _on_rounds(algorithm, weights, periods, delay)

    def trial(name: str, own: float) -> Callable[[float], bool]:
        def stable(factor: float) -> bool:
            try:
                changed = varied(algorithm, **{name: factor * own})
            except InputError:  # the method refuses this value
                return False
            return settles(changed, scale_of(algorithm, changed, laplacian))

        return stable

    values = {name: schedules.nominal(getattr(algorithm, name)) for name in algorithm.rates}
    return {name: (own, trial(name, own)) for name, own in values.items() if own > 0}


def _in_modes(found: Modes, periods: tuple[OnePeriod, ...], delay: int) -> Settles:
    def settles(changed: Algorithm, scale: float) -> bool:
        tried = Modes(found.matrix, scale * found.values)
        return all(judge(changed, tried, communication_period=m, delay=delay).settles for m in periods)

    return settles


def _on_rounds(algorithm: Algorithm, weights: Rounds, periods: tuple[OnePeriod, ...], delay: int) -> Settles:
    """The same for all agents at once, for small networks: dozens of values are tried."""
    rounds = as_rounds(weights)
    numbers = Equation(algorithm).arrays(delay) * rounds.n
    if numbers > TRIED_UP_TO:
        raise InputError(f"step sizes are not tried on a sequence of graphs with {numbers:,} numbers.")

    known = KnownRounds.of(rounds, TRIAL_ROUNDS)

    def settles(changed: Algorithm, scale: float) -> bool:
        trial = known.scaled(scale)
        return all(judge_rounds(changed, trial, 0.0, m, delay, TRIAL_ROUNDS).settles for m in periods)

    return settles


def scale_of(algorithm: Algorithm, changed: Algorithm, laplacian: str) -> float:
    """By what L is multiplied if the method changes."""
    return _step(algorithm) / _step(changed) if laplacian == MATCHED else 1.0


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
