"""The paper's family: distributed primal-dual stochastic gradient descent, plain, powered, and powered exactly."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from peerdescent._util.validation import described
from peerdescent.algorithms.base import Algorithm, Network, Start, Step
from peerdescent.errors import InputError
from peerdescent.schedules import Rate
from peerdescent.transforms import Powerball, Transform, chained, check_gamma, power

TINY = 1e-300
"""Below it there is only zero."""


@dataclass(frozen=True)
class DSGPA(Algorithm):
    r"""Distributed primal-dual SGD with the powerball.

    .. math::
        x^+ = x - η(α Lx + β v + σ(g, γ)), \qquad v^+ = v + ηβ Lx, \qquad v_0 = 0

    With `power_on="direction"` the power applies to the whole local direction, x⁺ = x − η(αLx + σ(βv + g, γ)), which
    vanishes at the solution: with exact gradients or symmetric noise there is no bias on heterogeneous data. Skewed
    noise biases every power, because E σ(noise) ≠ 0. `momentum` = θ < 1 averages what the power applies to,
    m⁺ = (1−θ)m + θ(βv + g), x⁺ = x − η(αLx + σ(m⁺, γ)), m₀ = 0, which makes the noise under the power smaller and more
    symmetric. It delays the dual too: for flat costs and dual first, ηβ²(1−θ) < θα keeps every graph with small
    eigenvalues stable. One vector is sent per edge and iteration.

    Args:
        eta: the step size η.
        alpha: the weight α of disagreement.
        beta: the weight β of the dual variable.
        gamma: the power γ in [0, 1]; 1 is the plain method (DSGPA-F), 0 a decentralized signSGD.
        epsilon: η_k = η/(k+1)^ε, α_k = α(k+1)^ε, β_k = β(k+1)^ε; 0 keeps them fixed (F), the paper's T has 1e-5.
        power_on: "gradient" as in the paper, or "direction".
        dual: "gauss-seidel", where v⁺ is computed first and x⁺ uses it; or "jacobi" as printed, where x⁺ uses v.
        momentum: θ in (0, 1], the weight of the newest direction, or gradient, in the average under the power; 1: none.

    Example:
        >>> DSGPA(eta=0.03, alpha=5, beta=20, gamma=0.7).hyperparameters(0)
        {'eta': 0.03, 'alpha': 5.0, 'beta': 20.0}

    Reference: S. Zhang and C. P. Bailey, Accelerated Primal-Dual Algorithm for Distributed Nonconvex Optimization.
    """

    eta: Rate
    alpha: Rate
    beta: Rate
    gamma: float = 1.0
    epsilon: float = 0.0
    power_on: Literal["gradient", "direction"] = "gradient"
    dual: Literal["jacobi", "gauss-seidel"] = "gauss-seidel"
    momentum: float = 1.0

    rates: ClassVar[tuple[str, ...]] = ("eta", "alpha", "beta")
    times_eta: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    corrects: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_gamma(self.gamma)
        if not isinstance(self.power_on, str) or self.power_on not in ("gradient", "direction"):
            raise InputError(f'power_on = {described(self.power_on)}: expected "gradient" or "direction".')
        if not isinstance(self.dual, str) or self.dual not in ("jacobi", "gauss-seidel"):
            raise InputError(f'dual = {described(self.dual)}: expected "jacobi" or "gauss-seidel".')
        if not (isinstance(self.epsilon, (int, float)) and 0 <= self.epsilon <= 1):
            raise InputError(f"epsilon = {described(self.epsilon)}: expected a number in [0, 1].")
        if not (isinstance(self.momentum, (int, float)) and 0 < self.momentum <= 1):
            raise InputError(f"momentum = {described(self.momentum)}: expected a number above 0 and at most 1 (none).")
        if self.dual_too_strong:
            h = SimpleNamespace(**self.nominal())
            flattened = self.power_on == "direction" and self.gamma < 1
            warnings.warn(
                f"ηβ² = {h.eta * (h.beta * h.beta):g} is not below α = {h.alpha:g}: in the printed (jacobi) order this "
                f"{'oscillates' if flattened else 'diverges'} on every connected graph unless the costs are curved "
                "enough (f_i = h‖x − c_i‖²/2 with ηβ² < α + h/λ for every λ > 0 of L); "
                'dual="gauss-seidel" is stable for moderate Laplacians.',
                stacklevel=3,
            )

    @property
    def bias(self) -> str:  # type: ignore[override]
        """A power on local gradients is biased, whatever corrects it afterwards."""
        powered = self.gamma < 1 and self.power_on == "gradient"
        return "the powered gradients balance, Σσ(∇f_i, γ) = 0, not the gradients" if powered else ""

    @property
    def use(self) -> str:  # type: ignore[override]
        """Not for heterogeneous data if the power biases it."""
        data = "Nearly IID" if self.bias else "Heterogeneous"
        return f"{data} data with one vector per edge, which travels while the gradient is computed."

    @property
    def dual_too_strong(self) -> bool:
        """Whether the order is jacobi and ηβ² ≥ α, which diverges on every connected graph for flat costs."""
        h, plain = SimpleNamespace(**self.nominal()), self.dual == "jacobi" and self.momentum == 1
        return plain and bool(h.eta * (h.beta * h.beta) >= max(h.alpha, TINY))

    def memory(self) -> Mapping[str, Start]:
        """The dual variable v and, with momentum, the average m; both start at zero."""
        return {"v": "zero"} if self.momentum == 1 else {"v": "zero", "m": "zero"}

    def hyperparameters(self, k: int) -> dict[str, float]:
        """η_k, α_k, β_k and, with momentum, θ."""
        h = super().hyperparameters(k)
        growth = float((k + 1) ** self.epsilon)
        rates = {"eta": h["eta"] / growth, "alpha": h["alpha"] * growth, "beta": h["beta"] * growth}
        return rates if self.momentum == 1 else {**rates, "momentum": self.momentum}

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        Lx = net.laplacian(s.x)
        g = yield s.x
        v = s.v + h.eta * h.beta * Lx
        dual = v if self.dual == "gauss-seidel" else s.v
        if self.power_on == "gradient":
            m, memory = self._averaged(s, g, h)
            direction = self.corrected(h.beta * dual + power(m, self.gamma))
        else:
            m, memory = self._averaged(s, h.beta * dual + g, h)
            direction = power(self.corrected(m), self.gamma)
        return {"x": s.x - h.eta * (h.alpha * Lx + direction), "v": v, **memory}

    def local_step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """Powered SGD: the dual waits for the next exchange. Applied in every local step, it would act m-fold."""
        g = yield s.x
        m, memory = self._averaged(s, g, h)
        return {"x": s.x - h.eta * power(self.corrected(m), self.gamma), "v": s.v, **memory}

    def _averaged(self, s: SimpleNamespace, a: Any, h: SimpleNamespace) -> tuple[Any, dict[str, Any]]:
        """What the power applies to, and what of it is kept: m⁺ = (1−θ)m + θa, or a itself without momentum."""
        if self.momentum == 1:
            return a, {}
        m = (1 - h.momentum) * s.m + h.momentum * a
        return m, {"m": m}

    def gradient_transform(self) -> Transform:
        """The transform and the power, where they apply to the gradient: as in the paper, or without a dual."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # those of construction
            own = Powerball(self.gamma)
        if self.nominal()["beta"] == 0:  # the direction is the gradient
            return chained(chained(super().gradient_transform(), self._after), own)
        return chained(super().gradient_transform(), own if self.power_on == "gradient" else Transform())

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """The dual variables sum to zero, because the columns of L do."""
        return {"sum of v = 0": s.v}
