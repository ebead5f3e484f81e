"""Gossip: every agent runs an optimizer of its own, SGD or Adam, and mixes its parameters with its neighbours'.

`peerdescent.optim.Gossip` is the same for any optimizer of torch, one agent per process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Mean, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate
from peerdescent.transforms import power

ORDERS = ("adapt-then-combine", "combine-then-adapt")
DECAYS = ("gradient", "weights")


@dataclass(frozen=True)
class _Gossip(Algorithm):
    """The common part: with u, the local update at x, x⁺ = W(x + u), or Wx + u where the agents combine first."""

    order: Literal["adapt-then-combine", "combine-then-adapt"] = field(default="adapt-then-combine", kw_only=True)
    weight_decay: float = field(default=0.0, kw_only=True)
    bias: ClassVar[str | None] = "as D-SGD: nothing corrects the local gradients"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.order, str) or self.order not in ORDERS:
            raise InputError(f"order = {described(self.order)}: expected one of {', '.join(ORDERS)}.")
        decay = self.weight_decay
        if not isinstance(decay, (int, float)) or not (math.isfinite(decay) and decay >= 0):
            raise InputError(f"weight_decay = {described(decay)}: expected a number that is not negative.")

    @property
    def decays(self) -> bool:  # type: ignore[override]
        """Whether there is weight decay."""
        return self.weight_decay > 0

    def adapt(self, s: SimpleNamespace, g: Any, h: SimpleNamespace) -> tuple[Any, dict[str, Any]]:
        """x + u, and the new memory of the agent's own optimizer."""
        raise NotImplementedError

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; combined first, the messages travel while the gradient is computed."""
        early = net.disagreement(s.x) if self.order == "combine-then-adapt" else None
        g = yield s.x
        y, memory = self.adapt(s, g, h)
        return {"x": y - (net.disagreement(y) if early is None else early), **memory}


@dataclass(frozen=True)
class GossipSGD(_Gossip):
    r"""SGD with local momentum in every agent, and gossip.

    .. math:: m^+ = μm + g(x) + λx, \qquad x^+ = W(x - ηm^+), \qquad m_0 = 0

    or x⁺ = Wx − ηm⁺ with `order="combine-then-adapt"`. The momentum μ stays local; λ is the weight decay. One vector
    is sent per edge and exchange. It is torch.optim.SGD inside `peerdescent.optim.Gossip`. Reference: Lian et al. 2017.

    >>> GossipSGD(eta=0.1).parameters()
    {'order': 'adapt-then-combine', 'weight_decay': 0.0, 'eta': 0.1, 'momentum': 0.0}
    """

    eta: Rate = 0.1
    momentum: Rate = 0.0
    rates: ClassVar[tuple[str, ...]] = ("eta", "momentum")
    momenta: ClassVar[tuple[str, ...]] = ("momentum",)
    use: ClassVar[str] = "As `d-sgd-1` with local momentum, often with a long communication period."

    def memory(self) -> Mapping[str, Start]:
        """The momentum m, initially zero."""
        return {"m": "zero"}

    def adapt(self, s: SimpleNamespace, g: Any, h: SimpleNamespace) -> tuple[Any, dict[str, Any]]:
        """A step of SGD."""
        m = h.momentum * s.m + (g + self.weight_decay * s.x if self.decays else g)
        return s.x - h.eta * m, {"m": m}


@dataclass(frozen=True)
class GossipAdam(_Gossip):
    r"""Adam or AdamW in every agent, and gossip.

    .. math::
        m^+ = β_1 m + (1-β_1)g, \qquad v^+ = β_2 v + (1-β_2)g^2, \qquad m_0 = v_0 = 0

        x^+ = W\left(x - ηλx - η\,\frac{m^+/(1-β_1^{k+1})}{\sqrt{v^+/(1-β_2^{k+1})} + ε}\right)

    or Wx plus the update with `order="combine-then-adapt"`. The moments stay local. With `decay_on="weights"` the
    weight decay λ acts as printed (AdamW); with "gradient" λx is added to g instead (Adam). One vector is sent per
    edge and exchange. It is torch.optim.AdamW inside `peerdescent.optim.Gossip`. Not linear: theory does not predict
    whether it is stable. References: Kingma and Ba 2015; Loshchilov and Hutter 2019.

    >>> GossipAdam(eta=0.1).hyperparameters(0)["unbias1"].__round__(9)
    0.1
    """

    eta: Rate = 0.001
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    eps: float = 1e-8
    decay_on: Literal["gradient", "weights"] = "weights"
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta1", "beta2")
    momenta: ClassVar[tuple[str, ...]] = ("beta1", "beta2")
    bias: ClassVar[str | None] = "as D-SGD, and each agent scales its gradient by moments of its own"
    use: ClassVar[str] = "Models that need Adam, such as transformers, on nearly IID data."

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.eps, (int, float)) or not (math.isfinite(self.eps) and self.eps > 0):
            raise InputError(f"eps = {described(self.eps)}: expected a positive number.")
        if not isinstance(self.decay_on, str) or self.decay_on not in DECAYS:
            raise InputError(f"decay_on = {described(self.decay_on)}: expected one of {', '.join(DECAYS)}.")
        h = super().hyperparameters(0)
        for name in self.momenta:
            if h[name] >= 1 and name.startswith("beta"):
                raise InputError(f"{name} = {h[name]:g}: expected a number in [0, 1).")

    def memory(self) -> Mapping[str, Start]:
        """The first and second moment, initially zero."""
        return {"m": "zero", "v": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The rates, 1 − β₁^(k+1), and the root of 1 − β₂^(k+1)."""
        h = super().hyperparameters(k)
        return {**h, "unbias1": 1 - h["beta1"] ** (k + 1), "unbias2": math.sqrt(1 - h["beta2"] ** (k + 1))}

    def adapt(self, s: SimpleNamespace, g: Any, h: SimpleNamespace) -> tuple[Any, dict[str, Any]]:
        """A step of Adam; power(v, 1/2) is √v, because v is not negative."""
        x = s.x
        if self.decays and self.decay_on == "gradient":
            g = g + self.weight_decay * x
        elif self.decays:
            x = (1 - h.eta * self.weight_decay) * x
        m = h.beta1 * s.m + (1 - h.beta1) * g
        v = h.beta2 * s.v + (1 - h.beta2) * (g * g)
        return x - (h.eta / h.unbias1) * (m / (power(v, 0.5) / h.unbias2 + self.eps)), {"m": m, "v": v}


