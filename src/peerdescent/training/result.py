"""What a run leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import nn

from peerdescent._util.validation import check_integer
from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem
from peerdescent.problems.base import Buffers
from peerdescent.runs.metrics import Metrics, Row
from peerdescent.training.buffers import at_mean, of_agent
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
    buffers: Buffers = field(default_factory=dict)
    """What the model's forward pass changes, such as running statistics, by name: one row per agent, as in `x`."""

    @property
    def x_mean(self) -> torch.Tensor:
        """x̄, the average of the agents' points."""
        return self.x.mean(dim=0)

    def model(self, agent: int | None = None) -> nn.Module:
        """The averaged model, as a module, or the model of one agent.

        Running statistics and other buffers of the averaged model are the mean of the agents' (of whole numbers the
        largest); with running_statistics="recalibrate", the statistics are those of the averaged model itself.

        Args:
            agent: its number in the graph with which the run began.
        """
        if agent is None:
            module = at_mean(self.problem, self.x_mean, self.buffers, self.settings).model(self.x_mean)
        else:
            row = self._row(agent)
            module = of_agent(self.problem, self.buffers, row).model(self.x[row])
        if module is None:
            raise InputError(f"the problem {self.problem.name} has no model: use result.x_mean.")
        return module

    def _row(self, agent: int) -> int:
        """Where an agent is in `x`."""
        if len(self.x) != self.graph.n:
            raise InputError("this process has the points of its own agents only: use the result of the first process.")
        agents = self.graph.n + len(self.lost)
        if check_integer("agent", agent, 0, agents) in self.lost:
            raise InputError(f"agent = {agent}: it was lost, as were {len(self.lost)} in all; its model is not known.")
        return [number for number in range(agents) if number not in self.lost].index(agent)

    def summary(self) -> Row:
        """The last evaluation, without the agents' own numbers."""
        last = self.metrics[-1] if len(self.metrics) else {}
        return {key: value for key, value in last.items() if not key.startswith("agent_")}
