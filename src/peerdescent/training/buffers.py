"""Buffers of the agents in a run: part of its state, but never mixed.

In states that are kept (checkpoints, snapshots) they are further arrays, whose names begin with "buffer:".
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from typing import Any

import torch

from peerdescent.algorithms.state import State
from peerdescent.problems import Problem
from peerdescent.problems.base import Buffers
from peerdescent.problems.scores import Metrics
from peerdescent.training.settings import Settings

PREFIX = "buffer:"


def is_buffer(name: str) -> bool:
    """Whether an array of a kept state is a buffer."""
    return name.startswith(PREFIX)


def joined_state(state: State, buffers: Buffers) -> State:
    """The method's arrays and the buffers as one state, to be kept.

    >>> sorted(joined_state({"x": torch.zeros(2, 1)}, {"mean": torch.zeros(2)}))
    ['buffer:mean', 'x']
    """
    return {**state, **{f"{PREFIX}{name}": rows for name, rows in buffers.items()}}


def split_state(kept: State) -> tuple[State, Buffers]:
    """The method's arrays and the buffers of a kept state."""
    state = {name: array for name, array in kept.items() if not is_buffer(name)}
    return state, {name.removeprefix(PREFIX): rows for name, rows in kept.items() if is_buffer(name)}


def averaged(buffers: Buffers) -> Buffers:
    """The mean of the agents' buffers; of whole numbers and of truth values, the largest.

    >>> averaged({"mean": torch.tensor([[0.0], [2.0]]), "count": torch.tensor([5, 7])})
    {'mean': tensor([1.]), 'count': tensor(7)}
    """
    return {
        name: rows.mean(dim=0) if rows.is_floating_point() or rows.is_complex() else rows.amax(dim=0)
        for name, rows in buffers.items()
    }


def at_mean(problem: Problem, mean: torch.Tensor, buffers: Buffers, settings: Settings) -> Problem:
    """The problem as an averaged model sees it: with averaged buffers, or with recalibrated running statistics."""
    if not buffers:
        return problem
    view = problem.with_buffers(averaged(buffers))
    return view.recalibrated(mean, settings.seed) if settings.recalibrates else view


def of_agent(problem: Problem, buffers: Buffers, row: int) -> Problem:
    """The problem as one agent's model sees it."""
    return problem.with_buffers({name: rows[row] for name, rows in buffers.items()}) if buffers else problem


def evaluate_each(
    evaluate: Callable[[Problem, torch.Tensor, Metrics], dict[str, list[Any]]],
    problem: Problem,
    x: torch.Tensor,
    buffers: Buffers,
    metrics: Metrics,
) -> dict[str, list[Any]]:
    """What `evaluate` finds for all agents, each with its own buffers."""
    if not buffers:
        return evaluate(problem, x, metrics)
    rows = [evaluate(of_agent(problem, buffers, i), x[i : i + 1], metrics) for i in range(len(x))]
    return {name: [value for row in rows for value in row[name]] for name in rows[0]}


def digest_of_arrays(arrays: Iterable[torch.Tensor]) -> str:
    """The SHA-256 of the numbers in some arrays.

    >>> digest_of_arrays([torch.zeros(1)])[:8]
    'df3f6198'
    """
    hashed = hashlib.sha256()
    for array in arrays:
        hashed.update(array.cpu().numpy().tobytes())
    return hashed.hexdigest()
