"""Which way a run computes its gradients: all agents at once, or one by one."""

from __future__ import annotations

import time

import torch

from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.problems import Oracle, Problem
from peerdescent.training.devices import synchronize
from peerdescent.training.settings import Settings

ROUNDS = 3
COMPILED_FROM = 50_000
"""Iterations from which compiling pays: it takes 5 to 30 seconds and saves a millisecond or less in each."""


def choose_strategy(problem: Problem, points: torch.Tensor, settings: Settings) -> tuple[str, str]:
    """The strategy and a few words on why.

    `auto` follows the problem's own rule, which depends on the experiment alone: both strategies give the same to
    rounding only, and no clock may decide which rounding a seed gets. `measure` times both, and is recorded.
    Long runs of a module are compiled; a run that goes on keeps its strategy, however long it becomes.
    """
    if settings.gradients == "auto":
        if settings.iterations >= COMPILED_FROM and problem.compiles(settings.samples):
            return "compiled", "the run is long"
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


def make_oracle(
    problem: Problem, settings: Settings, agents: range, chosen: tuple[str, str], group: ProcessGroup
) -> tuple[Oracle, str, str]:
    """The gradients of the agents of this process, the strategy, and a few words on why.

    If one process cannot compile them, all do without, unless the user has asked for it.

    Raises:
        InputError: they cannot be computed this way, here or in another process.
    """
    strategy, reason = chosen
    request = settings.samples, settings.seed, settings.replacement, agents
    failure: InputError | None = None
    try:
        oracle = problem.oracle(*request, strategy)
    except InputError as error:
        failure = error
    if strategy == "compiled":  # one machine may have a compiler and another one none
        reasons = group.broadcast_object(group.gather_object(failure and str(failure)))
        first = next((rank for rank, reason in enumerate(reasons) if reason), None)
        if first is not None and failure is None:
            failure = InputError(f"process {first}: {reasons[first]}")
    if failure is not None and strategy == "compiled" and settings.gradients == "auto":
        strategy, reason = problem.preferred_strategy()
        return problem.oracle(*request, strategy), strategy, f"{reason}; {str(failure).partition(';')[0]}"
    if failure is not None:
        raise failure
    return oracle, strategy, reason


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
