"""D-Adam: adaptive moments in every agent, and mixing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate
from peerdescent.transforms import maximum, power


@dataclass(frozen=True)
class DAdam(Algorithm):
    r"""D-Adam: a consensus-based adaptive method.

    .. math::
        m^+ = β_1 m + (1-β_1)g, \qquad v^+ = β_2 v + (1-β_2)g^2, \qquad m_0 = v_0 = w_0 = 0

        w^+ = β_3 w + (1-β_3)\max\left(w, \frac{v^+}{1-β_2^{k+1}}\right), \qquad
        x^+ = Wx - η\,\frac{m^+/(1-β_1^{k+1})}{\sqrt{w^+} + ε}

    All moments stay local. The corrections for the start and ε are those of the authors' code. Without w, which keeps
    the steps from growing, it would be `gossip-adam` in the order "combine-then-adapt". Weight decay as AdamW has it is
    `weight_decay` with `decay = "decoupled"`, as for every method. One vector is sent per edge and iteration. Not
    linear: theory does not predict whether it is stable. Reference: Nazari, Tarzanagh and Michailidis 2022.

    >>> DAdam(eta=0.1).memory()
    {'m': 'zero', 'v': 'zero', 'w': 'zero'}
    """

    eta: Rate = 0.001
    beta1: Rate = 0.9
    beta2: Rate = 0.999
    beta3: Rate = 0.9
    eps: float = 1e-8
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta1", "beta2", "beta3")
    momenta: ClassVar[tuple[str, ...]] = ("beta1", "beta2", "beta3")
    bias: ClassVar[str | None] = "as D-SGD, and each agent scales its gradient by moments of its own"
    use: ClassVar[str] = (
        "Models that need Adam, such as transformers, on nearly IID data; its message overlaps the gradient."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.eps, (int, float)) or not (math.isfinite(self.eps) and self.eps > 0):
            raise InputError(f"eps = {described(self.eps)}: expected a positive number.")
        for name, value in super().hyperparameters(0).items():
            if name in self.momenta and value >= 1:
                raise InputError(f"{name} = {value:g}: expected a number in [0, 1).")

    def memory(self) -> Mapping[str, Start]:
        """The moments m and v, and w, the largest second moments so far, smoothed; initially zero."""
        return {"m": "zero", "v": "zero", "w": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The rates, 1 − β₁^(k+1) and 1 − β₂^(k+1)."""
        h = super().hyperparameters(k)
        return {**h, "unbias1": 1 - h["beta1"] ** (k + 1), "unbias2": 1 - h["beta2"] ** (k + 1)}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; power(w, 1/2) is √w, because w is not negative."""
        Wx = net.mix(s.x)
        g = yield s.x
        m = h.beta1 * s.m + (1 - h.beta1) * g
        v = h.beta2 * s.v + (1 - h.beta2) * (g * g)
        w = h.beta3 * s.w + (1 - h.beta3) * maximum(s.w, v / h.unbias2)
        return {"x": Wx - (h.eta / h.unbias1) * (m / (power(w, 0.5) + self.eps)), "m": m, "v": v, "w": w}
