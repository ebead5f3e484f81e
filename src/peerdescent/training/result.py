"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem
from peerdescent.runs.metrics import Metrics, Row
from peerdescent.training.settings import Settings


@dataclass
class Result:
    """What a run leaves behind.

    `x` is the n×p matrix of the agents' final points, `metrics` the table of evaluations.
    """

    x: torch.Tensor
    metrics: Metrics
    problem: Problem
    graph: Graph
    algorithm: Algorithm
    settings: Settings
    kernel: str
    gradients: str
    notes: list[str] = field(default_factory=list)
    """What a reader should know: repairs, broken invariants."""
    diverged: bool = False
    processes: int = 1
    """How many processes shared the agents; in all but the first, `x` holds their own agents only."""
    interprocess_bytes: int = 0
    """What the processes have sent to each other; agents of one process need no wire."""
    lost: tuple[int, ...] = ()
    """The agents that were lost on the way; `x`, `graph` and `problem` are those of the others."""
    stopped_early: bool = False
    """Whether it ended before its iterations, because what it monitors no longer improved."""
    x_ema: torch.Tensor | None = None
    """The moving average of x̄, if `ema` asked for it; `problem.model(x_ema)` is its module."""
    weights: MixingWeights | None = None
    """L, W and their spectrum, as they were at the end."""

    @property
    def x_mean(self) -> torch.Tensor:
        """x̄, the average of the agents' points."""
        return self.x.mean(dim=0)

    def model(self) -> nn.Module:
        """The averaged model, as a module."""
        module = self.problem.model(self.x_mean)
        if module is None:
            raise InputError(f"the problem {self.problem.name} has no model: use result.x_mean.")
        return module

    def summary(self) -> Row:
        """The last evaluation, without the agents' own numbers."""
        last = self.metrics[-1] if len(self.metrics) else {}
        return {key: value for key, value in last.items() if not key.startswith("agent_")}
