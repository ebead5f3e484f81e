"""Recording a method's step: the equations it computes and the vectors it sends."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import torch

from peerdescent._util.validation import described
from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import initial_state
from peerdescent.expressions import Array, Column, Constant, Expression, Mixed, MixKind, Rounded, Scalar
from peerdescent.tracing.step import StepError, run_step

GRADIENT = "@gradient"
"""The name of the gradient in a recorded step; no state can have this name."""
DEBIAS, BIAS = "@debias", "@bias"
"""The names of 1/w before a round and of w after it, likewise."""


def gradient_name(number: int) -> str:
    """The name of a step's first, second, … gradient, counted from 0.

    >>> gradient_name(0), gradient_name(1)
    ('@gradient', '@gradient1')
    """
    return f"{GRADIENT}{number or ''}"


@dataclass
class RecordingNetwork:
    """Replaces the network while a step is recorded."""

    local: bool = False
    """Record an iteration without messages: L = 0 and W = I."""
    rounded: bool = False
    """Messages are sent as bfloat16; an agent compares what it receives with the rounded values it sends."""
    weighted: bool = False
    """The agents have push-sum weights."""
    _sent: dict[int, tuple[int, Expression]] = field(default_factory=dict)

    def _over_edges(self, kind: MixKind, source: Expression) -> Expression:
        if self.local:
            return Constant(0.0)
        if id(source) not in self._sent:
            self._sent[id(source)] = len(self._sent), Rounded(source) if self.rounded else source
        number, sent = self._sent[id(source)]
        return Mixed(kind, sent, number)

    def laplacian(self, source: Expression) -> Expression:
        """L·source."""
        return self._over_edges("laplacian", source)

    def disagreement(self, source: Expression) -> Expression:
        """(I−W)·source."""
        return self._over_edges("disagreement", source)

    def mix(self, source: Expression) -> Expression:
        """W·source."""
        return source - self.disagreement(source)

    def debias(self, source: Expression) -> Expression:
        """source/w."""
        return Column(DEBIAS) * source if self.weighted else source

    def bias(self, source: Expression) -> Expression:
        """w⁺·source."""
        return Column(BIAS) * source if self.weighted else source

    def mean(self, source: Expression) -> Expression:
        """The mean of all rows, in every row."""
        return Mixed("mean", source)


class RecordingError(RuntimeError):
    """The step is more than arithmetic and cannot be recorded."""


def record(
    algorithm: Algorithm,
    names: tuple[str, ...],
    local: bool = False,
    rounded: bool = False,
    weighted: bool = False,
) -> tuple[tuple[Expression, ...], dict[str, Expression]]:
    """The step as equations: the points where gradients are wanted, mostly one, and the new value of every state."""
    network = RecordingNetwork(local, rounded, weighted)
    state = SimpleNamespace(**{name: Array(name) for name in names})
    numbers = SimpleNamespace(**{name: Scalar(name) for name in algorithm.hyperparameters(0)})

    def gradient(number: int) -> Expression:
        given: Expression = algorithm.preprocess_gradient(Array(gradient_name(number)), network)
        return given

    try:
        points, outputs = run_step(algorithm, state, network, numbers, gradient, local)
    except StepError as error:
        cause = error.__cause__
        if cause is None:  # it runs, but it is no step
            raise
        raise RecordingError(f"the step of {type(algorithm).__name__} is not plain arithmetic: {cause}") from cause
    for name, node in [*(("the point", point) for point in points), *outputs.items()]:
        if not isinstance(node, Expression):
            raise RecordingError(f"the step of {type(algorithm).__name__} gives {described(node)} for {name}")
    return tuple(points), outputs


def vectors_sent(algorithm: Algorithm) -> int:
    """The number of p-vectors that an agent sends to each neighbour per iteration, counted on one tiny step.

    >>> from peerdescent.algorithms import make
    >>> vectors_sent(make("dsgpa-f-pb")), vectors_sent(make("dm-sgd")), vectors_sent(make("c-sgd"))
    (1, 2, 0)
    """
    network = _CountingNetwork()
    tiny_step(algorithm, network)
    return len({id(a) for a in network.sent})


def gradients_wanted(algorithm: Algorithm, local: bool = False) -> int:
    """The number of gradients that an agent computes per iteration, all on the same samples, counted likewise.

    >>> from peerdescent.algorithms import make
    >>> gradients_wanted(make("d-sgd-1")), gradients_wanted(make("gt-hsgd"))
    (1, 2)
    """
    return len(tiny_step(algorithm, _CountingNetwork(), local))


def tiny_step(algorithm: Algorithm, network: Any, local: bool = False) -> list[torch.Tensor]:
    """Run a step of one agent with one number, to count what it asks of a network; return its points."""
    one = torch.ones(1, 1)
    state = SimpleNamespace(**initial_state(algorithm, one))
    numbers = SimpleNamespace(**algorithm.hyperparameters(0))
    points, _ = run_step(
        algorithm, state, network, numbers, lambda _: algorithm.preprocess_gradient(one, network), local
    )
    return points


def vectors_averaged(algorithm: Algorithm) -> int:
    """The number of p-vectors of an agent that a global average needs, counted likewise.

    >>> from peerdescent.algorithms import make
    >>> vectors_averaged(make("dsgpa-f-pb")), vectors_averaged(make("gossip-sgd-outer"))
    (1, 2)
    """
    network = _CountingNetwork()
    algorithm.global_average(SimpleNamespace(**initial_state(algorithm, torch.ones(1, 1))), network)
    return len({id(a) for a in network.averaged})


class _CountingNetwork:
    """Passes everything through and keeps references to what was sent, so that ids stay distinct."""

    def __init__(self) -> None:
        self.sent: list[torch.Tensor] = []
        self.averaged: list[torch.Tensor] = []

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        self.sent.append(a)
        return torch.zeros_like(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        return self.laplacian(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        return a - self.disagreement(a)

    def debias(self, a: torch.Tensor) -> torch.Tensor:
        return a

    bias = debias

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        self.averaged.append(a)
        return a
