"""Decentralized and centralized stochastic gradient descent."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Step
from peerdescent.schedules import Inverse, Rate


@dataclass(frozen=True)
class DSGD1(Algorithm):
    r"""Decentralized SGD: mix, then descend.

    .. math:: x^+ = Wx - ηg(x)

    One vector is sent per edge and iteration. References: Jiang et al. 2017; Lian et al. 2017.

    >>> DSGD1(eta=0.1).parameters()
    {'eta': 0.1}
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    bias: ClassVar[str | None] = "at its fixed point (I−W)x = −ηg: the agents disagree, and their mean is off by O(η)"
    use: ClassVar[str] = "The baseline; good on IID data, or with decaying step sizes."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        Wx = net.mix(s.x)
        g = yield s.x
        return {"x": Wx - h.eta * g}


@dataclass(frozen=True)
class DSGD2(Algorithm):
    r"""Decentralized SGD with decaying weights on disagreement and gradient.

    .. math:: x^+ = x - β_k Lx - α_k g(x), \qquad α_k = a/(εk+1), \quad β_k = b/(εk+1)^{0.3}

    One vector is sent per edge and iteration. Reference: George et al. 2019.

    >>> DSGD2().hyperparameters(0)
    {'alpha': 0.1, 'beta': 0.2}
    """

    alpha: Rate = field(default=Inverse(0.1, 1e-5))
    beta: Rate = field(default=Inverse(0.2, 1e-5, 0.3))
    rates: ClassVar[tuple[str, ...]] = ("alpha", "beta")
    bias: ClassVar[str | None] = "as D-SGD, of the order of α/β, which decays with the weights"
    use: ClassVar[str] = "Long runs in which the bias of D-SGD should decay by itself."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        Lx = net.laplacian(s.x)
        g = yield s.x
        return {"x": s.x - h.beta * Lx - h.alpha * g}


@dataclass(frozen=True)
class CSGD(Algorithm):
    r"""Centralized SGD on the pooled data, the baseline with a central server.

    .. math:: x^+ = x - η \bar g(x)

    where ḡ is the mean of the agents' minibatch gradients: n·B samples per step. All rows of x stay equal; they
    start at the mean of the agents' starting points. Nothing is sent over the graph. Reference: Robbins and Monro 1951.

    >>> CSGD(eta=0.1).common_start
    True
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    common_start: ClassVar[bool] = True
    directed: ClassVar[bool] = True  # it uses no edges
    bias: ClassVar[str | None] = ""
    use: ClassVar[str] = (
        "The reference that decentralized methods are measured by; it needs all gradients in one place."
    )

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above."""
        g = yield s.x
        return {"x": s.x - h.eta * g}

    def preprocess_gradient(self, g: Any, net: Network) -> Any:
        """The pooled gradient: averaged first, then transformed."""
        return self.transform(net.mean(g))

    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        """All agents hold the same x."""
        return {"all x equal": (s.x - s.x[:1]).abs()}
