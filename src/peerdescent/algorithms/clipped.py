"""Clipped decentralized SGD, for gradients with heavy tails."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Step
from peerdescent.schedules import Rate
from peerdescent.transforms import SMALLEST, Clip, norm


@dataclass(frozen=True)
class ClippedDSGD(Algorithm):
    r"""Decentralized SGD with clipped gradients.

    .. math:: x^+ = Wx - η\,\mathrm{clip}(g, τ), \qquad \mathrm{clip}(g, τ)_i = \min(1, τ/\|g_i\|)\,g_i

    with the norm of each agent's own gradient. It is `d-sgd-1` under the setting `clip_norm`, with a τ that can be a
    schedule and that `tune` searches. One vector is sent per edge and iteration. Not linear: theory does not predict
    whether it is stable; where no gradient is longer than τ it is `d-sgd-1`. Reference: Yang, Lu and Wang 2025.

    >>> ClippedDSGD().hyperparameters(0)
    {'eta': 0.1, 'tau': 1.0}
    """

    eta: Rate = 0.1
    tau: Rate = 1.0
    rates: ClassVar[tuple[str, ...]] = ("eta", "tau")
    bias: ClassVar[str | None] = "as D-SGD, and clipped gradients balance, Σclip(∇f_i, τ) = 0, not the gradients"
    use: ClassVar[str] = "Gradients with heavy tails on nearly IID data."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; the message leaves before the gradient is computed."""
        Wx = net.mix(s.x)
        g = yield s.x
        return {"x": Wx - h.eta * (g * Clip(1.0)(h.tau / (norm(g) + SMALLEST)))}
