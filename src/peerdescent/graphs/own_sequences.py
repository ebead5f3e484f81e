"""Sequences that a user writes: a list of graphs, or a Python function of the round."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer, described
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.directed import directed_sequence, is_directed
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.periodic import Periodic, check_weights
from peerdescent.graphs.sequence import GraphSequence, activity_of, as_static, several_parts
from peerdescent.graphs.topologies import complete

SAMPLED = 8
"""How many rounds of a function are recorded, to tell one function from another."""


def sequence(
    rounds: Iterable[object] | Callable[[int], object], n: int | None = None, union: object = None
) -> GraphSequence:
    """A graph sequence from a list of graphs, which repeats, or from a function of the round.

    Weights of the graphs, if all have some, are the entries W_ij of the rounds' mixing matrices. A list of directed
    graphs, or of networkx DiGraphs, is a directed graph over time; none of them needs to be strongly connected.

    Args:
        rounds: graphs, networkx graphs or texts for `parse`; or a function that returns one for round 0, 1, …, always
            the same one for the same round and in every process.
        n: the number of agents, for a function only.
        union: a graph with every edge that the function may use; None allows all.

    >>> sequence(["ring:4", Graph(4, ((0, 2),), connected=False)]).period
    2
    >>> sequence(lambda r: "ring:4" if r % 3 else "star:4", n=4).graph(3).edges
    ((0, 1), (0, 2), (0, 3))
    """
    from peerdescent.graphs.spec import as_graph

    if callable(rounds):
        if n is None:
            raise InputError("a sequence from a function needs n, the number of agents.")
        n = check_integer("the number of agents", n, 1, checks.MOST_EDGES + 1)
        support = None if union is None else as_static(as_graph(union), "the union of a sequence")
        if support is not None and support.n != n:
            raise InputError(f"the union has {support.n} agents: expected {n}.")
        return FromFunction(n, function=rounds, support=support)
    if isinstance(rounds, str | Graph | GraphSequence) or not isinstance(rounds, Iterable):
        raise InputError(f"rounds is {described(rounds)}: expected a list of graphs, or a function of the round.")
    if n is not None or union is not None:
        raise InputError("n and union belong to a sequence from a function; a list of graphs has its own.")
    given = [as_graph(each) if isinstance(each, str) else each for each in rounds]
    if any(is_directed(each) for each in given):
        return directed_sequence(given)
    made = [as_static(as_graph(each), f"round {number}") for number, each in enumerate(given)]
    return Periodic(made[0].n if made else 1, tuple(map(several_parts, made)))


@dataclass(frozen=True)
class FromFunction(GraphSequence):
    """The graphs that a Python function returns, asked once per round and process."""

    function: Callable[[int], object] = field(kw_only=True)
    support: Graph | None = field(default=None, kw_only=True)

    @cached_property
    def union(self) -> Graph:
        """Every edge that the function may use."""
        return complete(self.n) if self.support is None else self.support

    @property
    def weighted_rounds(self) -> bool:
        """Whether round 0 has weights, which are then the entries of the rounds' mixing matrices."""
        return self.graph(0).weights is not None

    @cached_property
    def text(self) -> str:
        """The function's name and a digest of its first rounds; `parse` cannot make the function again."""
        name = getattr(self.function, "__qualname__", type(self.function).__name__)
        first: list[Any] = [(graph.edges, graph.weights) for graph in map(self.graph, range(SAMPLED))]
        return f"python:{self.n}:{name}:{hashlib.sha256(repr(first).encode()).hexdigest()[:16]}"

    @cached_property
    def activity(self) -> NDArray[np.float64]:
        """In which fraction of the first rounds each edge of the union is."""
        return activity_of(self.union, [self.graph(round) for round in range(SAMPLED)])

    def _make(self, round: int) -> Graph:
        from peerdescent.graphs.spec import as_graph

        where = f"the function's graph of round {round}"
        made = as_graph(self.function(round))
        found = several_parts(as_static(made, where))
        if found.n != self.n:
            raise InputError(f"{where} has {found.n} agents: expected {self.n}.")
        if self.support is not None and not set(found.edges) <= self._allowed:
            i, j = min(set(found.edges) - self._allowed)
            raise InputError(f"{where} has the edge ({i}, {j}), which the union has not: add it there.")
        if round and found.edges and (found.weights is not None) != self.weighted_rounds:
            raise InputError(f"{where} and that of round 0: give both edge weights, or none of them.")
        return check_weights(found, round)

    @cached_property
    def _allowed(self) -> frozenset[tuple[int, int]]:
        return frozenset(self.union.edges)
