"""Which of a method's invariants survive the network: sums over the agents that must stay what they are."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import torch
from scipy.sparse import csr_array

from peerdescent.algorithms import Algorithm, as_algorithm
from peerdescent.algorithms.state import initial_state
from peerdescent.mixing.rounds import Round, Rounds
from peerdescent.theory.agents import as_rounds
from peerdescent.theory.recursion import Equation

LOOKED_AT = 200
"""Rounds of a random sequence that are looked at."""
ROUNDING = 1e-9


@dataclass(frozen=True)
class Invariants:
    """A method's invariants on a network."""

    names: tuple[str, ...]
    """Those that the method has."""
    broken_in: int | None = None
    """The first round whose columns do not sum to zero, which breaks all of them; None if none does."""
    looked_at: int = 0
    """How many rounds were checked."""

    @property
    def survive(self) -> bool:
        """Whether they hold in every round that was checked."""
        return self.broken_in is None

    def __str__(self) -> str:
        if not self.names:
            return ""
        names = ", ".join(self.names)
        if self.survive:
            return f"{names}: kept in every round"
        return f"{names}: broken from round {self.broken_in} on, where messages arrive in one direction only"


def invariants(algorithm: Algorithm, weights: Rounds) -> Invariants:
    """Which invariants of a method survive on a network.

    They say that a sum over the agents is conserved, and hold if and only if the columns of the matrix that the method
    uses sum to zero in every round, on directed graphs those of I − P. Symmetric rounds keep them, also with messages
    that are late or compressed with public copies, because then all neighbours use the same rows. A message that is
    lost in one direction only breaks them: the method then converges to another point, or drifts.

    Args:
        algorithm: the method.
        weights: L and W of every round; of a random sequence the first 200 rounds are checked.

    >>> from peerdescent.algorithms import make
    >>> from peerdescent.graphs import ring
    >>> from peerdescent.mixing.weights import MixingWeights
    >>> method = make("d2")
    >>> str(invariants(method, MixingWeights.build(ring(4), "metropolis", "metropolis", method)))
    'sum of v = 0: kept in every round'
    """
    state = initial_state(as_algorithm(algorithm), torch.zeros(2, 1))
    names = tuple(algorithm.invariants(SimpleNamespace(**state)))
    equation, rounds = Equation(algorithm), as_rounds(weights)
    count = rounds.period or LOOKED_AT
    for number in range(count):
        given = rounds.at(number)
        matrices = {"laplacian": given.laplacian, "disagreement": given.disagreement}
        sums = [_change_of_sums(matrices[kind], given) for kind in sorted(equation.kinds)]
        if names and max(sums, default=0.0) > ROUNDING:
            return Invariants(names, number, number + 1)
    return Invariants(names, None, count)


def _change_of_sums(matrix: csr_array, given: Round) -> float:
    """By how much a round changes sums over the agents: with push-sum weights w, 1ᵀ(wx) becomes w⁺ᵀ(I − M)x."""
    if given.push_sum is None:
        return float(np.abs(matrix.sum(axis=0)).max(initial=0.0))
    before, after = given.push_sum
    return float(np.abs(after - matrix.T @ after - before).max(initial=0.0))
