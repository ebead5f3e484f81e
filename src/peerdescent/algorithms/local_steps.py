"""Methods made for local steps: their corrections act in every step, not only in those that exchange messages.

How many local steps there are is the run's `communication_period`.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Exchanges, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate
from peerdescent.transforms import Transform


class EveryIteration:
    """Messages in every iteration."""

    def steps(self, k: int) -> int:
        """1."""
        return 1

    def expected_steps(self, k: int) -> float:
        """1."""
        return 1.0


@dataclass(frozen=True)
class _LocalSteps(Algorithm):
    """The common part: the step depends on how many iterations lie between exchanges."""

    exchanges: ClassVar[Exchanges] = EveryIteration()

    def with_periods(self, periods: Exchanges) -> Algorithm:
        """The same method, which knows when messages travel."""
        known = copy.copy(self)
        object.__setattr__(known, "exchanges", periods)
        return known


@dataclass(frozen=True)
class KGT(_LocalSteps):
    r"""K-GT: gradient tracking with K local steps.

    .. math::
        x_{j+1} = x_j - η(g(x_j) + c), \quad j < K, \qquad z = \frac{x_0 - x_K}{Kη}

        c^+ = c - (I-W)z, \qquad x^+ = W(x_0 - η_s Kη z), \qquad c_0 = 0

    K is the communication period; z is computed as the mean of g + c, which needs no division by η. Two vectors are
    sent per edge and exchange. With K = 1 and η_s = 1 it is `d-sgt-2`. Reference: Liu, Lin, Koloskova and Stich 2023,
    who also start with c = ḡ − g.

    >>> KGT(eta=0.05).parameters()
    {'eta': 0.05, 'eta_s': 1.0}
    """

    eta: Rate = 0.1
    eta_s: Rate = 1.0
    rates: ClassVar[tuple[str, ...]] = ("eta", "eta_s")
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "Heterogeneous data and slow links: `communication_period` local steps, all of them corrected."

    def memory(self) -> Mapping[str, Start]:
        """The correction c, the sum of g + c since the last exchange and, if a transform acts on it, of σ(g + c)."""
        moved: dict[str, Start] = {} if self._after == Transform() else {"moved": "zero"}
        return {"c": "zero", "total": "zero", **moved}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The rates, and the number K of steps since the last exchange."""
        return {**super().hyperparameters(k), "K": float(self.exchanges.steps(k))}

    def nominal(self) -> dict[str, float]:
        """The same for theory, in an iteration that exchanges."""
        return {**super().nominal(), "K": self.exchanges.expected_steps(0)}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The last local step, and the exchange."""
        g = yield s.x
        d = g + s.c
        total = s.total + d
        c = s.c - net.disagreement(total / h.K)
        moved = total if self._after == Transform() else s.moved + self.corrected(d)
        x = net.mix(s.x - h.eta * self.corrected(d) + (1 - h.eta_s) * h.eta * moved)
        memory = {"total": 0 * total} if self._after == Transform() else {"total": 0 * total, "moved": 0 * moved}
        return {"x": x, "c": c, **memory}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """A local step."""
        g = yield s.x
        d = g + s.c
        memory = {} if self._after == Transform() else {"moved": s.moved + self.corrected(d)}
        return {"x": s.x - h.eta * self.corrected(d), "c": s.c, "total": s.total + d, **memory}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The corrections sum to zero, because the columns of I−W do."""
        return {"sum of c = 0": s.c}


@dataclass(frozen=True)
class LED(_LocalSteps):
    r"""LED: local exact diffusion.

    .. math:: φ_{j+1} = φ_j - ηg(φ_j) - \frac{β}{τ} y, \quad j < τ, \qquad x^+ = Wφ_τ, \qquad y^+ = y + (I-W)φ_τ

    with φ₀ = x and y₀ = 0. τ is the communication period; the paper writes β for our β/τ, so that β = 1 suits every
    period. One vector is sent per edge and exchange. With τ = 1 and β = 1 it is `d2`; with a random period it is
    `proxskip` without its damping. Reference: Alghunaim 2024.

    >>> LED().mixing(-0.5), LED(beta=0.5).mixing(-0.5)
    ('lazy', 'as-is')
    """

    eta: Rate = 0.1
    beta: Rate = 1.0
    rates: ClassVar[tuple[str, ...]] = ("eta", "beta")
    corrects: ClassVar[bool] = True
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = "As `k-gt`, with one vector per edge instead of two: try it first."
    needs: ClassVar[str] = "β(1−λmin(W)) < 2(1+λmin(W)); otherwise, and on graphs over time, (I+W)/2 is used"
    not_compressible: ClassVar[str] = (
        "its message φ is no iterate: x and y share every exchange in full, so that errors of compression swing "
        "between them with little damping, and sparse messages diverge with every consensus step"
    )

    def memory(self) -> Mapping[str, Start]:
        """The dual variable y, initially zero."""
        return {"y": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """The rates, and the period τ."""
        return {**super().hyperparameters(k), "tau": self.exchanges.expected_steps(k)}

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """It diverges beyond, as D² does; (I+W)/2 has no negative eigenvalue."""
        beta = self.nominal()["beta"]
        return "as-is" if beta * (1 - lambda_min) < 2 * (1 + lambda_min) - 1e-9 else "lazy"

    def disagreement(self, a: Any, net: Network) -> Any:
        """(I−W)a."""
        return net.disagreement(a)

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The last local step, and the exchange."""
        g = yield s.x
        phi = self.descended(s.x, g, h.beta / h.tau * s.y, h.eta)
        disagreement = self.disagreement(phi, net)
        return {"x": phi - disagreement, "y": s.y + disagreement}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """A local step, with the correction that D² leaves out."""
        g = yield s.x
        return {"x": self.descended(s.x, g, h.beta / h.tau * s.y, h.eta), "y": s.y}

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The dual variables sum to zero, because the columns of I−W do."""
        return {"sum of y = 0": s.y}


@dataclass(frozen=True)
class ProxSkip(LED):
    r"""Decentralized ProxSkip: local steps with a control variate, and exchanges at random.

    .. math::
        z = x - ηg - βp\,y, \qquad x^+ = z - \tfrac{1}{2χ}(I-W)z, \quad y^+ = y + \tfrac{1}{2χ}(I-W)z

    with probability p, otherwise x⁺ = z and y⁺ = y; y₀ = 0. `communication_period = "random:0.2"` makes p = 0.2; with
    a period of m it is `led` with a damped W and p = 1/m, with p = 1 and χ = 1 exact diffusion. β = 1 is ProxSkip as
    published, with the control variate −(p/η)y; χ ≥ 1 damps W. One vector is sent per edge and exchange. References:
    Mishchenko et al. 2022; Guo et al. 2023.

    >>> ProxSkip(eta=0.05).parameters()
    {'eta': 0.05, 'beta': 1.0, 'chi': 1.0}
    """

    chi: float = 1.0
    use: ClassVar[str] = "As `led`, on any graph, with exchanges at random times: `communication_period = random:P`."
    needs: ClassVar[str] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.chi, (int, float)) or not 1 <= self.chi < float("inf"):
            raise InputError(f"chi = {described(self.chi)}: expected a number of at least 1.")

    def mixing(self, lambda_min: float) -> Literal["as-is", "lazy"]:
        """Its own damping suits every W."""
        return "as-is"

    def disagreement(self, a: Any, net: Network) -> Any:
        """(I−W)a/(2χ)."""
        return net.disagreement(a) / (2 * self.chi)
