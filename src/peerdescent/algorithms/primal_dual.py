"""EXTRA: decentralized gradient descent with a dual variable that removes the bias of heterogeneous data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class EXTRA(Algorithm):
    r"""EXTRA: an exact first-order algorithm.

    .. math:: x^+ = (I+W)x - \tilde Wx_- - η(g - g_-), \qquad x_1 = Wx_0 - ηg_0, \qquad \tilde W = (I+W)/2

    The code uses the equivalent form x⁺ = x − (I−W)x − ηg − v, v⁺ = v + ½(I−W)x, v₀ = 0: the printed form integrates
    every rounding error twice. It is `dsgpa-f` with L = I−W, α = 1/η, β = 1/(√2η) and the dual in the order "jacobi".
    One vector is sent per edge and iteration. Reference: Shi, Ling, Wu and Yin 2015.

    >>> EXTRA(eta=0.1).memory()
    {'v': 'zero'}
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Heterogeneous data and slow links: one vector, which travels while the gradient is computed."

    def memory(self) -> Mapping[str, Start]:
        """The dual variable v, initially zero."""
        return {"v": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; the message leaves before the gradient is computed."""
        disagreement = net.disagreement(s.x)
        g = yield s.x
        return {"x": self.descended(s.x - disagreement, g, s.v, h.eta), "v": s.v + 0.5 * disagreement}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """Plain SGD: the dual waits for the next exchange. Applied in every local step, it would act m-fold."""
        g = yield s.x
        return {"x": s.x - h.eta * self.corrected(g), "v": s.v}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The dual variables sum to zero, because the columns of I−W do."""
        return {"sum of v = 0": s.v}
