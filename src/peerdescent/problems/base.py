"""A problem: minimise f(x) = (1/n) Σ f_i(x), where only agent i computes gradients of f_i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn

from peerdescent.errors import InputError
from peerdescent.problems.scores import Metrics, Scores, own_scores


class Oracle(Protocol):
    """Stochastic gradients for the agents hosted here, a pure function of the points and of (seed, agent, k).

    If calls also change buffers of a model, the oracle has them as its attribute `buffers`, and the gradients are a
    function of them too.
    """

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        """Write the gradient of agent i at row i of `points` in iteration k into row i of `out`."""
        ...


Buffers = dict[str, torch.Tensor]
"""What a forward pass changes besides computing, by name: running statistics, moving averages, counters."""


def buffers_of(oracle: Oracle) -> Buffers:
    """Return the buffers that calls of an oracle change, one row per agent hosted here; most have none."""
    buffers: Buffers = getattr(oracle, "buffers", {})
    return buffers


class Problem(ABC):
    """The sum of the costs of n agents."""

    name: str = "problem"
    agents: int
    dimension: int
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")
    strategies: tuple[str, ...] = ("stacked",)
    """How gradients can be computed; all strategies give the same result up to rounding."""
    batch_size: int | None = None
    """The batch size that comes with the data, for runs that are given none."""
    numbers: tuple[int, ...] | None = None
    """The numbers of the agents in a larger problem, for their random streams; None for 0, …, n−1."""

    def number(self, agent: int) -> int:
        """Return the number of an agent in its random stream: its number in the full problem."""
        return agent if self.numbers is None else self.numbers[agent]

    def subset(self, agents: Sequence[int]) -> Problem:
        """Return the problem of some of the agents, renumbered, with the same data and random streams."""
        raise InputError(
            f"the problem {self.name} cannot continue without some of its agents because it does not define `subset`; "
            "choose --on-loss stop or restart."
        )

    def preferred_strategy(self) -> tuple[str, str]:
        """Return the strategy for `gradients="auto"` and the reason: a pure function of the problem, no timing."""
        if len(self.strategies) == 1:
            return self.strategies[0], "the only way"
        return self.strategies[0], "the first strategy of the problem"

    def compiles(self, batch_size: int | None) -> bool:
        """Return whether the gradients of a long run should be compiled: a pure function of problem and batch size."""
        return False

    @abstractmethod
    def start(self, seed: int) -> torch.Tensor:
        """Return the starting points of the agents, n×p."""

    @abstractmethod
    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Return the gradients of a block of agents; batch_size None means exact gradients."""

    def check_request(self, batch_size: int | None, strategy: str) -> None:
        """Refuse a strategy that the problem does not have, and minibatches of nothing."""
        if strategy not in self.strategies:
            raise InputError(f"gradients = {strategy!r}: {self.name} supports {', '.join(self.strategies)}.")
        if batch_size is not None and batch_size < 1:
            raise InputError(f"batch_size = {batch_size}: expected at least 1.")

    @abstractmethod
    def loss(self, x: torch.Tensor) -> float:
        """Return f(x)."""

    @abstractmethod
    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """Return ∇f(x)."""

    def accuracy(self, x: torch.Tensor) -> float | None:
        """Return the fraction of correct answers on test data, or None without test data or classes."""
        return None

    def scores(self, x: torch.Tensor, metrics: Metrics) -> Scores:
        """Return what is known of x besides f(x), by column: accuracy, and metrics of the user's own as functions of x.

        A problem with test data adds the loss on it, `test_loss`.
        """
        return {"accuracy": self.accuracy(x), **own_scores(metrics, x)}

    def for_agents(self, most: int) -> Problem:
        """Return the problem whose loss judges single agents, f on at most so many samples; here f itself."""
        return self

    def optimum(self) -> torch.Tensor | None:
        """Return the minimiser, or None if it is unknown."""
        return None

    def model(self, x: torch.Tensor) -> nn.Module | None:
        """Return the module with parameters x, or None without a module."""
        return None

    def initial_buffers(self, seed: int) -> Buffers:
        """Return the buffers with which the agents start, one row per agent; most problems have none."""
        return {}

    def with_buffers(self, buffers: Buffers) -> Problem:
        """Return a view of the problem in which `loss`, `accuracy`, `gradient` and `model` use these buffers."""
        if buffers:
            raise InputError(f"the problem {self.name} has no buffers; there are {', '.join(buffers)}.")
        return self

    def recalibrated(self, x: torch.Tensor, seed: int) -> Problem:
        """Return a view of the problem whose running statistics are those of the model with parameters x."""
        raise InputError(f"running_statistics = 'recalibrate': {self.name} has no layers with running statistics.")

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> Problem:
        """Return the problem on that device and in that precision."""
