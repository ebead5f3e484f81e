"""Methods for directed graphs: push-sum corrects what unequal numbers of incoming messages distort.

Agent j splits what it sends, P_ij being the part that i gets, so that the columns of P sum to one. Besides x every
agent has a weight w, w⁺ = Pw with w_0 = 1, and z = x/w is its model. In the state, x is z: with the matrix
A = diag(w⁺)⁻¹ P diag(w), whose rows sum to one, x⁺ = Pa is z⁺ = A(a/w). On undirected graphs P = W is doubly
stochastic and w = 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import ClassVar

from peerdescent.algorithms.base import Algorithm, Network, Step
from peerdescent.algorithms.gradient_tracking import Tracking
from peerdescent.schedules import Rate


@dataclass(frozen=True)
class SGP(Algorithm):
    r"""Stochastic gradient push: SGD on directed graphs.

    .. math:: x^+ = P(x - ηg(z)), \qquad w^+ = Pw, \qquad z = x/w, \qquad w_0 = 1

    The code uses the equivalent form z⁺ = A(z − ηg(z)/w), A = diag(w⁺)⁻¹ P diag(w). On undirected graphs it is D-SGD
    that descends first and then mixes, x⁺ = W(x − ηg(x)). One vector is sent per edge and iteration; the weights w
    follow from the graph and are not sent. Reference: Assran et al. 2019.

    >>> SGP(eta=0.1).directed
    True
    """

    eta: Rate = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)
    directed: ClassVar[bool] = True
    bias: ClassVar[str | None] = "as D-SGD: nothing corrects the local gradients"
    use: ClassVar[str] = "Directed graphs, where messages go one way, and nearly IID data."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above, with z in the place of x."""
        g = yield s.x
        return {"x": net.mix(s.x - h.eta * net.debias(g))}


@dataclass(frozen=True)
class PushDIGing(Tracking):
    r"""Push-DIGing: gradient tracking on directed graphs, without bias on heterogeneous data.

    .. math:: u^+ = P(u - ηy), \quad w^+ = Pw, \quad x^+ = u^+/w^+, \quad y^+ = Py + g(x^+) - g(x), \qquad
        u_0 = x_0, \quad w_0 = 1, \quad y_0 = g_0

    The code uses the paper's equivalent form with h = y/w: x⁺ = A(x − ηh), where A = diag(w⁺)⁻¹ P diag(w), and keeps
    Py = w⁺·Ah, to which the difference of gradients is added in the next iteration. On undirected graphs it is
    D-SGT-2. Two vectors are sent per edge and iteration. Reference: Nedić, Olshevsky and Shi 2017.

    >>> PushDIGing().memory()
    {'y': 'zero', 'g_prev': 'zero'}
    """

    directed: ClassVar[bool] = True
    use: ClassVar[str] = "Directed graphs and heterogeneous data."

    def step(self, s: SimpleNamespace, net: Network, h: SimpleNamespace) -> Step:
        """The equation above; both messages are of the same round, as in the paper."""
        g = yield s.x
        tracker = net.debias(s.y + g - s.g_prev)
        return {"x": net.mix(s.x - h.eta * self.corrected(tracker)), "y": net.bias(net.mix(tracker)), "g_prev": g}
