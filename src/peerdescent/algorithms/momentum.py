"""Decentralized SGD with momentum: heavy ball (DM-SGD) and Nesterov (D-ASG)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Mean, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class DMSGD(Algorithm):
    r"""Decentralized momentum SGD, which mixes the momentum too.

    .. math:: ũ = βu + g(x), \qquad x^+ = W(x - ηũ), \qquad u^+ = Wũ, \qquad u_0 = 0

    Two vectors are sent per edge and iteration. Reference: Yu, Jin and Yang 2019.

    >>> DMSGD().memory()
    {'u': 'zero'}
    """

    eta: Rate = 0.1
    beta: Rate = 0.8
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = "as D-SGD, with the effective step size η/(1−β)"
    use: ClassVar[str] = "Noisy gradients on nearly IID data: mixing the momentum keeps the agents together."

    def memory(self) -> Mapping[str, Start]:
        """The momentum u, initially zero."""
        return {"u": "zero"}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        u = h.beta * s.u + g
        return {"x": net.mix(s.x - h.eta * u), "u": net.mix(u)}


@dataclass(frozen=True)
class DASG(Algorithm):
    r"""Decentralized accelerated stochastic gradient (Nesterov).

    .. math:: y = (1+β)x - βx_-, \qquad x^+ = Wy - ηg(y)

    One vector, y, is sent per edge and iteration. `previous` sets x₋₁: "x" for the starting point, "zero" as in
    the authors' earlier code. Reference: Fallah et al. 2019.

    >>> DASG(previous="zero").memory()
    {'x_prev': 'zero'}
    """

    eta: Rate = 0.1
    beta: Rate = 0.8
    previous: Literal["x", "zero"] = "x"
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    momenta: ClassVar[tuple[str, ...]] = ("beta",)
    bias: ClassVar[str | None] = "as D-SGD"
    use: ClassVar[str] = "Badly conditioned smooth costs with little noise, on nearly IID data."

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.previous, str) or self.previous not in ("x", "zero"):
            raise InputError(f'previous = {described(self.previous)}: expected "x" (the starting point) or "zero".')

    def memory(self) -> Mapping[str, Start]:
        """The previous iterate."""
        return {"x_prev": self.previous}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        y = (1 + h.beta) * s.x - h.beta * s.x_prev
        Wy = net.mix(y)
        g = yield y
        return {"x": Wy - h.eta * g, "x_prev": s.x}

    def global_average(self, s: SimpleNamespace, net: Mean) -> dict[str, Any]:
        """x₋ moves along with x: otherwise the jump to the mean would count as momentum in the next step."""
        mean = net.mean(s.x)
        return {"x": mean, "x_prev": s.x_prev + (mean - s.x)}
