"""Which way a run computes its gradients: all agents at once, or one by one."""

from __future__ import annotations

import time

import torch

from peerdescent.errors import InputError
from peerdescent.problems import Problem
from peerdescent.training.devices import synchronize
from peerdescent.training.settings import Settings

ROUNDS = 3


def choose_strategy(problem: Problem, points: torch.Tensor, settings: Settings) -> tuple[str, str]:
    """The strategy and a few words on why.

    `auto` follows the problem's own rule, which depends on the experiment alone: both strategies give the same to
    rounding only, and no clock may decide which rounding a seed gets. `measure` times both, and is recorded.
    """
    if settings.gradients == "auto":
        return problem.preferred_strategy()
    if settings.gradients != "measure":
        return settings.gradients, "as asked"
    if len(problem.strategies) == 1:
        return problem.strategies[0], "the only way"
    times: dict[str, float] = {}
    failure: Exception | None = None
    for strategy in problem.strategies:
        try:
            times[strategy] = _measure(problem, points, settings.samples, strategy)
        except (RuntimeError, InputError) as error:  # not every module can be stacked by vmap
            failure = error
    reason = str(failure).splitlines()[0] if failure else ""
    if not times:
        if isinstance(failure, InputError):
            raise failure
        raise InputError(f"the gradient of {problem.name} cannot be computed: {reason}") from failure
    best = min(times, key=lambda strategy: times[strategy])
    if len(times) < len(problem.strategies):
        return best, f"the other way is impossible: {reason}"
    return best, f"measured {max(times.values()) / times[best]:.1f}× faster"


def _measure(problem: Problem, points: torch.Tensor, batch_size: int | None, strategy: str) -> float:
    oracle = problem.oracle(batch_size, 0, True, range(problem.agents), strategy)
    points, out = points.clone(), torch.empty_like(points)
    times = []
    for k in range(ROUNDS + 1):
        begin = time.perf_counter()
        oracle(points, k, out)
        synchronize(points.device)
        times.append(time.perf_counter() - begin)
    return min(times[-ROUNDS:])
