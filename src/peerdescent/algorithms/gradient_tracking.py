"""Stochastic gradient tracking: each agent follows the mean gradient, which removes the bias of heterogeneous data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.schedules import Rate
from peerdescent.transforms import check_gamma, power


@dataclass(frozen=True)
class Tracking(Algorithm):
    """The common part of the tracking methods: y tracks the mean gradient."""

    bias: ClassVar[str | None] = ""
    eta: Rate = 0.01
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    corrects: ClassVar[bool] = True

    def memory(self) -> Mapping[str, Start]:
        """The tracker and the previous gradient; zeros give y₀ = g₀."""
        return {"y": "zero", "g_prev": "zero"}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The mean tracker is the mean gradient, because W is doubly stochastic."""
        return {"mean tracker = mean gradient": s.y - s.g_prev}


@dataclass(frozen=True)
class DSGT1(Tracking):
    r"""Stochastic gradient tracking, GNSD form (DIGing).

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = Wx - ηy, \qquad y_0 = g_0

    Two vectors are sent per edge and iteration. References: Lu et al. 2019; Xin et al. 2019.

    >>> DSGT1().memory()
    {'y': 'zero', 'g_prev': 'zero'}
    """

    use: ClassVar[str] = "Heterogeneous data and slow links: both vectors travel while the gradient is computed."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; both messages leave before the gradient is computed."""
        Wx, Wy = net.mix(s.x), net.mix(s.y)
        g = yield s.x
        y = Wy + g - s.g_prev
        return {"x": Wx - h.eta * self.corrected(y), "y": y, "g_prev": g}


@dataclass(frozen=True)
class DSGT2(Tracking):
    r"""Stochastic gradient tracking, DSGT form: x adapts, then combines (semi-ATC).

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = W(x - ηy), \qquad y_0 = g_0

    Two vectors are sent per edge and iteration. References: Zhang and You 2019; Pu and Nedić 2018.

    >>> DSGT2(eta=0.05).parameters()
    {'eta': 0.05}
    """

    use: ClassVar[str] = (
        "Heterogeneous data: larger stable step sizes than `d-sgt-1`; one message waits for the gradient."
    )

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; the tracker's message leaves before the gradient is computed."""
        Wy = net.mix(s.y)
        g = yield s.x
        y = Wy + g - s.g_prev
        return {"x": net.mix(s.x - h.eta * self.corrected(y)), "y": y, "g_prev": g}


@dataclass(frozen=True)
class AugDGM(Tracking):
    r"""Gradient tracking, Aug-DGM form: x and y adapt, then combine (ATC-DIGing).

    .. math:: y = W(y_- + g(x) - g_-), \qquad x^+ = W(x - ηy), \qquad y_0 = g_0

    Both vectors leave after the gradient, the second after the first has arrived. The first tracker is not mixed, and
    what the first iteration sends of it is not used. Two vectors are sent per edge and iteration. References: Xu, Zhu,
    Soh and Xie 2015; Nedić, Olshevsky, Shi and Uribe 2017.

    >>> AugDGM(eta=0.05).parameters()
    {'eta': 0.05}
    """

    eta: Rate = 0.1
    use: ClassVar[str] = (
        "As `d-sgt-2`; noise is mixed once more before it moves x, for a second message after the gradient."
    )

    def hyperparameters(self, k: int) -> dict[str, float]:
        """η, and whether this is a later iteration than the first."""
        return {**super().hyperparameters(k), "later": float(k > 0)}

    def nominal(self) -> dict[str, float]:
        """Theory is about the later iterations."""
        return {**super().nominal(), "later": 1.0}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        sent = s.y + g - s.g_prev
        y = sent - h.later * net.disagreement(sent)
        return {"x": net.mix(s.x - h.eta * self.corrected(y)), "y": y, "g_prev": g}


@dataclass(frozen=True)
class PoweredTracking(DSGT1):
    r"""Gradient tracking that moves x by a power of the tracker: the power after the correction.

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = Wx - ησ(y, γ), \qquad y_0 = g_0

    The tracker vanishes at the solution, and so does its power: with exact gradients or symmetric noise there is no
    bias on heterogeneous data. It keeps circling there, see `theory.stability`. Two vectors are sent per edge and
    iteration. Reference: Yuan, Li, Liu and Tomlin 2019 for powers of gradients; the power of a tracker is our own.

    >>> PoweredTracking(gamma=0.5).parameters()
    {'eta': 0.01, 'gamma': 0.5}
    """

    gamma: float = 0.7
    use: ClassVar[str] = "Heterogeneous data and symmetric heavy tails, where two vectors per edge are affordable."

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)

    def corrected(self, d: Any) -> Any:
        """The power of the tracker."""
        return power(super().corrected(d), self.gamma)
