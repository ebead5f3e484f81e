"""Sequences that repeat: a list of graphs, one per round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.sequence import GraphSequence, activity_of, several_parts

ROUNDING = 1e-9
T = TypeVar("T")


@dataclass(frozen=True)
class Periodic(GraphSequence):
    """A list of graphs, one per round, that starts again at its end.

    Weights, if the graphs have some, are the entries W_ij of the rounds' mixing matrices: none or all rounds with
    edges have them, and those of an agent sum to at most 1.

    Args:
        rounds: graphs of n agents; None of them needs to be connected.

    >>> two = Periodic(3, (Graph(3, ((0, 1),), connected=False), Graph(3, ((1, 2),), connected=False)))
    >>> two.period, two.union.edges, two.graph(5).edges, two.text
    (2, ((0, 1), (1, 2)), ((1, 2),), 'rounds:3:0-1/1-2')
    """

    rounds: tuple[Graph, ...]

    def __post_init__(self) -> None:
        if not self.rounds:
            raise InputError("a graph sequence needs at least one graph.")
        for number, graph in enumerate(self.rounds):
            if graph.n != self.n:
                raise InputError(
                    f"the graph of round {number} has {graph.n} agents and that of round 0 has {self.n}: "
                    "give all rounds the same agents."
                )
        object.__setattr__(self, "rounds", once(self.rounds))
        self._check_weights()
        self.union  # noqa: B018  refuses a sequence that never connects all agents

    def _check_weights(self) -> None:
        given = {graph.weights is not None for graph in self.rounds if graph.edges}
        if len(given) > 1:
            raise InputError("some rounds have edge weights and some have none: give all rounds weights, or none.")
        for number, graph in enumerate(self.rounds):
            check_weights(graph, number)

    @property
    def period(self) -> int:
        """The number of rounds after which the sequence repeats."""
        return len(self.rounds)

    @property
    def weighted_rounds(self) -> bool:
        """Whether the edge weights of a round are the entries of its mixing matrix."""
        return any(graph.weights for graph in self.rounds)

    @cached_property
    def union(self) -> Graph:
        """Every edge of any round, without weights."""
        return united(self.n, [graph.pairs for graph in self.rounds])

    @cached_property
    def text(self) -> str:
        """The spec, or the edges of all rounds if no spec describes them."""
        from peerdescent.graphs.edge_lists import edges_text
        from peerdescent.graphs.spec import parse

        try:
            if self.spec and not self.spec.startswith("sequence:") and parse(self.spec) == self:
                return self.spec
        except InputError:
            pass
        return f"rounds:{self.n}:" + "/".join(map(edges_text, self.rounds))

    @cached_property
    def activity(self) -> NDArray[np.float64]:
        """In which fraction of the rounds each edge of the union is."""
        return activity_of(self.union, self.rounds)

    @property
    def mean_edges(self) -> float:
        """The number of edges of a round, on average."""
        return self._before[-1] / self.period

    @cached_property
    def _before(self) -> list[int]:
        return list(accumulate((len(graph.edges) for graph in self.rounds), initial=0))

    def _make(self, round: int) -> Graph:
        return self.rounds[round % self.period]

    def graph(self, round: int) -> Graph:
        """The graph of a round, counted from 0."""
        return self.rounds[check_integer("the round", round, 0) % self.period]

    def edges_before(self, round: int) -> int:
        """The number of edges of all earlier rounds."""
        periods, rest = divmod(check_integer("the round", round, 0), self.period)
        return periods * self._before[-1] + self._before[rest]

    def subset(self, agents: Iterable[int]) -> Periodic:
        """The sequence of some of the agents, renumbered in order; InputError if its union is not connected."""
        chosen = checks.agents(agents, self.n)
        return Periodic(len(chosen), tuple(several_parts(graph).subset(chosen) for graph in self.rounds))


def check_weights(graph: Graph, round: int) -> Graph:
    """The graph of a round; InputError if its weights cannot be the entries of a mixing matrix."""
    if graph.weights:
        sums = np.bincount(graph.pairs.ravel(), np.repeat(graph.weights, 2), minlength=graph.n)
        if sums.max() > 1 + ROUNDING:
            raise InputError(
                f"round {round}: the weights of agent {sums.argmax()} sum to {sums.max():.4g}; in a sequence they are "
                "entries of the mixing matrix, so let them sum to at most 1, or leave all weights out."
            )
    return graph


def united(n: int, rounds: list[NDArray[np.int64]]) -> Graph:
    """The graph of all edges of these rounds; InputError if it is not connected."""
    pairs = np.concatenate([np.empty((0, 2), dtype=np.int64), *rounds])
    keys = np.unique(pairs[:, 0] * n + pairs[:, 1])
    return Graph.from_pairs(n, np.stack([keys // n, keys % n], axis=1))


def once(rounds: tuple[T, ...]) -> tuple[T, ...]:
    """The shortest list that gives the same sequence: [a, b, a, b] is [a, b]."""
    length = len(rounds)
    for period in range(1, length // 2 + 1):
        if length % period == 0 and rounds[period:] == rounds[:-period]:
            return rounds[:period]
    return rounds
