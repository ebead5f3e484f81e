"""Random sequences: the graph of a round is a pure function of the seed and the round."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

from peerdescent._util.randomness import stream
from peerdescent._util.validation import check_integer
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.sequence import GraphSequence
from peerdescent.graphs.topologies import complete


@dataclass(frozen=True)
class RandomMatchings(GraphSequence):
    """A uniformly random perfect matching in every round; with an odd number of agents one of them stays alone.

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
    def mean_edges(self) -> float:
        """The number of edges of a round."""
        return self.n // 2

    def edges_before(self, round: int) -> int:
        """The number of edges of all earlier rounds."""
        return check_integer("the round", round, 0) * (self.n // 2)

    def _make(self, round: int) -> Graph:
        order = stream(self.seed, "matching", block=round).permutation(self.n)
        return Graph.from_pairs(self.n, order[: self.n // 2 * 2].reshape(-1, 2), connected=False)


def matching(n: int, seed: int = 0) -> RandomMatchings:
    """A uniformly random perfect matching in every round; with an odd number of agents one of them stays alone.

    >>> print(matching(6))
    matching:6:seed=0 (6 agents, random rounds, 3 edges per round)
    """
    n, seed = _agents_and_seed("matching", n, seed)
    return RandomMatchings(n, seed=seed, spec=f"matching:{n}:seed={seed}")


def _agents_and_seed(topology: str, n: int, seed: int) -> tuple[int, int]:
    n = check_integer(f"graph {topology}: N", n, 1)
    checks.size(topology, n, n)
    return n, check_integer(f"graph {topology}: seed", seed, 0, 2**63)
