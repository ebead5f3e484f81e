"""Push-sum: the weights of directed graphs, round by round.

Agents send parts of x and of a weight w, x⁺ = P_k x and w⁺ = P_k w with w_0 = 1, and z = x/w is their estimate of the
mean (Kempe, Dobra and Gehrke 2003). In terms of z alone a round is row-stochastic,

    z⁺ = A_k z,    A_k = diag(w_(k+1))⁻¹ P_k diag(w_k),

so equal rows stay equal, and Σ_i w_i z_i stays as it is. The weights w depend on the graph and the round only:
everybody who knows the graph computes them, in double precision, and they are not sent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import scipy.sparse.linalg
from numpy.typing import NDArray

from peerdescent.algorithms import Algorithm, name_of
from peerdescent.errors import InputError
from peerdescent.graphs import Spectrum
from peerdescent.graphs.directed import DirectedGraph
from peerdescent.graphs.push_weights import push_matrix
from peerdescent.mixing.rounds import Round

Vector = NDArray[np.float64]
Matrix = scipy.sparse.csr_array
SETTLED = 1e-13
"""A relative change of the weights over one period that counts as none; they approach their limit geometrically."""
STRIDE = 1024
"""Every so many rounds the weights are kept, so that any round is reached from there."""
UNDEFINED = Spectrum(*[float("nan")] * 5)
"""P is not symmetric: eigenvalues may be complex."""
DEFAULT = "metropolis"


class Masses:
    """The weights w of push-sum: w_0 = 1, w_(k+1) = P_k w_k, for any round at any time.

    As soon as a period changes them by no more than rounding, they repeat with the graph.

    Args:
        n: the number of agents.
        period: of the graph.
        matrix: P of a round of the period.
    """

    def __init__(self, n: int, period: int, matrix: Callable[[int], Matrix]) -> None:
        self._period, self._matrix = period, matrix
        self._kept: dict[int, Vector] = {0: np.ones(n)}
        self._front, self._newest, self._base = 0, self._kept[0], self._kept[0]
        self._last = 0, self._kept[0]
        self.settled_at: int | None = None
        """The first round from which on they repeat; None as long as that is not known."""

    def representative(self, round: int) -> int:
        """The first round with the same weights and the same P, as far as that is known."""
        if self.settled_at is None or round < self.settled_at:
            return round
        return self.settled_at + (round - self.settled_at) % self._period

    def reach(self, round: int) -> int:
        """Find out whether the weights have settled by this round; its representative."""
        while self.settled_at is None and self._front < round + self._period:
            self._advance()
        return self.representative(round)

    def at(self, round: int) -> Vector:
        """The weights before the exchange of a round."""
        round = self.reach(round)
        first, w = self._last  # rounds come in order, mostly
        if not first <= round <= first + STRIDE:
            first = max(kept for kept in self._kept if kept <= round)
            w = self._kept[first]
        for r in range(first, round):
            w = self._matrix(r % self._period) @ w
        self._last = round, w
        return w

    def _advance(self) -> None:
        self._newest = self._matrix(self._front % self._period) @ self._newest
        self._front += 1
        if self._front % STRIDE == 0:
            self._kept[self._front] = self._newest
        if self._front % self._period == 0:
            if (np.abs(self._newest - self._base) <= SETTLED * self._base).all():
                self.settled_at = self._front - self._period
                self._kept[self.settled_at] = self._base
            self._base = self._newest


@dataclass(frozen=True)
class PushSumRounds:
    """A directed graph with P of every round, as its rounds A_k for z = x/w.

    Args:
        graph: who sends to whom.
        mixing_kind: of P, see `push_matrix`.
        notes: in sentences.
    """

    graph: DirectedGraph
    mixing_kind: str = DEFAULT
    notes: tuple[str, ...] = ()

    @classmethod
    def build(cls, graph: DirectedGraph, laplacian: str, mixing: str, algorithm: Algorithm) -> PushSumRounds:
        """The rounds of a method; InputError for one that needs the same weights in both directions."""
        if not algorithm.directed:
            raise InputError(
                f"{name_of(algorithm)} needs messages in both directions of every edge, and "
                f"{graph.spec or 'the graph'} is directed: use sgp or push-diging, or an undirected graph."
            )
        if laplacian != DEFAULT:
            raise InputError(f"laplacian = {laplacian!r}: methods on directed graphs use no Laplacian; leave it out.")
        made = cls(graph, mixing)
        for r in range(graph.period):
            made.shares(r)  # refuses weights that do not exist
        return made

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.graph.n

    @cached_property
    def _shares(self) -> dict[int, Matrix]:
        return {}

    def shares(self, round: int) -> Matrix:
        """P of a round: entry (i, j) is the part of j's message that i gets."""
        number = round % self.graph.period
        if number not in self._shares:
            self._shares[number] = push_matrix(self.graph, number, self.mixing_kind)
        return self._shares[number]

    @cached_property
    def masses(self) -> Masses:
        """The weights w of every round."""
        return Masses(self.n, self.graph.period, self.shares)

    @cached_property
    def balanced(self) -> bool:
        """Whether every P is doubly stochastic, so that w = 1 always: everybody gets as much as it sends."""
        ones = np.ones(self.n)
        return all(np.abs(self.shares(r) @ ones - 1).max() <= SETTLED for r in range(self.graph.period))

    @property
    def period(self) -> int | None:
        """Rounds after which they repeat; None if the weights first have to settle."""
        if self.balanced:
            return self.graph.period
        self.masses.reach(0)
        return self.graph.period if self.masses.settled_at == 0 else None

    def representative(self, round: int) -> int:
        """The first round that is the same."""
        return round % self.graph.period if self.balanced else self.masses.reach(round)

    def settled(self) -> SettledRounds:
        """The rounds as they are once the weights have settled."""
        return SettledRounds(self)

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return self.graph.all_arcs[:, ::-1]

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1, for each vector that is sent."""
        return self.graph.edges_before(last) - self.graph.edges_before(first)

    def at(self, round: int) -> Round:
        """I − A and the pairs of a round, and the weights before and after it unless they are all one."""
        if self.balanced:
            return pushed_round(self.shares(round), self.graph.arcs(round).pairs)
        w, after = self.masses.at(round), self.masses.at(round + 1)
        return pushed_round(self.shares(round), self.graph.arcs(round).pairs, w, after)

    @property
    def spectrum(self) -> Spectrum:
        """Not defined."""
        return UNDEFINED

    def __getstate__(self) -> dict[str, Any]:
        """The fields; the rest is computed again."""
        return {each.name: self.__dict__[each.name] for each in fields(self)}


def pushed_round(P: Matrix, arcs: NDArray[Any], before: Vector | None = None, after: Vector | None = None) -> Round:
    """The round of z = x/w for x⁺ = Px, with the weights w before and after it.

    >>> P = scipy.sparse.csr_array(np.array([[0.5, 0.5], [0.5, 0.5]]))
    >>> print(pushed_round(P, np.array([[0, 1], [1, 0]]), np.array([0.5, 1.5]), np.ones(2)).disagreement.toarray())
    [[ 0.75 -0.75]
     [-0.25  0.25]]
    """
    entries = P.tocoo()
    row, column = entries.coords
    off = row != column
    row, column, value = row[off], column[off], entries.data[off]
    if before is not None and after is not None:
        value = value * before[column] / after[row]
    every = np.arange(P.shape[0])
    diagonal = np.bincount(row, value, minlength=P.shape[0])
    where = np.concatenate([row, every]), np.concatenate([column, every])
    D = Matrix(scipy.sparse.coo_array((np.concatenate([-value, diagonal]), where), shape=P.shape))
    D.sort_indices()
    push_sum = None if before is None or after is None else (before, after)
    return Round(D, D, arcs[:, ::-1], push_sum)


@dataclass(frozen=True)
class SettledRounds:
    """Push-sum rounds whose weights have settled, which decide what happens in the long run.

    With Q the product of one period's P, the weights are the vector with Qw = w.
    """

    given: PushSumRounds

    @property
    def n(self) -> int:
        """Number of agents."""
        return self.given.n

    @property
    def period(self) -> int:
        """That of the graph."""
        return self.given.graph.period

    @property
    def pairs(self) -> NDArray[Any]:
        """Receivers and senders of all rounds together."""
        return self.given.pairs

    def messages(self, first: int, last: int) -> int:
        """How many rows travel along edges in rounds first, …, last − 1, for each vector that is sent."""
        return self.given.messages(first, last)

    @cached_property
    def weights(self) -> list[Vector]:
        """The weights before each round of a period."""
        if self.given.balanced:
            return [np.ones(self.n)] * self.period
        product = scipy.sparse.eye_array(self.n, format="csr")
        for r in range(self.period):
            product = self.given.shares(r) @ product
        found = [_stationary(Matrix(product))]
        for r in range(self.period - 1):
            found.append(self.given.shares(r) @ found[-1])
        return found

    def at(self, round: int) -> Round:
        """I − A, the pairs and the weights of a round."""
        number = round % self.period
        arcs, P = self.given.graph.arcs(number).pairs, self.given.shares(number)
        if self.given.balanced:
            return pushed_round(P, arcs)
        return pushed_round(P, arcs, self.weights[number], self.weights[(number + 1) % self.period])


def _stationary(Q: Matrix) -> Vector:
    """The vector w > 0 with Qw = w and Σw = n, for a column-stochastic Q with a positive diagonal."""
    n = Q.shape[0]
    # The columns of I − Q sum to zero: one equation is redundant and becomes w_0 = 1.
    system = scipy.sparse.lil_array(scipy.sparse.eye_array(n) - Q)
    system[0] = 0
    system[0, 0] = 1.0
    right = np.zeros(n)
    right[0] = 1.0
    w = np.asarray(scipy.sparse.linalg.spsolve(scipy.sparse.csc_array(system), right), dtype=np.float64)
    return np.asarray(w * (n / w.sum()), dtype=np.float64)
