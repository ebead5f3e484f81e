"""How fast plain mixing x⁺ = Wx brings agents together when every round has its own W."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

from peerdescent._util.validation import check_number
from peerdescent.algorithms import DSGD1
from peerdescent.errors import InputError
from peerdescent.mixing.rounds import Rounds
from peerdescent.theory.agents import as_rounds
from peerdescent.theory.recursion import Equation, Numbers
from peerdescent.theory.sequences import PeriodRadii

SAMPLE = 500
"""Rounds of a random sequence whose mean WᵀW is taken."""
DENSE_UP_TO = 500
NOTHING = 1e-12
"""A contraction below it is exact consensus up to rounding."""


@dataclass(frozen=True)
class Contraction:
    """The factor by which mixing shrinks disagreement."""

    per_round: float
    """The factor of one round: the root of a period's; for random rounds √ρ(E[WᵀW] − 11ᵀ/n)."""
    period: int | None
    """The rounds of one period; None for rounds that never repeat."""
    sample: int = 0
    """The rounds from which the expectation was estimated; 0 if nothing was estimated."""
    spread: float = 0.0
    """Half of the 95 % confidence interval of `per_round`."""

    @property
    def per_period(self) -> float | None:
        """The spectral radius of W_{T−1}⋯W_0 on disagreement."""
        return None if self.period is None else self.per_round**self.period

    @property
    def gap(self) -> float:
        """1 − the factor of one round, which is the spectral gap if W never changes."""
        return 1 - self.per_round

    def __str__(self) -> str:
        if self.period is None:
            spread = f" ± {self.spread:.2g}, estimated from {self.sample:,} rounds" if self.sample else ""
            return f"expected contraction {self.per_round:.4g} per round{spread}"
        whole = self.per_period or 0.0
        rounds = f"{self.period} round{'s' * (self.period > 1)}"
        if whole < NOTHING:
            return f"exact consensus after one period of {rounds}"
        return f"one period of {rounds} shrinks disagreement to {whole:.4g} of it, {self.per_round:.4g} per round"


def contraction(weights: Rounds, sample: int = SAMPLE) -> Contraction:
    """The factor by which x⁺ = Wx shrinks the agents' disagreement per round.

    If the rounds repeat, it is the T-th root of the spectral radius of one period's product of T matrices. If they
    never do, E‖x⁺ − x̄‖² ≤ ρ(E[WᵀW] − 11ᵀ/n) ‖x − x̄‖² for independent rounds; the expectation is the mean of the
    first `sample` rounds.

    Args:
        weights: L and W of every round.
        sample: how many rounds of a random sequence are used.
    """
    rounds = as_rounds(weights)
    if rounds.n == 1:
        return Contraction(0.0, rounds.period)
    if rounds.period is not None:
        radii = PeriodRadii(Equation(DSGD1()), rounds, 0.0, 1)
        return Contraction(float(radii.over(np.ones(1))[0, 0]), rounds.period)
    matrices = [rounds.at(r).disagreement for r in range(sample)]
    mean = sum(matrices[1:], start=matrices[0]) / sample
    squares = sum((D.T @ D for D in matrices[1:]), start=matrices[0].T @ matrices[0]) / sample
    value, vector = _top(scipy.sparse.csr_array(squares - mean - mean.T), rounds.n)
    shares = np.array([float(np.sum((vector - D @ vector) ** 2)) for D in matrices])
    per_round, error = math.sqrt(max(0.0, value)), 1.96 * float(shares.std(ddof=1)) / math.sqrt(sample)
    return Contraction(per_round, None, sample, error / (2 * per_round) if per_round else 0.0)


def lossy_contraction(disagreement: scipy.sparse.csr_array, drop: float) -> Contraction:
    """The expected contraction if both messages of an edge are lost together with this probability, independently.

    With w_e the weight of edge e and b_e ≠ 0 if its messages arrive, W = I − Σ b_e w_e L_e, so that
    E[W²] = (I − (1−q)(I−W̄))² + 2q(1−q) Σ w_e² L_e exactly, where W̄ is W without losses.

    Args:
        disagreement: I−W̄, symmetric.
        drop: the probability q.

    >>> from peerdescent.graphs import complete
    >>> W = complete(2).mixing()
    >>> round(lossy_contraction(scipy.sparse.csr_array(scipy.sparse.eye_array(2) - W), 0.25).per_round, 6)
    0.5
    """
    q, n = check_number("drop", drop, 0, 1), disagreement.shape[0]
    if abs(disagreement - disagreement.T).max() > 1e-9:
        raise InputError("the matrix I−W is not symmetric: expected the same weight in both directions of an edge.")
    weights = disagreement.copy()
    weights.setdiag(0)
    squared = weights.multiply(weights)
    laplacians = scipy.sparse.diags_array(np.asarray(squared.sum(axis=1)).ravel()) - squared
    kept = (1 - q) * disagreement
    found, _ = _top(scipy.sparse.csr_array(kept @ kept - 2 * kept + 2 * q * (1 - q) * laplacians), n)
    return Contraction(math.sqrt(max(0.0, found)), None)


def _top(change: scipy.sparse.csr_array, n: int) -> tuple[float, Numbers]:
    """The largest eigenvalue, and its vector, of I + change − 11ᵀ/n, where change·1 = 0."""
    if n <= DENSE_UP_TO:
        values, vectors = np.linalg.eigh(np.eye(n) - 1 / n + change.toarray())
        return float(values[-1]), np.asarray(vectors[:, -1], dtype=np.float64)
    operator = LinearOperator((n, n), matvec=lambda x: x - x.mean() + change @ x, dtype=np.dtype(np.float64))
    start = np.random.default_rng(0).standard_normal(n)
    try:
        values, vectors = eigsh(operator, 1, which="LA", v0=start - start.mean(), tol=1e-7)
    except ArpackError as error:
        raise InputError(f"no prediction: the eigenvalues of E[WᵀW] did not converge ({error}).") from error
    return float(values[0]), np.asarray(vectors[:, 0], dtype=np.float64)
