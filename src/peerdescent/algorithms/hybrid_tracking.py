"""Gradient tracking with variance reduction: two gradients per iteration, on the same samples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class GTHSGD(Algorithm):
    r"""GT-HSGD: gradient tracking of hybrid variance-reduced stochastic gradients.

    .. math::
        v = g(x; ξ) + (1-β)(v_- - g(x_-; ξ)), \qquad v_0 = g_0

        y^+ = W(y + v - v_-), \qquad x^+ = W(x - ηy^+), \qquad y_0 = v_{-1} = 0

    Both gradients are on the samples ξ of the iteration, so that their noise cancels as x comes to rest; β = 1 is
    gradient tracking in its adapt-then-combine form (Aug-DGM, up to the first tracker). The paper starts with a larger
    batch than later, here v₀ has the batch of every iteration. Two vectors are sent per edge and iteration. Reference:
    Xin, Khan and Kar 2021.

    >>> GTHSGD().hyperparameters(0)["beta"], GTHSGD().hyperparameters(1)["beta"]
    (1.0, 0.1)
    """

    eta: Rate = 0.05
    beta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    corrects: ClassVar[bool] = True
    shares: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Heterogeneous data and noisy gradients, where a second gradient per iteration is affordable."

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < (beta := self.hyperparameters(1)["beta"]) <= 1:
            raise InputError(f"beta = {beta:g}: expected a share of the new gradient, above 0 and at most 1.")

    def memory(self) -> Mapping[str, Start]:
        """The tracker, the estimate v₋ and where it was computed."""
        return {"y": "zero", "v": "zero", "x_prev": "x"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """η and β; in the first iteration β = 1, which makes v₀ = g₀."""
        h = super().hyperparameters(k)
        return h if k else {**h, "beta": 1.0}

    def nominal(self) -> dict[str, float]:
        """The hyperparameters after the first iteration."""
        return {**super().nominal(), "beta": self.hyperparameters(1)["beta"]}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        g_prev = yield s.x_prev
        v = g + (1 - h.beta) * (s.v - g_prev)
        y = net.mix(s.y + v - s.v)
        return {"x": net.mix(s.x - h.eta * self.corrected(y)), "y": y, "v": v, "x_prev": s.x}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The mean tracker is the mean estimate, because W is doubly stochastic."""
        return {"mean tracker = mean estimate": s.y - s.v}
