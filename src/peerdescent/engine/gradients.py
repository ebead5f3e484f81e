"""Stacked or agent by agent: which way of computing gradients is faster here, found by a quick measurement.

The answer is remembered per machine and per kind of problem, so that two runs with the same seed take the
same way and stay bitwise equal.
"""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path

import torch

from peerdescent.engine.compiler import cache_folder
from peerdescent.problems import Problem
from peerdescent.problems.base import STRATEGIES

ROUNDS = 3


def choose_strategy(problem: Problem, points: torch.Tensor, batch_size: int | None) -> tuple[str, str]:
    """The faster strategy and a few words on why."""
    if len(problem.strategies) == 1:
        return problem.strategies[0], "the only way"
    memory = _Memory(problem, points, batch_size)
    if (known := memory.recall()) in problem.strategies:
        return known, "measured before"
    times: dict[str, float] = {}
    for strategy in problem.strategies:
        try:
            times[strategy] = _measure(problem, points, batch_size, strategy)
        except RuntimeError as error:  # not every module can be stacked by vmap
            reason = str(error).splitlines()[0]
    if not times:
        raise RuntimeError(f"the gradient of {problem.name} cannot be computed: {reason}")
    best = min(times, key=lambda strategy: times[strategy])
    memory.remember(best)
    missing = [strategy for strategy in STRATEGIES if strategy in problem.strategies and strategy not in times]
    if missing:
        return best, f"{missing[0]} is impossible: {reason}"
    other = max(times.values()) / times[best]
    return best, f"measured {other:.1f}× faster"


def _measure(problem: Problem, points: torch.Tensor, batch_size: int | None, strategy: str) -> float:
    oracle = problem.oracle(batch_size, 0, True, range(problem.agents), strategy)
    points, out = points.clone(), torch.empty_like(points)
    times = []
    for k in range(ROUNDS + 1):
        begin = time.perf_counter()
        oracle(points, k, out)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


class _Memory:
    """One small file per machine, problem, shape and version of torch."""

    def __init__(self, problem: Problem, points: torch.Tensor, batch_size: int | None) -> None:
        shape = [tuple(points.shape), str(points.dtype), points.device.type, batch_size, torch.get_num_threads()]
        module = problem.model(points[0])
        what = [problem.name, type(problem).__qualname__, str(module), shape, torch.__version__]
        self._path: Path = cache_folder() / f"gradients-{hashlib.sha256(str(what).encode()).hexdigest()[:20]}.json"

    def recall(self) -> str:
        try:
            return str(json.loads(self._path.read_text())["strategy"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def remember(self, strategy: str) -> None:
        part = self._path.with_suffix(".part")
        part.write_text(json.dumps({"strategy": strategy}))
        part.replace(self._path)
