"""L and W of graphs over time: the weights of every round, made when the round comes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import scipy.sparse
from numpy.typing import NDArray

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph, DirectedGraph, Graph, GraphSequence, Spectrum, spectrum
from peerdescent.graphs.disjoint_copies import MOST_AGENTS, DisjointCopies
from peerdescent.graphs.matrices import BY_EDGE, CONNECTED_ONLY, disagreement
from peerdescent.graphs.own_weights import as_kind, is_own, label
from peerdescent.graphs.random_sequences import RandomEdges
from peerdescent.mixing.push_sum import PushSumRounds
from peerdescent.mixing.rounds import Round, Sparse, both_directions
from peerdescent.mixing.weights import MATCHED, MixingWeights, matched_step

SAMPLED_ROUNDS = 100
"""Rounds of a random sequence whose mean stands for the expected one."""
DEFAULT_MIXING = "metropolis"


@dataclass(frozen=True)
class SequenceWeights:
    """A graph sequence with the L and W of each round.

    Args:
        graph: the graphs.
        laplacian_kind: of L.
        mixing_kind: of W, unless the rounds have weights of their own.
        step: the αη by which the matched Laplacian (I−W)/(αη) is divided.
        lazy: whether W becomes (I+W)/2.
        notes: what was changed for the method to work, in sentences.
    """

    graph: GraphSequence
    laplacian_kind: str
    mixing_kind: str
    step: float = 1.0
    lazy: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def build(cls, graph: GraphSequence, laplacian: str, mixing: str, algorithm: Algorithm) -> SequenceWeights:
        """The weights of these kinds; (I+W)/2 for a method that needs it on some graphs, since rounds differ."""
        if graph.weighted_rounds and mixing != DEFAULT_MIXING:
            raise InputError(
                f"mixing = {mixing!r}: {graph.spec or 'the sequence'} has weights of its own, by which it reaches "
                "consensus; leave mixing out."
            )
        _check_kinds(laplacian, mixing)
        lazy = algorithm.mixing(-1.0) == "lazy"
        note = f"{type(algorithm).__name__} mixes with (I+W)/2 instead of W, because the graph changes over time."
        made = cls(
            graph, laplacian, mixing, matched_step(algorithm) if laplacian == MATCHED else 1.0, lazy, (note,) * lazy
        )
        first = made.at(0)  # refuses kinds that do not exist
        _ = first.laplacian, first.disagreement
        return made

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.graph.n

    @property
    def period(self) -> int | None:
        """Rounds after which they repeat; None for random ones."""
        return self.graph.period

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return both_directions(self.graph.union.pairs)

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1, for each vector that is sent."""
        return 2 * (self.graph.edges_before(last) - self.graph.edges_before(first))

    def at(self, round: int) -> Round:
        """L, I−W and the pairs of a round."""
        if not self._rounds_at_once:
            return self._round(self.graph.graph(round))
        copies, whole = self._copies(round // self._rounds_at_once)
        return Round(
            lambda: copies.block(whole.laplacian, round),
            lambda: copies.block(whole.disagreement, round),
            lambda: both_directions(copies.pairs(round)),
            block_of=(whole, round - copies.first),
        )

    def _round(self, graph: Graph) -> Round:
        """L, I−W and the pairs of a graph."""
        laplacian, complement = partial(self._laplacian, graph), partial(self._complement, graph)
        return Round(laplacian, complement, both_directions(graph.pairs))

    @cached_property
    def _rounds_at_once(self) -> int:
        """How many rounds are made at once, which costs each of them less; 0 if they are made one by one."""
        by_edge = self.graph.weighted_rounds or self.mixing_kind in BY_EDGE
        return MOST_AGENTS // self.n if by_edge and isinstance(self.graph, RandomEdges) else 0

    def _copies(self, number: int) -> tuple[DisjointCopies, Round]:
        """The rounds that are made at once, numbered 0, 1, …; the last ones are kept."""
        kept = self._kept_copies
        if number not in kept:
            assert isinstance(self.graph, RandomEdges)
            kept.clear()
            made = DisjointCopies.of(self.graph, number * self._rounds_at_once, self._rounds_at_once)
            kept[number] = made, self._round(made.graph)
        return kept[number]

    @cached_property
    def _kept_copies(self) -> dict[int, tuple[DisjointCopies, Round]]:
        return {}

    def _laplacian(self, graph: Graph) -> Sparse:
        """L of a round's graph."""
        if self.laplacian_kind == MATCHED:
            return Sparse(self._disagreement(graph) / self.step)
        return graph.laplacian(self.laplacian_kind)

    def _complement(self, graph: Graph) -> Sparse:
        """I−W as the method mixes with it."""
        found = self._disagreement(graph)
        return Sparse(found / 2) if self.lazy else found

    def _disagreement(self, graph: Graph) -> Sparse:
        """I−W of a round's graph."""
        if self.graph.weighted_rounds and graph.weights is not None:
            return graph.laplacian("weighted")
        return disagreement(graph, self.mixing_kind)

    @cached_property
    def spectrum(self) -> Spectrum:
        """The eigenvalues of the mean L and W of a period, or of the first rounds of a random sequence."""
        rounds = [self.at(r) for r in range(self.period or SAMPLED_ROUNDS)]
        laplacian = sum((r.laplacian for r in rounds[1:]), rounds[0].laplacian) / len(rounds)
        disagreement = sum((r.disagreement for r in rounds[1:]), rounds[0].disagreement) / len(rounds)
        mixing = scipy.sparse.csr_array(scipy.sparse.eye_array(self.n) - disagreement)
        return spectrum(scipy.sparse.csr_array(laplacian), mixing)


def _check_kinds(laplacian: str, mixing: str) -> None:
    """Refuse a matrix and kinds that are for one connected graph."""
    for name, kind, one in (("laplacian", laplacian, ()), ("mixing", mixing, CONNECTED_ONLY)):
        if is_own(kind) or kind in one:
            raise InputError(
                f"{name} = {label(kind)!r} is for one connected graph, and here the graph changes over time: use "
                "'metropolis', or a graph that stays."
            )


Weights = MixingWeights | SequenceWeights | PushSumRounds


def make_weights(graph: AnyGraph, laplacian: str, mixing: str, algorithm: Algorithm) -> Weights:
    """The weights of a graph, of a sequence of graphs, or of a directed graph.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import parse
    >>> weights = make_weights(parse("onepeer-exp:4"), "metropolis", "metropolis", make("d-sgd-1"))
    >>> print(weights.at(1).disagreement.toarray())
    [[ 0.5  0.  -0.5  0. ]
     [ 0.   0.5  0.  -0.5]
     [-0.5  0.   0.5  0. ]
     [ 0.  -0.5  0.   0.5]]
    """
    laplacian, mixing = as_kind("laplacian", laplacian), as_kind("mixing", mixing)
    if isinstance(graph, Graph):
        return MixingWeights.build(graph, laplacian, mixing, algorithm)
    if isinstance(graph, DirectedGraph):
        return PushSumRounds.build(graph, laplacian, mixing, algorithm)
    return SequenceWeights.build(graph, laplacian, mixing, algorithm)
