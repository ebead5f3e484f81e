"""What a run leaves behind."""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.describe import name_of
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph
from peerdescent.mixing.sequence_weights import Weights
from peerdescent.problems import Problem
from peerdescent.problems.base import Buffers
from peerdescent.runs.metrics import Metrics, Row
from peerdescent.training.buffers import at_mean, of_agent
from peerdescent.training.export import check_target, row_of_agent, tensors_of, write_tensors
from peerdescent.training.settings import Settings

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from peerdescent.clock.model import NetworkModel


@dataclass
class Result:
    """What a run leaves behind.

    `x` is the n×p matrix of the agents' final points, `metrics` the table of evaluations.
    """

    x: torch.Tensor
    metrics: Metrics
    problem: Problem
    graph: AnyGraph
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
    weights: Weights | None = None
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
        module, _ = self._module_and_point(agent)
        if module is None:
            raise InputError(f"the problem {self.problem.name} has no model: use result.x_mean.")
        return module

    def _module_and_point(self, agent: int | None) -> tuple[nn.Module | None, torch.Tensor]:
        """The averaged model or that of one agent, if the problem has one, and its parameters as a vector."""
        if agent is None:
            mean = self.x_mean
            return at_mean(self.problem, mean, self.buffers, self.settings).model(mean), mean
        if len(self.x) != self.graph.n:
            raise InputError("this process has the points of its own agents only: use the result of the first process.")
        row = row_of_agent(agent, self.graph.n, self.lost)
        return of_agent(self.problem, self.buffers, row).model(self.x[row]), self.x[row]

    def summary(self) -> Row:
        """The last evaluation, without the agents' own numbers."""
        last = self.metrics[-1] if len(self.metrics) else {}
        return {key: value for key, value in last.items() if not key.startswith("agent_")}

    def export(self, path: str | os.PathLike[str], agent: int | None = None, overwrite: bool = False) -> list[str]:
        """Write the averaged model, or that of one agent, as a safetensors file; returns the names of its tensors.

        Read it with `module.load_state_dict(safetensors.torch.load_file(path))`. A problem without a module gives one
        vector, `x`.
        """
        file = check_target(path, overwrite)
        tensors = tensors_of(*self._module_and_point(agent))
        write_tensors(tensors, file, problem=self.problem.name, agent="mean" if agent is None else str(agent))
        return list(tensors)

    @property
    def name(self) -> str:
        """What tables and figures call the method."""
        return name_of(self.algorithm)

    def clock(self, network: str | os.PathLike[str] | NetworkModel) -> Result:
        """The same result, with simulated seconds in its metrics: how long it would have taken in a network.

        Args:
            network: a model, its TOML file, or the name of one that ships with the package, such as "wan".

        >>> from peerdescent import train
        >>> timed = train("quadratic", "ring:4", "d-sgd-1", iterations=10).clock("wan")
        >>> 10 * 0.05 < timed.metrics[-1]["simulated_seconds"] < 10 * 0.1
        True
        """
        from peerdescent.clock.files import read
        from peerdescent.training.clocked import clocked, communication_of

        if self.lost:
            raise InputError("agents were lost on the way: the clock is for runs that kept all of them.")
        sent = communication_of(self.algorithm, self.graph, self.settings, self.x.shape[1])
        metrics = clocked(self.metrics, sent, read(network), self.settings.seed, self.processes > 1)
        return replace(self, metrics=metrics)

    def plot(self, title: str = "") -> Figure:
        """Risk, accuracy and consensus error against iterations, bytes sent and time, as a matplotlib figure."""
        from peerdescent.report.figures import comparison

        return comparison({self.name: self.metrics}, title)

    def _repr_html_(self) -> str:
        from peerdescent.report.notebook import facts_of, result_html

        where = f"{self.name} on {self.problem.name}, {self.graph}"
        return result_html(where, facts_of(self.summary(), self.settings.iterations), self.metrics, self.notes)
