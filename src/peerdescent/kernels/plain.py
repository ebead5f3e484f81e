"""The eager reference: a method's step, evaluated as it is written."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm, Step
from peerdescent.algorithms.state import State
from peerdescent.mixing.network import MemoryNetwork
from peerdescent.tracing.recording import finish_step


class PlainUpdate:
    """The step itself, evaluated eagerly."""

    def __init__(
        self,
        algorithm: Algorithm,
        state: State,
        network: MemoryNetwork,
        reason: str = "",
        gradient: torch.Tensor | None = None,
    ) -> None:
        self.algorithm, self.state, self.network = algorithm, state, network
        self.gradient = torch.zeros_like(state["x"]) if gradient is None else gradient
        self.description = f"plain ({reason})" if reason else "plain"
        self._step: Step

    def begin(self, k: int) -> torch.Tensor:
        """Run the step up to its `yield`."""
        self.network.begin()
        self._numbers = SimpleNamespace(**self.algorithm.hyperparameters(k))
        step = self.algorithm.local_step if self.network.local else self.algorithm.step
        self._step = step(SimpleNamespace(**self.state), self.network, self._numbers)
        point: torch.Tensor = next(self._step)
        return point

    def finish(self, k: int) -> None:
        """Pass the gradient to the step and take the new state."""
        new = finish_step(self._step, self.algorithm.preprocess_gradient(self.gradient, self.network))
        for name, value in {name: value.clone() for name, value in new.items()}.items():
            self.state[name].copy_(value)

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """The current step uses the new numbers."""
        self.algorithm = algorithm
        self._numbers.__dict__.update(algorithm.hyperparameters(k))

    def wait(self) -> None:
        """No messages are ever in flight."""
