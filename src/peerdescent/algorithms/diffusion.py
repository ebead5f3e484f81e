"""Exact diffusion and its relatives: an adapted iterate is corrected, then combined, and no bias is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class ExactDiffusion(Algorithm):
    r"""Exact diffusion: adapt, correct, combine.

    .. math:: ψ = x - ηg, \qquad φ = ψ + x - ψ_-, \qquad x^+ = \tilde Wφ, \qquad \tilde W = (I+W)/2, \qquad ψ_{-1} = x_0

    The code uses the equivalent form φ = x − ηg − v, x⁺ = φ − ½(I−W)φ, v⁺ = v + ½(I−W)φ, v₀ = 0, which does not
    integrate rounding errors twice. It is `d2` with (I+W)/2 in place of W, and needs nothing of λmin(W). One vector is
    sent per edge and iteration. Reference: Yuan, Ying, Zhao and Sayed 2019.

    >>> ExactDiffusion().mixing(-1.0)
    'as-is'
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Heterogeneous data on any graph, also one that changes over time, with one vector per edge."
    not_compressible: ClassVar[str] = (
        "its message x − ηg − v is no iterate: x and v share every exchange, so that errors of compression swing "
        "between them with little damping"
    )

    def memory(self) -> Mapping[str, Start]:
        """The correction v = ψ₋ − x, initially zero."""
        return {"v": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        phi = self.descended(s.x, g, s.v, h.eta)
        half = 0.5 * net.disagreement(phi)
        return {"x": phi - half, "v": s.v + half}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """Plain SGD: the correction waits for the next exchange."""
        g = yield s.x
        return {"x": s.x - h.eta * self.corrected(g), "v": s.v}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The corrections sum to zero, because the columns of I−W do."""
        return {"sum of v = 0": s.v}


@dataclass(frozen=True)
class NIDS(ExactDiffusion):
    r"""NIDS, for smooth costs: the largest stable step size does not depend on the network.

    .. math:: x^+ = \tilde W(2x - x_- - η(g - g_-)), \qquad x_1 = x_0 - ηg_0, \qquad \tilde W = (I+W)/2

    The code uses the equivalent form of `exact-diffusion`, from which it differs in the first iteration only: that one
    does not mix, and what it sends is not used. One vector is sent per edge and iteration. Reference: Li, Shi and Yan
    2019, with c = 1/(2η) in their I − cη(I−W) and without the nonsmooth term.

    >>> NIDS().hyperparameters(0), NIDS().hyperparameters(1)
    ({'eta': 0.1, 'later': 0.0}, {'eta': 0.1, 'later': 1.0})
    """

    use: ClassVar[str] = "As `exact-diffusion`; take it to compare with papers that use NIDS."

    def hyperparameters(self, k: int) -> dict[str, float]:
        """η, and whether this is a later iteration than the first."""
        return {**super().hyperparameters(k), "later": float(k > 0)}

    def nominal(self) -> dict[str, float]:
        """Theory is about the later iterations."""
        return {**super().nominal(), "later": 1.0}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        phi = self.descended(s.x, g, s.v, h.eta)
        half = 0.5 * h.later * net.disagreement(phi)
        return {"x": phi - half, "v": s.v + half}


@dataclass(frozen=True)
class EDM(ExactDiffusion):
    r"""Exact diffusion with momentum.

    .. math::
        m^+ = βm + (1-β)g, \qquad ψ = x - ηm^+, \qquad φ = ψ + x - ψ_-, \qquad x^+ = \tilde Wφ

        \tilde W = (I+W)/2, \qquad ψ_{-1} = x_0, \qquad m_0 = 0

    The code uses the form of `exact-diffusion` with m⁺ in place of g, and is that method for β = 0. One vector is sent
    per edge and iteration. Reference: Hu, Chen, Liu and Mao 2025; (I+W)/2 meets their condition on W on every graph.

    >>> EDM().memory()
    {'v': 'zero', 'm': 'zero'}
    """

    beta: Rate = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    use: ClassVar[str] = "Heterogeneous data and noisy gradients: momentum without bias, for one vector per edge."

    def memory(self) -> Mapping[str, Start]:
        """The correction v and the momentum m, initially zero."""
        return {"v": "zero", "m": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        m = h.beta * s.m + (1 - h.beta) * g
        phi = self.descended(s.x, m, s.v, h.eta)
        half = 0.5 * net.disagreement(phi)
        return {"x": phi - half, "v": s.v + half, "m": m}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """SGD with momentum: the correction waits for the next exchange."""
        g = yield s.x
        m = h.beta * s.m + (1 - h.beta) * g
        return {"x": s.x - h.eta * self.corrected(m), "v": s.v, "m": m}
