"""What is measured at the evaluation points, as a table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.problems import Problem
from peerdescent.runs.metrics import Row
from peerdescent.training.devices import in_double

TOLERANCE = {torch.float64: 1e-9}
SINGLE_TOLERANCE = 1e-3
"""How far an invariant may drift by rounding, relative to the largest entry of the state."""


def consensus_error(x: torch.Tensor) -> float:
    """(1/n) Σ ‖x_i − x̄‖².

    >>> consensus_error(torch.tensor([[0.0], [2.0]]))
    1.0
    """
    x = in_double(x)
    return float((x - x.mean(dim=0)).square().sum() / len(x))


def evaluate(problem: Problem, x: torch.Tensor) -> Row:
    """Loss, accuracy, disagreement and gradient at x̄."""
    mean = x.mean(dim=0)
    loss = problem.loss(mean)
    return {
        "loss": loss,
        "accuracy": problem.accuracy(mean) if math.isfinite(loss) else None,  # NaN would count as a class
        "consensus_error": consensus_error(x),
        "gradient_norm": float(in_double(problem.gradient(mean)).norm()),
    }


def evaluate_agents(problem: Problem, points: torch.Tensor) -> dict[str, list[float | None]]:
    """Loss and accuracy of every agent whose point is given."""
    return {
        "agent_loss": [problem.loss(point) for point in points],
        "agent_accuracy": [problem.accuracy(point) for point in points],
    }


def violations(algorithm: Algorithm, state: State) -> dict[str, float]:
    """The method's invariants that its state violates, with how far, relative to the largest entry."""
    peaks = [float(array.abs().max()) for array in state.values()]
    largest = max(peaks)
    if not all(map(math.isfinite, peaks)) or largest == 0:
        return {}
    tolerance = TOLERANCE.get(state["x"].dtype, SINGLE_TOLERANCE)
    invariants: Mapping[str, torch.Tensor] = algorithm.invariants(SimpleNamespace(**state))
    drift = {name: float(array.mean(dim=0).abs().max()) / largest for name, array in invariants.items()}
    return {name: size for name, size in drift.items() if size > tolerance}
