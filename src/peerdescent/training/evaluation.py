"""What is measured at the evaluation points, as a table."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch

from peerdescent.algorithms.state import State
from peerdescent.problems import Problem
from peerdescent.problems.scores import Metrics
from peerdescent.runs.metrics import Row
from peerdescent.training.added_updates import EMA
from peerdescent.training.devices import in_double

AGENT_SAMPLES = 2_500
"""Training samples on which every agent is evaluated, however many agents there are."""


def consensus_error(x: torch.Tensor) -> float:
    """(1/n) Σ ‖x_i − x̄‖².

    >>> consensus_error(torch.tensor([[0.0], [2.0]]))
    1.0
    """
    x = in_double(x)
    return float((x - x.mean(dim=0)).square().sum() / len(x))


def evaluate(problem_at: Callable[[torch.Tensor], Problem], state: State, metrics: Metrics) -> Row:
    """What is measured at x̄, the disagreement, and, if there are moving averages, what is measured at their mean.

    Args:
        problem_at: the problem as the model with these parameters sees it: running statistics may depend on them.
        state: of all agents.
        metrics: the user's own.
    """
    mean = state["x"].mean(dim=0)
    problem = problem_at(mean)
    average = state[EMA].mean(dim=0) if EMA in state else None
    measured = {} if average is None else evaluate_point(problem_at(average), average, metrics)
    return {
        **evaluate_point(problem, mean, metrics),
        "consensus_error": consensus_error(state["x"]),
        "gradient_norm": float(in_double(problem.gradient(mean)).norm()),
        **{f"ema_{name}": value for name, value in measured.items()},
    }


def columns(problem: Problem, metrics: Metrics, averaged: bool) -> list[str]:
    """The columns of what is measured at x̄ and, if there is one, at the moving average."""
    scores = ["loss", *(["accuracy", "test_loss"] if has_test_data(problem) else []), *metrics]
    return [*scores, "consensus_error", "gradient_norm", *(f"ema_{name}" for name in scores if averaged)]


def has_test_data(problem: Problem) -> bool:
    """Whether there is a test loss."""
    return getattr(problem, "test", None) is not None


def evaluate_point(problem: Problem, point: torch.Tensor, metrics: Metrics) -> Row:
    """Loss, accuracy, test loss if there are test data, and the user's metrics, at one point.

    Where the loss is not finite, all others are None: NaN would count as a class.
    """
    loss = problem.loss(point)
    if math.isfinite(loss):
        return {"loss": loss, **problem.scores(point, metrics)}
    tested = ["test_loss"] if has_test_data(problem) else []
    return {"loss": loss, **dict.fromkeys(["accuracy", *tested, *metrics])}


def evaluate_agents(problem: Problem, points: torch.Tensor, metrics: Metrics) -> dict[str, list[float | None]]:
    """The same for every agent whose point is given, as columns agent_loss, agent_accuracy, …

    agent_loss[i] is f(x_i) on the same samples for all agents: all training samples, or AGENT_SAMPLES of them, equally
    many from each agent's shard. So n agents take time linear in n. Test data are always used whole.
    """
    judged = problem.for_agents(AGENT_SAMPLES)
    found = [evaluate_point(judged, point, metrics) for point in points]
    return {f"agent_{name}": [row[name] for row in found] for name in found[0]}
