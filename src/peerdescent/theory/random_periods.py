"""The recursion of a method whose exchanges happen at random: what decides is its mean square."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]


def second_moment(exchanging: Numbers, local: Numbers, probability: float) -> Numbers:
    """The matrices that map E[ssᵀ], as a vector, from one exchange to the next, in each of several modes.

    A round has j local steps with probability p(1−p)^j, and then one that exchanges. So with E and L the matrices of
    both steps and ⊗ the Kronecker product,

        M = Σ_j p(1−p)^j (E L^j)⊗(E L^j) = p (E⊗E)(I − (1−p) L⊗L)⁻¹,

    and E‖s‖² stays bounded if and only if the spectral radius of M is at most 1. M is infinite where the sum is.

    Args:
        exchanging: E, modes × states × states.
        local: L, likewise.
        probability: p.

    >>> second_moment(np.array([[[0.5]]]), np.array([[[1.0]]]), 0.2)
    array([[[0.25]]])
    """
    ours, theirs = _squared(exchanging), (1 - probability) * _squared(local)
    found = np.full(ours.shape, np.inf)
    finite = np.isfinite(ours).all(axis=(1, 2)) & np.isfinite(theirs).all(axis=(1, 2))
    sizes = np.zeros(len(ours))
    sizes[finite] = np.abs(np.linalg.eigvals(theirs[finite])).max(axis=1, initial=0.0)
    finite &= sizes < 1
    inverse = np.linalg.inv(np.eye(ours.shape[1]) - theirs[finite])
    found[finite] = probability * (ours[finite] @ inverse)
    return found


def _squared(matrices: Numbers) -> Numbers:
    """A⊗A for each A."""
    modes, size = matrices.shape[:2]
    with np.errstate(over="ignore", invalid="ignore"):
        products = np.einsum("mij,mkl->mikjl", matrices, matrices)
    return np.asarray(products.reshape(modes, size * size, size * size), dtype=np.float64)
