"""The eager reference: a method's step, evaluated as it is written."""

from __future__ import annotations

from types import SimpleNamespace

import torch

from peerdescent._util.validation import described
from peerdescent.algorithms import Algorithm, Step
from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import Exchange
from peerdescent.errors import InputError
from peerdescent.mixing.network import BlockNetwork, MemoryNetwork
from peerdescent.tracing.recording import gradients_wanted, vectors_sent
from peerdescent.tracing.step import continue_step, finish_step, start_step


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
        self._gradients = gradients_wanted(algorithm, network.local)
        self._step: Step

    def gradients_at(self, k: int) -> int:
        """How many gradients the step wants."""
        return self._gradients

    def begin(self, k: int) -> torch.Tensor:
        """Run the step up to its first `yield`."""
        self.network.begin(k)
        self._numbers = SimpleNamespace(**self.algorithm.hyperparameters(k))
        self._step, point = start_step(
            self.algorithm, SimpleNamespace(**self.state), self.network, self._numbers, self.network.local
        )
        return self._checked_point(point)

    def again(self, k: int) -> torch.Tensor:
        """Pass the gradient to the step, and run it up to its next `yield`."""
        gradient = self.algorithm.preprocess_gradient(self.gradient.clone(), self.network)
        return self._checked_point(continue_step(self.algorithm, self._step, gradient))

    def finish(self, k: int) -> None:
        """Pass the gradient to the step and take the new state."""
        gradient = self.algorithm.preprocess_gradient(self.gradient, self.network)
        new = finish_step(self.algorithm, self._step, gradient)
        for name, value in new.items():
            self._check(name, value)
        for name, value in {name: value.clone() for name, value in new.items()}.items():
            self.state[name].copy_(value)

    def _checked_point(self, point: object) -> torch.Tensor:
        self._check("the point", point)
        assert isinstance(point, torch.Tensor)
        return point

    def _check(self, name: str, value: object) -> None:
        shape = self.state["x"].shape
        if not isinstance(value, torch.Tensor) or value.shape != shape:
            raise InputError(
                f"the step of {type(self.algorithm).__name__} gives {described(value)} for {name}: expected one row "
                f"per agent, {tuple(shape)}."
            )

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """The current step uses the new numbers."""
        self.algorithm = algorithm
        self._numbers.__dict__.update(algorithm.hyperparameters(k))

    def wait(self) -> None:
        """No messages are ever in flight."""

    def exchanges(self) -> dict[int, Exchange]:
        """The exchanges with neighbours, by the number of the message."""
        network = self.network
        if not isinstance(network, BlockNetwork) or network.local:
            return {}
        return dict(enumerate(network.prepare(self.state["x"], vectors_sent(self.algorithm))))
