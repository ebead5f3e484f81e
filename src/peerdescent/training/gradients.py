"""Stacked or agent by agent: which way of computing gradients is faster here, found by a quick measurement.

The answer is remembered per machine and per kind of problem, so that two runs with the same seed take the
same way and stay bitwise equal.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import torch

from peerdescent._util.cache import cache_folder
from peerdescent.errors import InputError
from peerdescent.problems import Problem
from peerdescent.problems.base import STRATEGIES

ROUNDS = 3


def choose_strategy(problem: Problem, points: torch.Tensor, batch_size: int | None) -> tuple[str, str]:
    """The faster strategy and a few words on why."""
    if len(problem.strategies) == 1:
        return problem.strategies[0], "the only way"
    memory = _Memory(problem, points, batch_size)
    times: dict[str, float] = {}
    reason = ""
    if (known := memory.recall()) in problem.strategies:
        try:
            _measure(problem, points, batch_size, known, rounds=0)
            return known, memory.why
        except RuntimeError:  # the module has changed behind its name
            pass
    for strategy in problem.strategies:
        try:
            times[strategy] = _measure(problem, points, batch_size, strategy)
        except RuntimeError as error:  # not every module can be stacked by vmap
            reason = str(error).splitlines()[0]
    if not times:
        raise InputError(f"the gradient of {problem.name} cannot be computed: {reason}")
    best = min(times, key=lambda strategy: times[strategy])
    missing = [strategy for strategy in STRATEGIES if strategy in problem.strategies and strategy not in times]
    if missing:
        why = f"{missing[0]} is impossible: {reason}"
        memory.remember(best, why)
        return best, why
    memory.remember(best, "measured before")
    other = max(times.values()) / times[best]
    return best, f"measured {other:.1f}× faster"


def _measure(
    problem: Problem, points: torch.Tensor, batch_size: int | None, strategy: str, rounds: int = ROUNDS
) -> float:
    oracle = problem.oracle(batch_size, 0, True, range(problem.agents), strategy)
    points, out = points.clone(), torch.empty_like(points)
    times = []
    for k in range(rounds + 1):
        begin = time.perf_counter()
        oracle(points, k, out)
        times.append(time.perf_counter() - begin)
    return min(times[-rounds:])


class _Memory:
    """One small file per machine, problem, shape and version of torch."""

    def __init__(self, problem: Problem, points: torch.Tensor, batch_size: int | None) -> None:
        shape = [tuple(points.shape), str(points.dtype), points.device.type, batch_size, torch.get_num_threads()]
        module = problem.model(points[0])
        what = [problem.name, type(problem).__qualname__, str(module), shape, torch.__version__]
        self.why = ""
        self._path: Path = cache_folder() / f"gradients-{hashlib.sha256(str(what).encode()).hexdigest()[:20]}.json"

    def recall(self) -> str:
        try:
            known = json.loads(self._path.read_text())
            self.why = str(known["why"])
            return str(known["strategy"])
        except (OSError, ValueError, KeyError, TypeError):
            return ""

    def remember(self, strategy: str, why: str) -> None:
        part = self._path.with_suffix(f".{os.getpid()}.part")  # others may measure the same at the same time
        part.write_text(json.dumps({"strategy": strategy, "why": why}))
        part.replace(self._path)
