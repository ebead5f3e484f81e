"""Methods that save communication, as optimizers: made for local steps, or for compressed messages."""

from __future__ import annotations

from typing_extensions import Unpack

from peerdescent import algorithms
from peerdescent.optim.optimizer import Decentralized, Parameters
from peerdescent.optim.setup import Options
from peerdescent.schedules import Rate


class KGT(Decentralized):
    """`algorithms.KGT`: gradient tracking made for local steps, by `communication_period`."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, eta_s: Rate = 1.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.KGT(eta=lr, eta_s=eta_s), **options)


class LED(Decentralized):
    """`algorithms.LED`: D² made for local steps, by `communication_period`."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, beta: Rate = 1.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.LED(eta=lr, beta=beta), **options)


class ProxSkip(Decentralized):
    """`algorithms.ProxSkip`: local steps, and exchanges at random by `communication_period="random:P"`."""

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = 0.1,
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

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.BEER(eta=lr), **options)


class MoTEF(Decentralized):
    """`algorithms.MoTEF`: tracking of momentum with compressed differences, `compress="topk:0.1"` unless given."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, beta: Rate = 0.9, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.MoTEF(eta=lr, beta=beta), **options)
