"""Noise that is added to every gradient, from a named distribution: a pure function of (seed, agent, iteration)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.validation import described
from peerdescent.data import stream
from peerdescent.errors import InputError
from peerdescent.problems import Oracle

MOST_AT_ONCE = 4096
"""Numbers of an agent that are drawn together: many iterations of a short x, one iteration of a long one."""
LARGEST = 1e30
USAGE = "expected gaussian, student-t:NU, exponential or pareto:A, with :SCALE at the end for a scale other than 1"


@dataclass(frozen=True)
class GradientNoise:
    """A distribution with mean zero, times a scale.

    `gaussian` has variance 1 and is symmetric; `student-t:ν` is symmetric, with infinite variance for ν ≤ 2;
    `exponential` is e − 1, skewed with light tails; `pareto:a` is P(X > t) = t^−a for t > 1, centred: skewed, with
    infinite variance for a ≤ 2. ν and a are above 1, so that there is a mean.

    >>> GradientNoise.parse("student-t:1.5:0.01")
    GradientNoise(kind='student-t', shape=1.5, scale=0.01)
    """

    kind: str
    shape: float | None = None
    scale: float = 1.0

    @classmethod
    def parse(cls, text: str) -> GradientNoise:
        """The noise that a text names."""
        kind, *numbers = text.split(":")
        shaped = kind in ("student-t", "pareto")
        if kind not in DRAWS or not shaped <= len(numbers) <= 1 + shaped:
            raise InputError(f"gradient_noise = {described(text)}: {USAGE}.")
        try:
            values = [float(number) for number in numbers]
        except ValueError:
            values = [math.nan]
        if not all(0 < value <= LARGEST for value in values) or (shaped and values[0] <= 1):
            raise InputError(
                f"gradient_noise = {described(text)}: {USAGE}; NU and A are above 1, so that there is a mean, and "
                "SCALE is positive."
            )
        scale = values[-1] if len(values) > shaped else 1.0
        return cls(kind, values[0] if shaped else None, scale)

    def draw(self, random: np.random.Generator, shape: tuple[int, int]) -> NDArray[np.float64]:
        """Independent numbers of this distribution."""
        return self.scale * DRAWS[self.kind](random, shape, self.shape or 0.0)


def _pareto(random: np.random.Generator, shape: tuple[int, int], a: float) -> NDArray[np.float64]:
    return random.pareto(a, shape) - 1 / (a - 1)  # NumPy's begins at 0, with mean 1/(a − 1)


DRAWS: dict[str, Callable[[np.random.Generator, tuple[int, int], float], NDArray[np.float64]]] = {
    "gaussian": lambda random, shape, _: random.standard_normal(shape),
    "student-t": lambda random, shape, nu: random.standard_t(nu, shape),
    "exponential": lambda random, shape, _: random.standard_exponential(shape) - 1,
    "pareto": _pareto,
}


def noisy(oracle: Oracle, text: str | None, seed: int, agents: Sequence[int]) -> Oracle:
    """The gradients of an oracle plus noise, also where they are exact.

    Args:
        oracle: the gradients.
        text: the noise; None adds nothing.
        seed: the seed of the run.
        agents: the numbers of the agents in their random streams.
    """
    if text is None:
        return oracle
    noise, drawn = GradientNoise.parse(text), _Drawn()

    def gradient(points: torch.Tensor, k: int, out: torch.Tensor) -> None:
        oracle(points, k, out)
        together = max(1, MOST_AT_ONCE // out.shape[1])
        block, place = divmod(k, together)
        if drawn.block != block:
            shape = (together, out.shape[1])
            rows = [noise.draw(stream(seed, "gradient noise", agent, block), shape) for agent in agents]
            drawn.block, drawn.numbers = block, torch.from_numpy(np.stack(rows, axis=1)).to(out)
        out.add_(drawn.numbers[place])

    return gradient


@dataclass
class _Drawn:
    """The noise of some iterations, iteration × agent × entry."""

    block: int = -1
    numbers: torch.Tensor = field(default_factory=lambda: torch.empty(0))
