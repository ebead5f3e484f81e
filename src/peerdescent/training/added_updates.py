"""What is added to a method's own update: decoupled weight decay, global averages, and a moving average of x."""

from __future__ import annotations

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.distributed.exchange import Exchange
from peerdescent.errors import InputError
from peerdescent.kernels.update import Update
from peerdescent.mixing.global_average import GlobalAverage
from peerdescent.training.settings import Settings

EMA = "x_ema"
"""The name of the moving average in the state and in checkpoints."""


def check_additions(algorithm: Algorithm, settings: Settings) -> None:
    """Refuse what a method cannot be combined with."""
    name = type(algorithm).__name__
    if settings.ema is not None and EMA in algorithm.memory():
        raise InputError(f"the memory of {name} has the name {EMA}, which ema needs for itself: rename it.")
    if settings.decay == "decoupled":
        gradient_rate(algorithm)


def gradient_rate(algorithm: Algorithm) -> str:
    """The name of the rate that multiplies the gradient: eta, or the first one.

    >>> from peerdescent.algorithms import make
    >>> gradient_rate(make("dsgpa-f")), gradient_rate(make("d-sgd-2"))
    ('eta', 'alpha')
    """
    if not algorithm.rates:
        raise InputError(f"decay = 'decoupled': {type(algorithm).__name__} has no step size; use coupled decay.")
    return "eta" if "eta" in algorithm.rates else algorithm.rates[0]


def with_additions(
    update: Update, settings: Settings, average: torch.Tensor | None, global_average: GlobalAverage
) -> Update:
    """The update with what settings add to it; `average` is the moving average so far, None at the start."""
    if settings.weight_decay and settings.decay == "decoupled":
        update = DecayedUpdate(update, settings.weight_decay)
    if settings.average_every is not None:
        update = MergedUpdate(update, settings.average_every, global_average)
    if settings.ema is not None:
        update = AveragedUpdate(update, settings.ema, average)
    return update


class AddedUpdate:
    """An update that does what another one does; subclasses add to it."""

    def __init__(self, update: Update) -> None:
        self._update = update
        self.state, self.gradient, self.description = update.state, update.gradient, update.description
        self.algorithm = update.algorithm

    def gradients_at(self, k: int) -> int:
        """How many gradients iteration k wants."""
        return self._update.gradients_at(k)

    def begin(self, k: int) -> torch.Tensor:
        """Start iteration k."""
        return self._update.begin(k)

    def again(self, k: int) -> torch.Tensor:
        """Go on to the next gradient of iteration k."""
        return self._update.again(k)

    def finish(self, k: int) -> None:
        """End iteration k."""
        self._update.finish(k)

    def set_hyperparameters(self, algorithm: Algorithm, k: int) -> None:
        """Set the hyperparameters for the rest of the iteration."""
        self.algorithm = algorithm
        self._update.set_hyperparameters(algorithm, k)

    def wait(self) -> None:
        """Await the messages in flight."""
        self._update.wait()

    def exchanges(self) -> dict[int, Exchange]:
        """The exchanges with neighbours, by the number of the message."""
        return self._update.exchanges()


class DecayedUpdate(AddedUpdate):
    """Decoupled weight decay: x^{k+1} = step(x^k, g^k) − η_k λ x^k for any method, with its own step size η_k.

    Neither a transform of the gradient nor momentum, tracking or dual variables see the decay.
    """

    def __init__(self, update: Update, weight_decay: float) -> None:
        super().__init__(update)
        self._weight_decay, self._rate = weight_decay, gradient_rate(update.algorithm)
        self._before = torch.empty_like(update.state["x"])

    def finish(self, k: int) -> None:
        """End iteration k, and subtract η_k λ x^k."""
        x = self.state["x"]
        self._before.copy_(x)
        super().finish(k)
        x.sub_(self._before, alpha=self.algorithm.hyperparameters(k)[self._rate] * self._weight_decay)


class MergedUpdate(AddedUpdate):
    """A global average after every P-th iteration: x_i ← x̄ for all agents i (Gossip-PGA, Chen et al. 2021)."""

    def __init__(self, update: Update, average_every: int, global_average: GlobalAverage) -> None:
        super().__init__(update)
        self._every, self._average = average_every, global_average

    def finish(self, k: int) -> None:
        """End iteration k, and merge if it is the P-th, the 2P-th, …"""
        super().finish(k)
        if (k + 1) % self._every == 0:
            for name, rows in self._average.of(self.state).items():
                self.state[name].copy_(rows)


class AveragedUpdate(AddedUpdate):
    """An exponential moving average: m^{k+1} = d m^k + (1−d) x^{k+1}, m^0 = x^0, for every agent by itself.

    The mean of the agents' averages is the average of their means, so no messages are needed.
    """

    def __init__(self, update: Update, decay: float, average: torch.Tensor | None) -> None:
        super().__init__(update)
        self._weight = 1 - decay
        x = update.state["x"]
        self.state: State = {**update.state, EMA: x.clone() if average is None else average.clone()}

    def finish(self, k: int) -> None:
        """End iteration k, and move the average towards x."""
        super().finish(k)
        self.state[EMA].lerp_(self.state["x"], self._weight)
