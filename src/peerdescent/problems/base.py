"""What is minimised: f(x) = (1/n) Σ f_i(x), where agent i alone can ask for gradients of f_i."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import nn

from peerdescent.errors import InputError

STRATEGIES = ("stacked", "loop")


class Oracle(Protocol):
    """Stochastic gradients for the agents hosted here, a pure function of the points and of (seed, agent, k)."""

    def __call__(self, points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        """Write into row i of `out` agent i's gradient at row i of `points`, in iteration k."""
        ...


class Problem(ABC):
    """A cost shared by n agents."""

    name: str = "problem"
    agents: int
    dimension: int
    dtype: torch.dtype = torch.float32
    device: torch.device = torch.device("cpu")
    strategies: tuple[str, ...] = ("stacked",)
    """The ways in which its gradients can be computed; all give the same to rounding."""
    numbers: tuple[int, ...] | None = None
    """By which the agents draw at random, where they are some of a larger problem's; None for 0, …, n−1."""

    def number(self, agent: int) -> int:
        """What an agent's randomness goes by: its number in the whole problem."""
        return agent if self.numbers is None else self.numbers[agent]

    def subset(self, agents: Sequence[int]) -> Problem:
        """The problem of some of the agents, with their own data and their own randomness, numbered anew."""
        raise InputError(
            f"the problem {self.name} cannot go on without some of its agents: it does not define `subset`; "
            "choose --on-loss stop or restart."
        )

    @abstractmethod
    def start(self, seed: int) -> torch.Tensor:
        """The agents' starting points, n×p."""

    @abstractmethod
    def oracle(
        self, batch_size: int | None, seed: int, replacement: bool, agents: range, strategy: str = "stacked"
    ) -> Oracle:
        """Gradients for a block of agents; batch_size None means exact gradients."""

    @abstractmethod
    def loss(self, x: torch.Tensor) -> float:
        """f(x) at one point."""

    @abstractmethod
    def gradient(self, x: torch.Tensor) -> torch.Tensor:
        """∇f(x) at one point."""

    def accuracy(self, x: torch.Tensor) -> float | None:
        """The share of right answers on test data, where that makes sense."""
        return None

    def optimum(self) -> torch.Tensor | None:
        """The minimiser, where it is known."""
        return None

    def model(self, x: torch.Tensor) -> nn.Module | None:
        """The module that has x as its parameters, where there is one."""
        return None

    @abstractmethod
    def to(self, device: torch.device, dtype: torch.dtype) -> Problem:
        """The same problem with its numbers on that device and in that precision."""
