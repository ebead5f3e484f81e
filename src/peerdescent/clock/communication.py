"""What a run sends, to whom and when: all that the clock needs to know of a method, a graph and a period."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import initial_state, memory_of
from peerdescent.expressions import Array
from peerdescent.graphs import AnyGraph, DirectedGraph, Graph
from peerdescent.tracing.message_schedule import Message, Operation, plan_step
from peerdescent.tracing.recording import RecordingError, record
from peerdescent.tracing.step import run_step

Pairs = NDArray[np.int64]
"""One row per message: the sender and the receiver."""


@dataclass(frozen=True)
class Send:
    """One message of a step: a vector to every neighbour, or to all agents for a mean."""

    array: str
    all_agents: bool = False
    needs: tuple[str, ...] = ()
    """The messages that must have arrived before it can leave."""


@dataclass(frozen=True)
class Step:
    """The messages of one iteration: for the gradient's point, before the gradient, and after it.

    >>> from peerdescent.algorithms import make
    >>> step = step_of(make("d-sgt-2"))
    >>> [send.array for send in step.early], [send.array for send in step.late]
    (['y'], ['@sent0'])
    """

    for_point: tuple[Send, ...] = ()
    early: tuple[Send, ...] = ()
    late: tuple[Send, ...] = ()
    awaits_point: bool = False
    """Whether the gradient's point is computed from messages, and not a state that exists already."""
    further: tuple[Step, ...] = ()
    """For each further gradient of the iteration, its messages for the point and before it."""

    @property
    def gradients(self) -> int:
        """The gradients that an agent computes in the iteration."""
        return 1 + len(self.further)


def step_of(algorithm: Algorithm, rounded: bool = False, local: bool = False, overlap: bool = True) -> Step:
    """The messages of a method's step, as the fused update sends them.

    Args:
        algorithm: the method.
        rounded: whether messages are sent in half the precision.
        local: whether the iteration does not exchange; means over all agents are computed all the same.
        overlap: whether messages travel while the gradient is computed. The plain update, which is the only one for
            a step that cannot be recorded, awaits each message as soon as it is sent.
    """
    names = ("x", *memory_of(algorithm))
    if not overlap:
        return _blocking(algorithm, local)
    try:
        points, outputs = record(algorithm, names, local, rounded)
    except RecordingError:
        return _blocking(algorithm, local)
    plan = plan_step(points, outputs, names, distributed=True)
    first, *further = (
        Step(_sends(stage.for_point), _sends(stage.early), awaits_point=not isinstance(stage.point, Array))
        for stage in plan.stages
    )
    return replace(first, late=_sends(plan.late), further=tuple(further))


def _sends(operations: tuple[Operation, ...]) -> tuple[Send, ...]:
    messages = (operation for operation in operations if isinstance(operation, Message))
    return tuple(Send(message.array, message.all_agents, message.needs) for message in messages)


def _blocking(algorithm: Algorithm, local: bool) -> Step:
    """Every message is awaited before anything else is done: counted on one step of one number."""
    network, one, before = _CallOrder(local), torch.ones(1, 1), list[int]()
    state, numbers = initial_state(algorithm, one), SimpleNamespace(**algorithm.hyperparameters(0))

    def gradient(_: int) -> object:
        before.append(len(network.sent))
        return algorithm.preprocess_gradient(one, network)

    run_step(algorithm, SimpleNamespace(**state), network, numbers, gradient, local)
    sends = [Send(f"@{i}", mean, (f"@{i - 1}",) if i else ()) for i, (_, mean) in enumerate(network.sent)]
    first, *further = (Step(tuple(sends[a:b]), awaits_point=True) for a, b in pairwise([0, *before]))
    return replace(first, late=tuple(sends[before[-1] :]), further=tuple(further))


class _CallOrder:
    """Passes everything through and notes what is sent, each array once."""

    def __init__(self, local: bool) -> None:
        self.local = local
        self.sent: list[tuple[torch.Tensor, bool]] = []

    def _note(self, a: torch.Tensor, mean: bool) -> None:
        if not any(a is known and mean is for_mean for known, for_mean in self.sent):
            self.sent.append((a, mean))

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        if not self.local:
            self._note(a, False)
        return torch.zeros_like(a)

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        return self.laplacian(a)

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        return a - self.disagreement(a)

    def debias(self, a: torch.Tensor) -> torch.Tensor:
        return a

    bias = debias

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        self._note(a, True)
        return a


@dataclass(frozen=True)
class Communication:
    """What a run sends.

    Args:
        n: the number of agents.
        step: the messages of an iteration that exchanges.
        local: the messages of any other iteration.
        vector_bytes: the size of a message to a neighbour.
        mean_bytes: the size of what is averaged over all agents.
        pairs: by round, who sends to whom.
        all_pairs: who may send to whom in any round.
        repeats: the number of rounds after which they repeat; None if they never do.
        round_of: the round of an iteration; None if it exchanges nothing.
        averages: the number of vectors that are averaged over all agents at the end of an iteration.
    """

    n: int
    step: Step
    local: Step
    vector_bytes: float
    mean_bytes: float
    pairs: Callable[[int], Pairs]
    all_pairs: Pairs
    repeats: int | None
    round_of: Callable[[int], int | None]
    averages: Callable[[int], int] = lambda k: 0


def every(period: int) -> Callable[[int], int | None]:
    """The rounds of a communication period m: iterations m−1, 2m−1, … exchange.

    >>> [every(3)(k) for k in range(7)]
    [None, None, 0, None, None, 1, None]
    """
    return lambda k: k // period if (k + 1) % period == 0 else None


def on_graph(
    graph: AnyGraph,
    step: Step,
    local: Step = Step(),
    vector_bytes: float = 0.0,
    mean_bytes: float | None = None,
    round_of: Callable[[int], int | None] = lambda k: k,
    averages: Callable[[int], int] = lambda k: 0,
) -> Communication:
    """The communication of a method on a graph, or on a sequence of graphs.

    Args:
        graph: who talks to whom.
        step: the messages of an iteration that exchanges.
        local: the messages of the others.
        vector_bytes: the size of a message to a neighbour, compressed if it is.
        mean_bytes: the size of a vector that is averaged over all agents; as to neighbours unless given.
        round_of: the round of an iteration; None if it exchanges nothing.
        averages: the number of vectors that are averaged over all agents at the end of an iteration.

    >>> from peerdescent.graphs import parse
    >>> sent = on_graph(parse("onepeer-exp:4"), Step(early=(Send("x"),)), vector_bytes=8)
    >>> len(sent.pairs(0)), len(sent.all_pairs), sent.repeats
    (4, 8, 2)
    """
    return Communication(
        graph.n,
        step,
        local,
        vector_bytes,
        vector_bytes if mean_bytes is None else mean_bytes,
        lambda r: messages_of(graph, r),
        graph.all_arcs if isinstance(graph, DirectedGraph) else both_ways(graph.union),
        graph.period,
        round_of,
        averages,
    )


def messages_of(graph: AnyGraph, round: int) -> Pairs:
    """The messages of a round: along all edges, in both directions unless they are directed."""
    return graph.arcs(round).pairs if isinstance(graph, DirectedGraph) else both_ways(graph.graph(round))


def both_ways(graph: Graph) -> Pairs:
    """The messages along all edges, in both directions."""
    pairs: Pairs = np.concatenate([graph.pairs, graph.pairs[:, ::-1]])
    return pairs
