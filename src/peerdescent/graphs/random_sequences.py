"""Random sequences: the graph of a round is a pure function of the seed and the round."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.randomness import stream
from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.sequence import GraphSequence, as_static
from peerdescent.graphs.topologies import complete

Pairs = NDArray[np.int64]
Edges = tuple[Pairs, NDArray[np.float64] | None]


@dataclass(frozen=True)
class RandomEdges(GraphSequence):
    """A sequence whose rounds are drawn edge by edge: a subclass defines `edges_of`."""

    @abstractmethod
    def edges_of(self, round: int) -> Edges:
        """The edges of a round in any order, and their weights."""

    def _make(self, round: int) -> Graph:
        return Graph.from_pairs(self.n, *self.edges_of(round), connected=False)


@dataclass(frozen=True)
class RandomMatchings(RandomEdges):
    """Rounds in which every agent talks to one other at most, drawn from all agents.

    >>> RandomMatchings(4, seed=3).graph(0).degrees.tolist()
    [1, 1, 1, 1]
    """

    seed: int = field(default=0, kw_only=True)

    @cached_property
    def union(self) -> Graph:
        """Any two agents may meet."""
        return complete(self.n)

    @property
    def text(self) -> str:
        """The spec."""
        return f"matching:{self.n}:seed={self.seed}"

    @property
    def activity(self) -> NDArray[np.float64]:
        """Any two agents meet as often."""
        pairs = self.n * (self.n - 1) // 2
        return np.full(pairs, self.n // 2 / max(1, pairs))

    @property
    def mean_edges(self) -> float:
        """The number of edges of a round."""
        return self.n // 2

    def edges_before(self, round: int) -> int:
        """The number of edges of all earlier rounds."""
        return check_integer("the round", round, 0) * (self.n // 2)

    def edges_of(self, round: int) -> Edges:
        """Neighbours in a random order of the agents."""
        order = stream(self.seed, "matching", block=round).permutation(self.n)
        return order[: self.n // 2 * 2].reshape(-1, 2), None


def matching(n: int, seed: int = 0) -> RandomMatchings:
    """A uniformly random perfect matching in every round; with an odd number of agents one of them stays alone.

    >>> print(matching(6))
    matching:6:seed=0 (6 agents, random rounds, 3 edges per round)
    """
    n, seed = _agents_and_seed("matching", n, seed)
    return RandomMatchings(n, seed=seed, spec=f"matching:{n}:seed={seed}")


@dataclass(frozen=True)
class EquiDyn(RandomEdges):
    """One-peer undirected EquiDyn; see `equidyn`."""

    seed: int = field(default=0, kw_only=True)

    @property
    def weighted_rounds(self) -> bool:
        """The weights are part of the construction."""
        return True

    @cached_property
    def union(self) -> Graph:
        """Any two agents may meet."""
        return complete(self.n)

    @property
    def text(self) -> str:
        """The spec."""
        return f"equidyn:{self.n}:seed={self.seed}"

    @cached_property
    def activity(self) -> NDArray[np.float64]:
        """How likely two agents meet in a round, which depends on their distance only, since agents are symmetric."""
        n = self.n
        # by rotation, the number of pairs does not depend on the start, and all pairs (i, i+hop) are as likely
        found = np.array([0, *(len(_paired(n, hop, start=0)) for hop in range(1, n))]) / max(1, n - 1)
        i, j = self.union.pairs.T
        return np.asarray((found[j - i] + found[i - j + n]) / n, dtype=np.float64)

    def edges_of(self, round: int) -> Edges:
        """The pairs, with equal weights."""
        pairs = self._pairs(round)
        return pairs, np.full(len(pairs), (self.n - 1) / (2 * self.n))

    def _size(self, round: int) -> int:
        return len(self._pairs(round))

    def _pairs(self, round: int) -> Pairs:
        if self.n == 1:
            return np.empty((0, 2), dtype=np.int64)
        random = stream(self.seed, "equidyn", block=round)
        return _paired(self.n, hop=int(random.integers(1, self.n)), start=int(random.integers(self.n)))


def equidyn(n: int, seed: int = 0) -> EquiDyn:
    """The one-peer undirected EquiDyn graphs of Song et al. (2022), with all n−1 hops.

    A round draws a hop u in 1, …, n−1 and a start s. Agents i = s, s+1, … (modulo n) pair with i+u if neither is taken
    yet; a pair has W_ij = η(n−1)/n, with η = 1/2 as in the paper's experiments.

    >>> equidyn(5).graph(0).weights
    (0.4, 0.4)
    """
    n, seed = _agents_and_seed("equidyn", n, seed)
    return EquiDyn(n, seed=seed, spec=f"equidyn:{n}:seed={seed}")


def _paired(n: int, hop: int, start: int) -> Pairs:
    """The pairs (i, i+hop) that a scan from `start` finds, each agent once."""
    taken, pairs = bytearray(n), []
    for i in (*range(start, n), *range(start)):
        j = (i + hop) % n
        if not (taken[i] or taken[j]):
            taken[i] = taken[j] = True
            pairs.append((i, j))
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class RandomParts(RandomEdges):
    """Rounds in which parts of a base graph are active, each independently with its probability.

    Args:
        base: the graph whose edges rounds have.
        seed: what the draws depend on, besides the round.
    """

    base: Graph = field(kw_only=True)
    seed: int = field(default=0, kw_only=True)

    @property
    @abstractmethod
    def probabilities(self) -> NDArray[np.float64]:
        """With which probability a part is active in a round."""

    @property
    @abstractmethod
    def part(self) -> NDArray[np.int64]:
        """The part of each edge."""

    @cached_property
    def union(self) -> Graph:
        """Every edge of the base graph whose part can be active."""
        possible = self.probabilities[self.part] > 0
        if possible.all():
            return self.base
        return Graph.from_pairs(self.n, self.base.pairs[possible])

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.part, minlength=len(self.probabilities))

    @property
    def activity(self) -> NDArray[np.float64]:
        """The probability of the part of each edge of the union."""
        rates = self.probabilities[self.part]
        return rates[rates > 0]

    def _active(self, round: int) -> NDArray[np.bool_]:
        """Which parts are active."""
        uniform = stream(self.seed, "active parts of a graph", block=round).random(len(self.probabilities))
        return np.asarray(uniform < self.probabilities)

    def _size(self, round: int) -> int:
        return int(self._sizes[self._active(round)].sum())

    def edges_of(self, round: int) -> Edges:
        """The edges of the active parts."""
        return self.base.pairs[self._active(round)[self.part]], None


@dataclass(frozen=True)
class ActiveEdges(RandomParts):
    """Every edge of the base graph is active in a round with the same probability."""

    probability: float = field(kw_only=True)

    @cached_property
    def probabilities(self) -> NDArray[np.float64]:
        """One per edge."""
        return np.full(len(self.base.edges), self.probability)

    @cached_property
    def part(self) -> NDArray[np.int64]:
        """Every edge is a part."""
        return np.arange(len(self.base.edges))

    @property
    def text(self) -> str:
        """A text for `parse` that needs no file."""
        return f"active-edges:{self.base.text}:{self.probability}:seed={self.seed}"


def active_edges(base: object, probability: float, seed: int = 0) -> ActiveEdges:
    """Each edge of a graph is active in each round with some probability, independently of all others.

    >>> print(active_edges("ring:10", 0.5))
    active-edges:ring:10:0.5:seed=0 (10 agents, random rounds, 5 edges per round)
    """
    graph, seed = base_and_seed("active-edges", base, seed)
    p = checks.real("active-edges", "P", probability, most=1)
    spec = f"active-edges:{graph.spec or graph.text}:{p}:seed={seed}"
    return ActiveEdges(graph.n, base=graph, probability=p, seed=seed, spec=spec)


def base_and_seed(topology: str, base: object, seed: int) -> tuple[Graph, int]:
    """The base graph without its weights, which rounds do not use, and the seed."""
    from peerdescent.graphs.spec import as_graph

    graph = as_static(as_graph(base), f"graph {topology}")
    if graph.weights is not None:
        raise InputError(f"graph {topology}: the weights of {graph.spec or 'the graph'} would not be used; drop them.")
    return graph, check_integer(f"graph {topology}: seed", seed, 0, 2**63)


def _agents_and_seed(topology: str, n: int, seed: int) -> tuple[int, int]:
    n = check_integer(f"graph {topology}: N", n, 1)
    checks.size(topology, n, n)
    return n, check_integer(f"graph {topology}: seed", seed, 0, 2**63)
