"""Methods without bias on heterogeneous data: D² and stochastic gradient tracking."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class D2(Algorithm):
    r"""D²: decentralized training over decentralized data.

    .. math:: x^+ = W(2x - x_- - η(g - g_-)), \qquad x_1 = W(x_0 - ηg_0)

    The code uses the equivalent form φ = x − ηg − v, x⁺ = φ − (I−W)φ, v⁺ = v + (I−W)φ, v₀ = 0. The printed form
    integrates every rounding error twice: in single precision its mean drifts away from SGD's within 10⁴
    iterations. It needs λmin(W) > −1/3; otherwise (I+W)/2 is used, and a note says so. One vector is sent per edge
    and iteration. Also known as exact diffusion. Reference: Tang et al. 2018.

    >>> D2().mixing(-0.5)
    'lazy'
    """

    eta: Rate = 0.01
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def memory(self) -> Mapping[str, Start]:
        """The correction v = x₋ − ηg₋ − x, initially zero."""
        return {"v": "zero"}

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """D² diverges unless λmin(W) > −1/3; (I+W)/2 has no negative eigenvalue."""
        return "as-is" if lambda_min > -1 / 3 + 1e-9 else "lazy"  # even rings have −1/3 up to rounding

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        phi = s.x - h.eta * g - s.v
        disagreement = net.disagreement(phi)
        return {"x": phi - disagreement, "v": s.v + disagreement}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """Plain SGD: the correction waits for the next exchange."""
        g = yield s.x
        return {"x": s.x - h.eta * g, "v": s.v}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The corrections sum to zero, because the columns of I−W do."""
        return {"sum of v = 0": s.v}


@dataclass(frozen=True)
class _Tracking(Algorithm):
    """The common part of the tracking methods: y tracks the mean gradient."""

    eta: Rate = 0.01
    rates: ClassVar[tuple[str, ...]] = ("eta",)

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
        return {"x": Wx - h.eta * y, "y": y, "g_prev": g}


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
        return {"x": net.mix(s.x - h.eta * y), "y": y, "g_prev": g}
