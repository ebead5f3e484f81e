"""Methods for gradient noise with heavy tails: normalized tracking, and clipping with error feedback."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Power, Rate
from peerdescent.transforms import normalized, power


@dataclass(frozen=True)
class GTNSGDm(Algorithm):
    r"""GT-NSGDm: normalized steps along the tracked mean of local momenta.

    .. math::
        m^+ = βm + (1-β)g(x), \qquad y^+ = W(y + m^+ - m), \qquad y_0 = m_0 = 0

        x_i^+ = \sum_j w_{ij}\Bigl(x_j - η\frac{y_j^+}{\lVert y_j^+ \rVert}\Bigr)

    Every agent divides its tracker by its norm (0 stays 0), so that no gradient, however large, moves x by more than
    η; with a constant η it circles within O(η) of the solution. Normalizing local gradients instead would be biased on
    heterogeneous data. Two vectors are sent per edge and iteration. Not linear: theory does not predict whether it is
    stable. Reference: Yu, Jakovetić and Kar 2025.

    >>> GTNSGDm().memory()
    {'y': 'zero', 'm': 'zero'}
    """

    eta: Rate = 0.02
    beta: Rate = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Gradients with heavy tails on heterogeneous data, with a decaying step size."

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_momentum(self, "beta")

    def memory(self) -> Mapping[str, Start]:
        """The tracker and the momentum, initially zero."""
        return {"y": "zero", "m": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        m = h.beta * s.m + (1 - h.beta) * g
        y = net.mix(s.y + m - s.m)
        return {"x": net.mix(s.x - h.eta * normalized(self.corrected(y))), "y": y, "m": m}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The mean tracker is the mean momentum, because W is doubly stochastic."""
        return {"mean tracker = mean momentum": s.y - s.m}


@dataclass(frozen=True)
class SClipEF(Algorithm):
    r"""SClip-EF-Network: smooth clipping of what an agent's gradient estimate misses, with error feedback.

    .. math::
        m^+ = β_k m + (1-β_k)Ψ_k(g(x) - m), \qquad x^+ = W(x - η_k m^+), \qquad m_0 = 0

        Ψ_k(a) = \frac{φ_k a}{\sqrt{a^2 + τ_k}} \quad \text{entry by entry}

    The paper's rates are η_k = η/(k+1)^{1/5}, β_k = β/(k+1)^{1/2}, φ_k = φ/(k+1)^{1/2} and τ_k = τ(k+1)^{3/5}, its
    ε_k: the step ends up as η_kφ_k/√τ_k = O(1/(k+1)) times the gradient, and no gradient moves an entry of x by more
    than about η_kφ_k. One vector is sent per edge and iteration. Not linear: theory does not predict whether it is
    stable. Reference: Yu, Jakovetić and Kar 2023.

    >>> SClipEF().parameters()["phi"]
    'power:2.0:-0.5'
    """

    eta: Rate = field(default=Power(0.5, -0.2))
    beta: Rate = field(default=Power(0.5, -0.5))
    phi: Rate = field(default=Power(2.0, -0.5))
    tau: Rate = field(default=Power(0.1, 0.6))
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta", "phi", "tau")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = "as D-SGD, which decays with the step size; clipping itself leaves none"
    use: ClassVar[str] = "Gradients with symmetric heavy tails, with one vector per edge."

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_momentum(self, "beta")
        if not self.hyperparameters(0)["tau"] > 0:
            raise InputError(f"tau = {self.parameters()['tau']}: expected a positive number.")

    def memory(self) -> Mapping[str, Start]:
        """The estimate of the agent's gradient, initially zero."""
        return {"m": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; power(a, 1/2) is √a, because a is positive."""
        g = yield s.x
        a = g - s.m
        clipped = h.phi * a / power(a * a + h.tau, 0.5)
        m = h.beta * s.m + (1 - h.beta) * clipped
        return {"x": net.mix(s.x - h.eta * m), "m": m}


def _check_momentum(method: Algorithm, name: str) -> None:
    if (value := method.hyperparameters(0)[name]) >= 1:
        raise InputError(f"{name} = {value:g}: expected a momentum in [0, 1).")
