"""Momentum for heterogeneous data: quasi-global momentum, and a tracked momentum, which removes the bias."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.schedules import Rate

SMALLEST = 1e-300
"""Step sizes below it count as 0: their inverse overflows."""


@dataclass(frozen=True)
class QGDSGDm(Algorithm):
    r"""Decentralized SGD with quasi-global momentum.

    .. math:: h = x - η(βm + g), \qquad x^+ = Wh, \qquad m^+ = βm + (1-β)(x - x^+)/η, \qquad m_0 = 0

    The momentum is that of the iterates, which are nearly the same everywhere, not that of local gradients. Where a
    schedule reaches η = 0, m⁺ = βm. One vector is sent per edge and iteration. Reference: Lin, Karimireddy, Stich and
    Jaggi 2021, with their μ = β.

    >>> QGDSGDm(eta=0.5).hyperparameters(0)
    {'eta': 0.5, 'beta': 0.9, 'per_eta': 2.0}
    """

    eta: Rate = 0.1
    beta: Rate = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = (
        "as D-SGD: momentum vanishes at the fixed point x = W(x − ηg), where the agents still disagree by O(η)"
    )
    use: ClassVar[str] = "Deep networks on heterogeneous data, where decaying step sizes make the bias of D-SGD small."

    def memory(self) -> Mapping[str, Start]:
        """The momentum m, initially zero."""
        return {"m": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """η, β and 1/η."""
        h = super().hyperparameters(k)
        return {**h, "per_eta": 1 / h["eta"] if h["eta"] > SMALLEST else 0.0}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        x = net.mix(s.x - h.eta * (h.beta * s.m + g))
        return {"x": x, "m": h.beta * s.m + (1 - h.beta) * h.per_eta * (s.x - x)}


@dataclass(frozen=True)
class MomentumTracking(Algorithm):
    r"""Momentum tracking: gradient tracking of the momentum.

    .. math:: u^+ = βu + g, \qquad x^+ = Wx - η(u^+ - c), \qquad c^+ = W(c - u^+) + u^+, \qquad u_0 = c_0 = 0

    u⁺ − c tracks the mean momentum. With β = 0 it is `d-sgt-1`. The paper's analysis starts u and c at
    (g₀ − ḡ₀)/(1−β), which takes a global average; any start with a zero sum of c leads to the same solution. Two
    vectors are sent per edge and iteration. Reference: Takezawa, Bao, Niwa, Sato and Yamada 2023.

    >>> MomentumTracking().memory()
    {'u': 'zero', 'c': 'zero'}
    """

    eta: Rate = 0.01
    beta: Rate = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = ""
    corrects: ClassVar[bool] = True
    use: ClassVar[str] = "Heterogeneous data where momentum pays and two vectors per edge are affordable."

    def memory(self) -> Mapping[str, Start]:
        """The momentum u and its correction c, initially zero."""
        return {"u": "zero", "c": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; the message of x leaves before the gradient is computed."""
        Wx = net.mix(s.x)
        g = yield s.x
        u = h.beta * s.u + g
        return {"x": Wx - h.eta * self.corrected(u - s.c), "u": u, "c": s.c - net.disagreement(s.c - u)}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The corrections sum to zero, because the columns of I−W do."""
        return {"sum of c = 0": s.c}
