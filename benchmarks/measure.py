"""Timing that is robust on a noisy machine: candidates take turns, so that their ratios are comparable."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

import numpy as np


def medians(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, seconds: float = 0.02
) -> dict[str, float]:
    """The median time of one call of each candidate, measured in turn so that noise affects all alike."""
    repeats = {name: _repeats(call, seconds) for name, call in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            begin = time.perf_counter()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.perf_counter() - begin) / repeats[name])
    return {name: float(np.median(values)) for name, values in times.items()}


def _repeats(call: Callable[[], object], seconds: float) -> int:
    """The number of calls that take about that many seconds."""
    call()
    begin = time.perf_counter()
    call()
    return max(1, int(seconds / max(1e-7, time.perf_counter() - begin)))


def cpu_minima(
    candidates: Mapping[str, Callable[[], object]], rounds: int = 15, seconds: float = 0.05
) -> dict[str, float]:
    """The least CPU time of one call of each candidate, measured in turn: robust where other programs run too."""
    repeats = {name: _repeats(call, seconds) for name, call in candidates.items()}
    times: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(rounds):
        for name, call in candidates.items():
            begin = time.process_time()
            for _ in range(repeats[name]):
                call()
            times[name].append((time.process_time() - begin) / repeats[name])
    return {name: min(values) for name, values in times.items()}
