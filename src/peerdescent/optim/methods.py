"""The methods as optimizers, under the names of their papers."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from peerdescent import algorithms
from peerdescent.optim.optimizer import Decentralized, Parameters
from peerdescent.optim.setup import Options
from peerdescent.schedules import Rate


class DSGPA(Decentralized):
    """`algorithms.DSGPA`: the paper's primal-dual method; gamma < 1 is its powerball.

    With power_on="direction" the power is unbiased on heterogeneous data without noise and under symmetric noise;
    momentum < 1, which averages under the power, removes most of the bias of skewed noise.
    """

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate,
        alpha: Rate,
        beta: Rate,
        gamma: float = 1.0,
        epsilon: float = 0.0,
        power_on: Any = "gradient",
        dual: Any = "gauss-seidel",
        momentum: float = 1.0,
        **options: Unpack[Options],
    ) -> None:
        method = algorithms.DSGPA(lr, alpha, beta, gamma, epsilon, power_on, dual, momentum)
        super().__init__(params, graph, method, **options)


class DSGD1(Decentralized):
    """`algorithms.DSGD1`: mix, then descend."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.DSGD1(eta=lr), **options)


class DSGD2(Decentralized):
    """`algorithms.DSGD2`: decaying weights on the gradient (lr) and on disagreement (beta)."""

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = algorithms.DSGD2.alpha,
        beta: Rate = algorithms.DSGD2.beta,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.DSGD2(alpha=lr, beta=beta), **options)


class DMSGD(Decentralized):
    """`algorithms.DMSGD`: heavy-ball momentum (beta), which is mixed too."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, beta: Rate = 0.8, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.DMSGD(eta=lr, beta=beta), **options)


class DASG(Decentralized):
    """`algorithms.DASG`: Nesterov's acceleration. The parameters are its extrapolated point; `averaged` gives x.

    A new beta takes effect from the step after the next, because the next gradient's point is computed already.
    """

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = 0.1,
        beta: Rate = 0.8,
        previous: Any = "x",
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.DASG(eta=lr, beta=beta, previous=previous), **options)


class D2(Decentralized):
    """`algorithms.D2`: no bias on heterogeneous data."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.D2(eta=lr), **options)


class DSGT1(Decentralized):
    """`algorithms.DSGT1`: gradient tracking, GNSD form (DIGing)."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.DSGT1(eta=lr), **options)


class DSGT2(Decentralized):
    """`algorithms.DSGT2`: gradient tracking, DSGT form."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.DSGT2(eta=lr), **options)


class PoweredTracking(Decentralized):
    """`algorithms.PoweredTracking`: gradient tracking that moves by a power of the tracker."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.01, gamma: float = 0.7, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.PoweredTracking(eta=lr, gamma=gamma), **options)


class CSGD(Decentralized):
    """`algorithms.CSGD`: the centralized baseline; every agent receives all gradients."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.CSGD(eta=lr), **options)


class SGP(Decentralized):
    """`algorithms.SGP`: stochastic gradient push, for directed graphs. The parameters are z."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.SGP(eta=lr), **options)


class PushDIGing(Decentralized):
    """`algorithms.PushDIGing`: gradient tracking for directed graphs."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.PushDIGing(eta=lr), **options)


class GTHSGD(Decentralized):
    """`algorithms.GTHSGD`: gradient tracking with variance reduction; beta is the share of the new gradient.

    `step(closure)` calls the closure twice, at the current and at the previous x: it must use the same batch both
    times. What the forward pass changes in the model, such as running statistics, changes twice.
    """

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = algorithms.GTHSGD.eta,
        beta: Rate = algorithms.GTHSGD.beta,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.GTHSGD(eta=lr, beta=beta), **options)


class GTNSGDm(Decentralized):
    """`algorithms.GTNSGDm`: steps of length lr along the tracked mean of local momenta (beta).

    The norm is that of a parameter group: parameters in one group are normalized together.
    """

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = algorithms.GTNSGDm.eta,
        beta: Rate = algorithms.GTNSGDm.beta,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.GTNSGDm(eta=lr, beta=beta), **options)


class SClipEF(Decentralized):
    """`algorithms.SClipEF`: smooth clipping with error feedback, with the paper's schedules unless you give numbers."""

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = algorithms.SClipEF.eta,
        beta: Rate = algorithms.SClipEF.beta,
        phi: Rate = algorithms.SClipEF.phi,
        tau: Rate = algorithms.SClipEF.tau,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.SClipEF(eta=lr, beta=beta, phi=phi, tau=tau), **options)
