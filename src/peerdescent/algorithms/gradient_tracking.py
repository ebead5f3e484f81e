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
class _Tracking(Algorithm):
    """The common part of the tracking methods: y tracks the mean gradient."""

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
class DSGT1(_Tracking):
    r"""Stochastic gradient tracking, GNSD form (DIGing).

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = Wx - ηy, \qquad y_0 = g_0

    Two vectors are sent per edge and iteration. References: Lu et al. 2019; Xin et al. 2019.

    >>> DSGT1().memory()
    {'y': 'zero', 'g_prev': 'zero'}
    """

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; both messages leave before the gradient is computed."""
        Wx, Wy = net.mix(s.x), net.mix(s.y)
        g = yield s.x
        y = Wy + g - s.g_prev
        return {"x": Wx - h.eta * self.corrected(y), "y": y, "g_prev": g}


@dataclass(frozen=True)
class DSGT2(_Tracking):
    r"""Stochastic gradient tracking, DSGT form: x adapts, then combines (semi-ATC).

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = W(x - ηy), \qquad y_0 = g_0

    Two vectors are sent per edge and iteration. References: Zhang and You 2019; Pu and Nedić 2018.

    >>> DSGT2(eta=0.05).parameters()
    {'eta': 0.05}
    """

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; the tracker's message leaves before the gradient is computed."""
        Wy = net.mix(s.y)
        g = yield s.x
        y = Wy + g - s.g_prev
        return {"x": net.mix(s.x - h.eta * self.corrected(y)), "y": y, "g_prev": g}


@dataclass(frozen=True)
class PoweredTracking(DSGT1):
    r"""Gradient tracking that moves x by a power of the tracker: the power after the correction.

    .. math:: y = Wy_- + g(x) - g_-, \qquad x^+ = Wx - ησ(y, γ), \qquad y_0 = g_0

    The tracker vanishes at the solution, and so does its power: no bias on heterogeneous data, without noise and
    under symmetric noise. It keeps circling there, see `theory.stability`. Two vectors are sent per edge and iteration.

    >>> PoweredTracking(gamma=0.5).parameters()
    {'eta': 0.01, 'gamma': 0.5}
    """

    gamma: float = 0.7

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)

    def corrected(self, d: Any) -> Any:
        """The power of the tracker."""
        return power(super().corrected(d), self.gamma)
