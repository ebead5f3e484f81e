"""Before a run: seconds per iteration of a method and of an all_reduce, which is faster, and where they are equal."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from peerdescent.clock.communication import Communication, Send, Step
from peerdescent.clock.compute import compute_seconds, mean_seconds
from peerdescent.clock.model import NetworkModel
from peerdescent.clock.simulation import finish_times

Numbers = NDArray[np.float64]
SETTLING, COUNTED = 20, 60
"""Iterations before the pace is measured, and while it is."""
FARTHEST = 4
"""Crossings are sought up to this power of ten away from the model."""
CENTRALIZED = Step(late=(Send("mean gradient", all_agents=True),))
"""Centralized SGD: one mean over all agents per iteration, after the gradient."""


@dataclass(frozen=True)
class Forecast:
    """What the clock says before a run.

    Args:
        network: its name.
        seconds: per iteration of the method.
        compute: of those, the mean computing time of an agent.
        all_reduce: seconds per iteration of centralized SGD with a ring all_reduce of the same vector.
        crossings: by what the bandwidth, the latency or the dimension must be multiplied for both to take the same
            time; None where one of them stays faster up to a factor of 10,000 in both directions.
    """

    network: str
    seconds: float
    compute: float
    all_reduce: float
    crossings: dict[str, float | None]

    @property
    def faster(self) -> bool:
        """Whether an iteration of the method takes less time."""
        return self.seconds < self.all_reduce

    def sentences(self, dimension: int) -> tuple[str, str]:
        """The pace of both, and where they are equal."""
        ratio = max(self.seconds, self.all_reduce) / max(min(self.seconds, self.all_reduce), 1e-12)
        verdict = "the same" if ratio < 1.005 else f"{ratio:.3g} times {'as long' if self.faster else 'as fast'}"
        pace = (
            f"{self.seconds:.3g} s per iteration, {self.compute:.3g} s of it computing; with an all_reduce of the "
            f"gradients instead {self.all_reduce:.3g} s: {verdict}"
        )
        equal = [f"{f:.3g} times the {name}" for name, f in self.crossings.items() if f and name != "dimension"]
        if factor := self.crossings["dimension"]:
            equal.append(f"p = {factor * dimension:.3g}")
        if equal:
            return pace, f"equally fast at {' or '.join(equal)}"
        stays = f"the {'method' if self.faster else 'all_reduce'} stays faster at any bandwidth, latency and p"
        return pace, "" if ratio < 1.005 else stays


def forecast(
    communication: Communication,
    model: NetworkModel,
    seed: int = 0,
    measured: float | None = None,
    cycle: int = 1,
) -> Forecast:
    """The pace of a method in a network, beside that of an all_reduce.

    Args:
        communication: what the method sends.
        model: the network.
        seed: decides computing times that vary.
        measured: seconds per agent and iteration, for a model that is relative to them.
        cycle: iterations after which the communication repeats; the pace is an average over whole cycles.
    """
    settling, counted = (cycle * math.ceil(k / cycle) for k in (SETTLING, COUNTED))
    drawn = list(islice(compute_seconds(model, communication.n, seed, measured), settling + counted))
    central = replace(communication, step=CENTRALIZED, local=CENTRALIZED, averages=lambda k: 0)
    ring = replace(model, average=type(model.average)())

    def both(bandwidth: float = 1.0, latency: float = 1.0, size: float = 1.0) -> tuple[float, float]:
        vector, mean = size * communication.vector_bytes, size * communication.mean_bytes
        resized = {"vector_bytes": vector, "mean_bytes": mean}
        runs = (replace(communication, **resized), model), (replace(central, **resized), ring)  # type: ignore[arg-type]
        one, other = (_pace(sent, m.scaled(bandwidth, latency), drawn, settling) for sent, m in runs)
        return one, other

    seconds, all_reduce = both()
    crossings = {
        "bandwidth": _crossing(lambda f: both(bandwidth=f)),
        "latency": _crossing(lambda f: both(latency=f)),
        "dimension": _crossing(lambda f: both(size=f)),
    }
    mean = float(mean_seconds(model, communication.n, measured).mean()) * communication.step.gradients
    return Forecast(model.name, seconds, mean, all_reduce, crossings)


def _pace(communication: Communication, model: NetworkModel, compute: list[Numbers], settling: int) -> float:
    """Seconds per iteration, once the clock runs evenly."""
    ends = [float(times.max()) for times in finish_times(communication, model, compute, len(compute))]
    return (ends[-1] - ends[settling - 1]) / (len(ends) - settling)


def _crossing(both: Callable[[float], tuple[float, float]]) -> float | None:
    """The factor nearest to 1 at which the two are equal: the first change of sign on a grid, then bisection."""

    def difference(exponent: float) -> float:
        one, other = both(10.0**exponent)
        return (one - other) / max(one, other, 1e-300)

    here = difference(0.0)
    found: list[float] = []
    for direction in (-1.0, 1.0):
        last = 0.0
        for place in np.arange(0.5, FARTHEST + 0.5, 0.5).tolist():
            if difference(direction * place) * here < 0:
                found.append(_bisect(difference, direction * last, direction * place))
                break
            last = place
    return 10.0 ** min(found, key=abs) if found else None


def _bisect(function: Callable[[float], float], low: float, high: float) -> float:
    sign = function(low)
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) * sign > 0 else (low, middle)
    return (low + high) / 2
