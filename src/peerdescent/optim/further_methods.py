"""More methods as optimizers: corrected ones, momentum for heterogeneous data, adaptive moments."""

from __future__ import annotations

from typing_extensions import Unpack

from peerdescent import algorithms
from peerdescent.optim.optimizer import Decentralized, Parameters
from peerdescent.optim.setup import Options
from peerdescent.schedules import Rate


class EXTRA(Decentralized):
    """`algorithms.EXTRA`: no bias on heterogeneous data; its message travels during forward and backward pass."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.EXTRA(eta=lr), **options)


class ExactDiffusion(Decentralized):
    """`algorithms.ExactDiffusion`: no bias on heterogeneous data, on every graph."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.ExactDiffusion(eta=lr), **options)


class NIDS(Decentralized):
    """`algorithms.NIDS`: exact diffusion that does not mix in its first step."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.NIDS(eta=lr), **options)


class EDM(Decentralized):
    """`algorithms.EDM`: exact diffusion with momentum (beta)."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, beta: Rate = 0.9, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.EDM(eta=lr, beta=beta), **options)


class AugDGM(Decentralized):
    """`algorithms.AugDGM`: gradient tracking that mixes after both steps."""

    def __init__(self, params: Parameters, graph: object, lr: Rate = 0.1, **options: Unpack[Options]) -> None:
        super().__init__(params, graph, algorithms.AugDGM(eta=lr), **options)


class MomentumTracking(Decentralized):
    """`algorithms.MomentumTracking`: gradient tracking of the momentum (beta)."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.01, beta: Rate = 0.9, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.MomentumTracking(eta=lr, beta=beta), **options)


class QGDSGDm(Decentralized):
    """`algorithms.QGDSGDm`: momentum (beta) of the iterates, which is nearly the same in all agents."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, beta: Rate = 0.9, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.QGDSGDm(eta=lr, beta=beta), **options)


class DAdam(Decentralized):
    """`algorithms.DAdam`: Adam with local moments; its message travels during forward and backward pass."""

    def __init__(
        self,
        params: Parameters,
        graph: object,
        lr: Rate = 0.001,
        beta1: Rate = 0.9,
        beta2: Rate = 0.999,
        beta3: Rate = 0.9,
        eps: float = 1e-8,
        **options: Unpack[Options],
    ) -> None:
        method = algorithms.DAdam(lr, beta1, beta2, beta3, eps)
        super().__init__(params, graph, method, **options)


class ClippedDSGD(Decentralized):
    """`algorithms.ClippedDSGD`: D-SGD with gradients clipped to the length tau."""

    def __init__(
        self, params: Parameters, graph: object, lr: Rate = 0.1, tau: Rate = 1.0, **options: Unpack[Options]
    ) -> None:
        super().__init__(params, graph, algorithms.ClippedDSGD(eta=lr, tau=tau), **options)
