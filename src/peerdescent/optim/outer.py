"""The outer step: momentum on what the agents have moved since their last exchange."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from peerdescent._util.validation import check_number, described
from peerdescent.errors import InputError


@dataclass(frozen=True)
class Outer:
    """An outer step of SGD with momentum, on the differences of H inner steps.

    With the anchor a, the parameters after the last exchange, and x, the parameters H inner steps later:

        Δ = a − x,   m⁺ = μm + Δ,   d = Δ + μm⁺ (Nesterov) or m⁺,   m₀ = 0

    and the next parameters and anchor are W(a − ηd), or Wa − ηd if the agents combine first. Since W and the sum of
    momentum commute, W(a − ηd) is a Nesterov step along the gossip average of Δ from the gossip average of a, with
    one message instead of two. On a complete graph with uniform weights W is the mean, and it is DiLoCo
    (arXiv 2311.08105). NoLoCo (arXiv 2506.10911) averages a and Δ over random pairs and adds a − Wa to the momentum
    instead of replacing a; GASLoC (arXiv 2606.11081) is W(a − ηΔ) plus a multiple of the last change of a − ηΔ.
    η = 1 and μ = 0 is Wx, gossip without an outer step.

    Args:
        lr: η.
        momentum: μ in [0, 1).
        nesterov: look ahead.

    >>> a, x, m = torch.tensor([1.0]), torch.tensor([0.5]), torch.tensor([0.0])
    >>> Outer(lr=0.5, momentum=0.5).direction(a, x, m), m
    (tensor([0.3750]), tensor([0.5000]))
    """

    lr: float = 0.7
    momentum: float = 0.9
    nesterov: bool = True

    def __post_init__(self) -> None:
        for name in ("lr", "momentum"):
            check_number(f"the {name} of an outer step", getattr(self, name))
        if self.lr <= 0:
            raise InputError(f"the lr of an outer step is {self.lr:g}: expected a positive number.")
        if not 0 <= self.momentum < 1:
            raise InputError(f"the momentum of an outer step is {self.momentum:g}: expected a number in [0, 1).")
        if not isinstance(self.nesterov, bool):
            raise InputError(f"nesterov is {described(self.nesterov)}: expected True or False.")

    def direction(self, anchor: torch.Tensor, x: torch.Tensor, momentum: torch.Tensor) -> torch.Tensor:
        """ηd; updates the momentum in place."""
        difference = anchor - x
        momentum.mul_(self.momentum).add_(difference)
        d = difference.add_(momentum, alpha=self.momentum) if self.nesterov else momentum.clone()
        return d.mul_(self.lr)
