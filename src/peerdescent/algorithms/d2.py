"""D²: decentralized SGD with a correction that removes the bias of heterogeneous data."""

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
    and iteration. With (I+W)/2 it is exact diffusion. A transform after the correction acts on g + v/η.
    Reference: Tang et al. 2018.

    >>> D2().mixing(-0.5)
    'lazy'
    """

    eta: Rate = 0.01
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    corrects: ClassVar[bool] = True
    not_compressible: ClassVar[str] = (
        "its message x − ηg − v is no iterate: x and v share every exchange in full, so that errors of compression "
        "swing between them with little damping, and sparse messages diverge with every consensus step"
    )
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Heterogeneous data on a graph that stays, with one vector per edge: try it first."
    needs: ClassVar[str] = "λmin(W) > −1/3; otherwise, and on graphs over time, (I+W)/2 is used"

    def memory(self) -> Mapping[str, Start]:
        """The correction v = x₋ − ηg₋ − x, initially zero."""
        return {"v": "zero"}

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """D² diverges unless λmin(W) > −1/3; (I+W)/2 has no negative eigenvalue."""
        return "as-is" if lambda_min > -1 / 3 + 1e-9 else "lazy"  # even rings have −1/3 up to rounding

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        phi = self.descended(s.x, g, s.v, h.eta)
        disagreement = net.disagreement(phi)
        return {"x": phi - disagreement, "v": s.v + disagreement}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """Plain SGD: the correction waits for the next exchange."""
        g = yield s.x
        return {"x": s.x - h.eta * self.corrected(g), "v": s.v}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The corrections sum to zero, because the columns of I−W do."""
        return {"sum of v = 0": s.v}
