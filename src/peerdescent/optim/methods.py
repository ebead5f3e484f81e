"""The methods as optimizers, under the names of their papers."""

from __future__ import annotations

from typing import Any

from typing_extensions import Unpack

from peerdescent import algorithms
from peerdescent.optim.optimizer import Decentralized, Parameters
from peerdescent.optim.setup import Options
from peerdescent.schedules import Rate


class DSGPA(Decentralized):
    """`algorithms.DSGPA`: the paper's primal-dual method; gamma < 1 is its powerball; power_on="direction" is exact."""

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
        **options: Unpack[Options],
    ) -> None:
        method = algorithms.DSGPA(lr, alpha, beta, gamma, epsilon, power_on, dual)
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


class CSGD(Decentralized):
    """`algorithms.CSGD`: the centralized baseline; every agent receives all gradients."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.CSGD(eta=lr), **options)


class KGT(Decentralized):
    """`algorithms.KGT`: gradient tracking made for local steps, by `communication_period`."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.01, eta_s: Rate = 1.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.KGT(eta=lr, eta_s=eta_s), **options)


class LED(Decentralized):
    """`algorithms.LED`: D² made for local steps, by `communication_period`."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.01, beta: Rate = 1.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.LED(eta=lr, beta=beta), **options)


class ProxSkip(Decentralized):
    """`algorithms.ProxSkip`: local steps, and exchanges at random by `communication_period="random:P"`."""

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = 0.01,
        beta: Rate = 1.0,
        chi: float = 1.0,
        **options: Unpack[Options],
    ) -> None:
        super().__init__(params, graph, algorithms.ProxSkip(eta=lr, beta=beta, chi=chi), **options)


class ChocoSGD(Decentralized):
    """`algorithms.ChocoSGD`: D-SGD with compressed differences, `compress="topk:0.1"` unless it is given."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.ChocoSGD(eta=lr), **options)


class BEER(Decentralized):
    """`algorithms.BEER`: gradient tracking with compressed differences, `compress="topk:0.1"` unless it is given."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.01, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.BEER(eta=lr), **options)


class MoTEF(Decentralized):
    """`algorithms.MoTEF`: tracking of momentum with compressed differences, `compress="topk:0.1"` unless given."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.01, beta: Rate = 0.9, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.MoTEF(eta=lr, beta=beta), **options)
