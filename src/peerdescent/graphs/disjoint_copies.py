"""Several rounds of a random sequence at once, as one graph of disjoint copies of the agents.

Agent i of copy r has the number r·n + i. A weighting by the degrees of an edge's two ends gives each copy the weights
of its round, so L and W of all of them are the blocks on the diagonal of two matrices, made once for many rounds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from peerdescent.graphs.graph import Graph
from peerdescent.graphs.random_sequences import RandomEdges

MOST_AGENTS = 1024
"""Agents of all copies together, beyond which a round costs no less in company."""


@dataclass(frozen=True)
class DisjointCopies:
    """The graphs of rounds first, …, first + copies − 1.

    Args:
        n: the agents of a round.
        first: the first round.
        graph: the copies, one after another.
    """

    n: int
    first: int
    graph: Graph

    @classmethod
    def of(cls, sequence: RandomEdges, first: int, copies: int) -> DisjointCopies:
        """These rounds of a sequence.

        >>> from peerdescent.graphs import parse
        >>> rounds = DisjointCopies.of(parse("matching:4"), first=6, copies=2)
        >>> rounds.graph.n, [(rounds.pairs(r) == parse("matching:4").graph(r).pairs).all().item() for r in (6, 7)]
        (8, [True, True])
        """
        n, drawn = sequence.n, [sequence.edges_of(first + copy) for copy in range(copies)]
        pairs = np.concatenate([edges + copy * n for copy, (edges, _) in enumerate(drawn)])
        weights = [of_edges for _, of_edges in drawn if of_edges is not None]
        whole = np.concatenate(weights).tolist() if weights else None
        return cls(n, first, Graph.from_pairs(copies * n, pairs, whole, connected=False))

    def pairs(self, round: int) -> NDArray[np.int64]:
        """The edges of a round, in order."""
        copy = round - self.first
        start, stop = self._edges[copy : copy + 2]
        return self.graph.pairs[start:stop] - copy * self.n

    def block(self, matrix: csr_array, round: int) -> csr_array:
        """A round's block of a matrix of all copies."""
        n, copy = self.n, round - self.first
        starts = matrix.indptr[copy * n : (copy + 1) * n + 1]
        entries = slice(starts[0], starts[-1])
        parts = matrix.data[entries], matrix.indices[entries] - copy * n, starts - starts[0]
        return csr_array(parts, shape=(n, n))

    @cached_property
    def _edges(self) -> NDArray[np.int64]:
        """Where the edges of each copy begin."""
        copies = self.graph.n // self.n
        return np.searchsorted(self.graph.pairs[:, 0], np.arange(copies + 1) * self.n)
