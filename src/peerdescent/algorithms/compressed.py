"""Methods whose papers compress messages: what they compute; by what they compress is a setting with a default here.

Every agent keeps a public copy â of each array a that it sends; Q(a − â) travels, and c(I−W)â replaces (I−W)a (see
`peerdescent.mixing.compression`). `compress` and `consensus_step` are Q and c, also called γ. Copies are zero before
the first message, which leaves in the first iteration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.algorithms.gradient_tracking import DSGT1
from peerdescent.schedules import Rate

TOP_TENTH = "topk:0.1"
"""The largest tenth of the entries."""


@dataclass(frozen=True)
class ChocoSGD(Algorithm):
    r"""CHOCO-SGD: decentralized SGD, adapt then combine, with compressed differences.

    .. math:: a = x - ηg(x), \qquad \hat a^+ = \hat a + Q(a - \hat a), \qquad x^+ = a - c(I-W)\hat a^+

    Uncompressed with c = 1 it is x⁺ = W(x − ηg). One compressed vector is sent per edge and iteration, `topk:0.1`
    unless `compress` is given. Reference: Koloskova, Stich and Jaggi 2019.

    >>> ChocoSGD().compressor
    'topk:0.1'
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    bias: ClassVar[str | None] = "as D-SGD: nothing corrects the local gradients"
    use: ClassVar[str] = "Nearly IID data and links that are slow for the size of the model."
    compressor: ClassVar[str] = TOP_TENTH

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above, where W acts on the copies."""
        g = yield s.x
        return {"x": net.mix(s.x - h.eta * g)}


@dataclass(frozen=True)
class BEER(DSGT1):
    r"""BEER: gradient tracking with compressed differences.

    .. math::
        x^+ = x - c(I-W)\hat x - ηy, \qquad \hat x^+ = \hat x + Q(x^+ - \hat x)

        y^+ = y - c(I-W)\hat y + g(x^+) - g(x), \qquad \hat y^+ = \hat y + Q(y^+ - \hat y), \qquad y_0 = g_0

    Uncompressed it is gradient tracking, `d-sgt-1`. The copies start at x̂₀ = Q(x₀) and ŷ₀ = Q(y₀), the paper's at
    zero. Two compressed vectors are sent per edge and iteration, `topk:0.1` unless `compress` is given. Reference:
    Zhao, Li, Li, Richtárik and Chi 2022.

    >>> BEER(eta=0.05).memory()
    {'y': 'zero', 'g_prev': 'zero'}
    """

    eta: Rate = 0.1
    use: ClassVar[str] = "Heterogeneous data and links that are slow for the size of the model."
    compressor: ClassVar[str] = TOP_TENTH


@dataclass(frozen=True)
class MoTEF(Algorithm):
    r"""MoTEF: tracking of momentum with compressed differences.

    .. math::
        x^+ = x - c(I-W)\hat x - ηy, \qquad m^+ = βm + (1-β)g(x^+), \qquad y^+ = y - c(I-W)\hat y + m^+ - m

    with copies as in BEER, which is β = 0; y₀ = m₀ = g₀. The paper writes λ for 1 − β. Two compressed vectors are sent
    per edge and iteration, `topk:0.1` unless `compress` is given. Reference: Islamov, Gao and Stich 2024.

    >>> MoTEF(beta=0.9).memory()
    {'y': 'zero', 'm': 'zero'}
    """

    eta: Rate = 0.1
    beta: Rate = 0.9
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "As `beer`, where gradients are noisy: the tracker, which is compressed, changes more slowly."
    compressor: ClassVar[str] = TOP_TENTH

    def memory(self) -> Mapping[str, Start]:
        """The tracker and the momentum."""
        return {"y": "zero", "m": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The rates, and whether this is a later iteration than the first, whose momentum is its gradient."""
        return {**super().hyperparameters(k), "later": float(k > 0)}

    def nominal(self) -> dict[str, float]:
        """Theory is about the later iterations."""
        return {**super().nominal(), "later": 1.0}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; both messages leave before the gradient is computed."""
        Wx, Wy = net.mix(s.x), net.mix(s.y)
        g = yield s.x
        beta = h.later * h.beta
        m = beta * s.m + (1 - beta) * g
        y = Wy + m - s.m
        return {"x": Wx - h.eta * self.corrected(y), "y": y, "m": m}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The mean tracker is the mean momentum, because W is doubly stochastic."""
        return {"mean tracker = mean momentum": s.y - s.m}
