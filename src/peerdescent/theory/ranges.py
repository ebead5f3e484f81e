"""Each hyperparameter by itself: the nearest value that is stable, and how far it may go."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from peerdescent import schedules
from peerdescent.algorithms import Algorithm
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MATCHED
from peerdescent.theory.stability import Modes, bisect, judge, modes

REACH = 1000.0
"""By what factor a hyperparameter is changed at most, either way."""


def nearest_stable(
    algorithm: Algorithm,
    graph: Graph,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    communication_period: int = 1,
) -> dict[str, float]:
    """For each step size of an unstable method the value nearest to its own that alone would make it stable.

    Sought by factors within a thousandfold either way, to four digits; a step size that cannot do it is left out.

    >>> from peerdescent import graphs
    >>> from peerdescent.algorithms import make
    >>> cures = nearest_stable(make("dsgpa-f"), graphs.parse("star:10"), "unit")
    >>> round(cures["eta"], 4), round(cures["alpha"], 2)
    (0.0215, 0.67)
    """
    cures = {}
    for name, (own, stable) in _trials(algorithm, graph, laplacian, mixing, communication_period).items():
        factors = [factor for up in (True, False) if (factor := _first(stable, up)) is not None]
        if factors:
            cures[name] = own * min(factors, key=lambda factor: abs(math.log(factor)))
    return cures


def stable_range(
    algorithm: Algorithm,
    graph: Graph,
    laplacian: str = "metropolis",
    mixing: str = "metropolis",
    communication_period: int = 1,
) -> dict[str, tuple[float, float]]:
    """For each step size the interval around its own value in which it may be changed alone.

    0 and infinity stand for ends beyond a thousandfold; nothing is said of a method that is not stable itself.

    >>> from peerdescent import graphs
    >>> from peerdescent.algorithms import make
    >>> found = stable_range(make("dsgpa-t", dual="jacobi"), graphs.ring(4), "unit")
    >>> [round(end, 3) for end in found["alpha"]]  # ηβ² = 0.72 must be below α
    [0.72, 6.61]
    """
    ranges = {}
    for name, (own, stable) in _trials(algorithm, graph, laplacian, mixing, communication_period).items():
        if stable(1.0):
            low, high = (_first(stable, up, wanted=False) for up in (False, True))
            ranges[name] = (own * low if low else 0.0, own * high if high else math.inf)
    return ranges


def _trials(
    algorithm: Algorithm, graph: Graph, laplacian: str, mixing: str, communication_period: int
) -> dict[str, tuple[float, Callable[[float], bool]]]:
    """For each positive step size its value, and whether the method settles with a multiple of it."""
    met = modes(algorithm, graph, laplacian, mixing)

    def trial(name: str, own: float) -> Callable[[float], bool]:
        def stable(factor: float) -> bool:
            changed = _with(algorithm, **{name: factor * own})
            scale = _step(algorithm) / _step(changed) if laplacian == MATCHED else 1.0
            return judge(
                changed, Modes(met.matrix, scale * met.values), communication_period=communication_period
            ).settles

        return stable

    values = {name: schedules.at(getattr(algorithm, name), 0) for name in algorithm.rates}
    return {name: (own, trial(name, own)) for name, own in values.items() if own > 0}


def _with(algorithm: Algorithm, **values: Any) -> Algorithm:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a value that is only tried needs no warning
        return replace(algorithm, **values)


def _step(algorithm: Algorithm) -> float:
    """αη, by which the matched Laplacian is divided; 1 for methods that have no such product."""
    h = algorithm.hyperparameters(0)
    return h["alpha"] * h["eta"] if "alpha" in h and "eta" in h else 1.0


def _first(stable: Callable[[float], bool], up: bool, wanted: bool = True) -> float | None:
    """The factor nearest to 1, above or below it, from which on the method is stable (or is not)."""
    steps = np.geomspace(1, REACH if up else 1 / REACH, 31)
    first = next((i for i, factor in enumerate(steps) if stable(float(factor)) is wanted), None)
    if first is None:
        return None
    nearer = float(steps[max(0, first - 1)])
    return bisect(lambda factor: stable(factor) is wanted, float(steps[first]), nearer, digits=1e-6)
