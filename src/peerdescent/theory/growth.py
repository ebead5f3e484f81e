"""By what factor a recursion grows per round, measured on a sample of rounds, with a confidence interval."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peerdescent.theory.agents import AgentsStep, Exchange, disagreement_matrix
from peerdescent.theory.recursion import Numbers

ROUNDS = 1000
"""The sample of a random sequence."""
BATCHES = 20
BURN_IN = 0.05
"""The part of the sample that is left out at the beginning, until the fastest direction dominates."""
QUANTILE = 2.093
"""Of Student's distribution with 19 degrees of freedom: 95 % of it are within."""
GONE = 1e-250
"""Disagreement of this size is called zero."""
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Growth:
    """A growth factor per iteration, with a confidence interval of 95 %."""

    factor: float
    low: float
    high: float
    rounds: int
    """The rounds that it was estimated from."""

    def __str__(self) -> str:
        return (
            f"{self.factor:.5g} per iteration, estimated from {self.rounds:,} rounds "
            f"(95 %: {self.low:.5g} to {self.high:.5g})"
        )


def growth(
    step: AgentsStep, matrices: Sequence[Exchange], n: int, communication_period: int = 1, only_x: bool = False
) -> Growth:
    """The factor by which disagreement grows per iteration: the exponential of the largest Lyapunov exponent.

    A random disagreement follows the sample of rounds and is rescaled after each; the mean logarithm of the factors
    is the exponent. The interval comes from the means of twenty batches of consecutive rounds, so that the rounds
    need not be independent.

    Args:
        step: the step of all agents.
        matrices: the sample, in order.
        n: the number of agents.
        communication_period: iterations per round, the last of which exchanges messages.
        only_x: measure the disagreement of x alone, whatever the memory does.
    """
    moving = step.equation.deciding(step.delay)
    state = np.zeros((step.equation.arrays(step.delay), n, 1))
    state[moving] = np.random.default_rng(0).standard_normal((len(moving), n, 1))
    measured = slice(0, 1) if only_x else slice(None)
    logs = np.empty(len(matrices))
    for number, exchange in enumerate(matrices):
        state = state - state.mean(axis=1, keepdims=True)
        before = float(np.linalg.norm(state[measured]))
        state = state / before
        state = step.run(state, [exchange], communication_period)
        size = float(np.linalg.norm((state - state.mean(axis=1, keepdims=True))[measured]))
        if not size > GONE * max(1.0, before):
            return Growth(0.0, 0.0, 0.0, number + 1)
        if not math.isfinite(size):
            return Growth(math.inf, math.inf, math.inf, number + 1)
        logs[number] = math.log(size)
    return _estimate(logs, communication_period)


def _estimate(logs: Numbers, communication_period: int) -> Growth:
    kept = logs[int(BURN_IN * len(logs)) :]
    means = np.array([batch.mean() for batch in np.array_split(kept, BATCHES)]) / communication_period
    middle, spread = float(means.mean()), QUANTILE * float(means.std(ddof=1)) / math.sqrt(BATCHES)
    factor, low, high = (_exp(middle + side * spread) for side in (0, -1, 1))
    return Growth(factor, low, high, len(logs))


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def mean_square(step: AgentsStep, matrices: Sequence[Exchange], n: int, communication_period: int = 1) -> float:
    """The root of the factor by which the expected squared disagreement grows per iteration, for independent rounds.

    It is ρ(E[A⊗A])^½, where A is the step of one round and the expectation the mean over the sample: the limit of
    P ← E[A P Aᵀ]. Never below the factor of `growth`: rare bursts count.
    """
    steps = np.stack([disagreement_matrix(step, [exchange], n, communication_period) for exchange in matrices])
    turned = steps.transpose(0, 2, 1)
    P, last = np.eye(steps.shape[1]) / steps.shape[1], 0.0
    for _ in range(200):
        P = (steps @ P @ turned).mean(axis=0)
        size = float(np.trace(P))
        if not (math.isfinite(size) and size > 0):
            return size
        P = P / size
        if abs(size - last) <= TOLERANCE * size:
            break
        last = size
    return float(size ** (1 / (2 * communication_period)))