@dataclass(frozen=True)
class _Outer(_Gossip):
    r"""Local updates between exchanges, and Nesterov momentum on what they have changed since the last one.

    .. math:: Δ = a - (x + u), \qquad M^+ = μM + Δ, \qquad x^+ = a^+ = W(a - η_o(Δ + μM^+)), \qquad a_0 = x_0, M_0 = 0

    in iterations that exchange, x⁺ = x + u in the others; combined first, x⁺ = a⁺ = Wa − η_o(Δ + μM⁺). From a common
    start on a complete graph with uniform weights it is DiLoCo. See `peerdescent.optim.Outer` for other relatives.
    References: Douillard et al. 2023 (DiLoCo); Kolehmainen et al. 2025 (NoLoCo).
    """

    outer_lr: Rate = field(default=0.7, kw_only=True)
    outer_momentum: Rate = field(default=0.9, kw_only=True)

    def memory(self) -> Mapping[str, Start]:
        """What the agent's optimizer keeps, the anchor a and the outer momentum M."""
        return {**super().memory(), "anchor": "x", "M": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        early = net.disagreement(s.anchor) if self.order == "combine-then-adapt" else None
        g = yield s.x
        y, memory = self.adapt(s, g, h)
        delta = s.anchor - y
        M = h.outer_momentum * s.M + delta
        z = s.anchor - h.outer_lr * (delta + h.outer_momentum * M)
        x = z - (net.disagreement(z) if early is None else early)
        return {"x": x, "anchor": x, "M": M, **memory}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The agent's own optimizer alone."""
        g = yield s.x
        y, memory = self.adapt(s, g, h)
        return {"x": y, "anchor": s.anchor, "M": s.M, **memory}

    def global_average(self, s: SimpleNamespace, net: Mean) -> dict[str, Any]:
        """The anchor is averaged too: it is the x from which the next outer step starts."""
        return {"x": net.mean(s.x), "anchor": net.mean(s.anchor)}


@dataclass(frozen=True)
class OuterSGD(_Outer, GossipSGD):
    r"""`GossipSGD` with an outer step: Nesterov momentum on what the agents have changed since the last exchange.

    .. math:: Δ = a - (x - ηm^+), \qquad M^+ = μM + Δ, \qquad x^+ = a^+ = W(a - η_o(Δ + μM^+))

    in iterations that exchange, with the anchor a₀ = x₀ and M₀ = 0. Reference: Douillard et al. 2023 (DiLoCo).

    >>> OuterSGD().memory()
    {'m': 'zero', 'anchor': 'x', 'M': 'zero'}
    """

    rates: ClassVar[tuple[str, ...]] = (*GossipSGD.rates, "outer_lr", "outer_momentum")
    momenta: ClassVar[tuple[str, ...]] = (*GossipSGD.momenta, "outer_momentum")
    use: ClassVar[str] = "Many local steps between exchanges (`communication_period`), where links are slow."


@dataclass(frozen=True)
class OuterAdam(_Outer, GossipAdam):
    r"""`GossipAdam` with an outer step: Nesterov momentum on what the agents have changed since the last exchange.

    .. math:: Δ = a - (x + u), \qquad M^+ = μM + Δ, \qquad x^+ = a^+ = W(a - η_o(Δ + μM^+))

    in iterations that exchange, with Adam's update u, the anchor a₀ = x₀ and M₀ = 0. Reference: Douillard et al. 2023
    (DiLoCo).

    >>> OuterAdam().memory()
    {'m': 'zero', 'v': 'zero', 'anchor': 'x', 'M': 'zero'}
    """

    rates: ClassVar[tuple[str, ...]] = (*GossipAdam.rates, "outer_lr", "outer_momentum")
    momenta: ClassVar[tuple[str, ...]] = (*GossipAdam.momenta, "outer_momentum")
    use: ClassVar[str] = "Many local AdamW steps between exchanges (`communication_period`), where links are slow."
