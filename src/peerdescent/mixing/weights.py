"""The weights of a run: L, W, their spectrum, and what was changed for the method to work."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import scipy.sparse
from numpy.typing import NDArray

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, Spectrum, spectrum
from peerdescent.graphs.matrices import mixing_note
from peerdescent.graphs.own_weights import as_kind
from peerdescent.mixing.rounds import Round, both_directions

Matrix = scipy.sparse.csr_array
MATCHED = "matched"
"""The Laplacian (I−W)/(αη), with which ηαL = I−W."""


@dataclass(frozen=True)
class MixingWeights:
    """A graph with the L and W that a run uses, and their spectrum."""

    graph: Graph
    laplacian: scipy.sparse.csr_array
    mixing: scipy.sparse.csr_array
    spectrum: Spectrum
    notes: tuple[str, ...] = ()
    """What was changed for the method to work, and how good the weights are, in sentences."""

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.graph.n

    @property
    def period(self) -> int:
        """Every round is the same."""
        return 1

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders."""
        return both_directions(self.graph.pairs)

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1, for each vector that is sent."""
        return (last - first) * 2 * len(self.graph.edges)

    def at(self, round: int) -> Round:
        """L, I−W and the pairs, the same in every round."""
        disagreement = scipy.sparse.csr_array(scipy.sparse.eye_array(self.n) - self.mixing)
        return Round(self.laplacian, disagreement, self.pairs)

    def scaled(self, c: float) -> MixingWeights:
        """The same with c·L and c·(I−W)."""
        if c == 1:
            return self
        W = scipy.sparse.csr_array(scipy.sparse.eye_array(self.n) * (1 - c) + self.mixing * c)
        W.sort_indices()
        return replace(self, laplacian=self.laplacian * c, mixing=W, spectrum=self.spectrum.scaled(c))

    @classmethod
    def build(cls, graph: Graph, laplacian: str, mixing: str, algorithm: Algorithm) -> MixingWeights:
        """Build L and W of these kinds, L = (I−W)/(αη) for "matched"; W becomes (I+W)/2 where the method needs it."""
        laplacian, mixing = as_kind("laplacian", laplacian), as_kind("mixing", mixing)
        step = matched_step(algorithm) if laplacian == MATCHED else 1.0
        L, W, spectral = _matrices(graph, laplacian, mixing, step)
        notes = tuple(filter(None, [mixing_note(graph, mixing)]))
        if algorithm.mixing(spectral.lambda_min) == "as-is":
            return cls(graph, L, W, spectral, notes)
        note = (
            f"λmin(W) = {spectral.lambda_min:.3f} is too low for {type(algorithm).__name__}: "
            "it mixes with (I+W)/2 instead of W."
        )
        lazy = scipy.sparse.csr_array((scipy.sparse.eye_array(graph.n) + W) / 2)
        lazy.sort_indices()
        return cls(graph, L, lazy, spectral.lazy(), (*notes, note))


@functools.lru_cache(maxsize=8)
def _matrices(graph: Graph, laplacian: str, mixing: str, step: float) -> tuple[Matrix, Matrix, Spectrum]:
    """L, W and their spectrum; the methods of one experiment share them, and eigenvalues take a while."""
    W = graph.mixing(mixing)
    if laplacian == MATCHED:
        L = scipy.sparse.csr_array((scipy.sparse.eye_array(graph.n) - W) / step)
    else:
        L = graph.laplacian(laplacian)
    return L, W, spectrum(L, W)


def matched_step(algorithm: Algorithm) -> float:
    """The nominal αη by which the matched Laplacian is divided; 1 for methods without such a product."""
    h = algorithm.nominal()
    step = h["alpha"] * h["eta"] if "alpha" in h and "eta" in h else 1.0
    if step == 0:
        raise InputError("laplacian = 'matched' divides by αη, which is 0: set alpha and eta above 0, or another kind.")
    return step
