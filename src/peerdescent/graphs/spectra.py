"""The extreme eigenvalues of L and W, which stability and step sizes depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, identity, issparse
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from peerdescent._util.validation import described
from peerdescent.errors import InputError

DENSE = 500  # up to this many agents, compute all eigenvalues: faster, and always converges


@dataclass(frozen=True)
class Spectrum:
    """The extreme eigenvalues of a Laplacian L and a mixing matrix W.

    A single agent has rho = rho2 = 0, lambda_min = 1, lambda2 = 0 and gap = 1.

    Args:
        rho: largest eigenvalue of L.
        rho2: smallest positive eigenvalue of L.
        lambda_min: smallest eigenvalue of W.
        lambda2: second largest eigenvalue of W.
        gap: 1 − max(|lambda2|, |lambda_min|); one mixing reduces the disagreement by at least this fraction.
    """

    rho: float
    rho2: float
    lambda_min: float
    lambda2: float
    gap: float


def spectrum(laplacian: csr_array, mixing: csr_array) -> Spectrum:
    """Compute the extreme eigenvalues of L and W of one connected graph.

    Args:
        laplacian: symmetric L with L1 = 0, as from `Graph.laplacian`.
        mixing: symmetric W with W1 = 1, as from `Graph.mixing`.

    >>> from peerdescent.graphs import ring
    >>> found = spectrum(ring(4).laplacian("unit"), ring(4).mixing())
    >>> round(found.rho, 6), round(found.rho2, 6), round(found.gap, 6)
    (4.0, 2.0, 0.666667)
    """
    for name, matrix in (("L", laplacian), ("W", mixing)):
        if not issparse(matrix) or matrix.shape != (matrix.shape[0],) * 2:
            raise InputError(f"{name} is {described(matrix)}: expected a square sparse matrix of a graph.")
    n = laplacian.shape[0]
    if laplacian.shape != mixing.shape:
        raise InputError(f"L is {laplacian.shape} and W is {mixing.shape}; give both matrices of the same graph.")
    if n == 1:
        return Spectrum(rho=0.0, rho2=0.0, lambda_min=1.0, lambda2=0.0, gap=1.0)
    rho2, rho = _ends(laplacian)
    # I − W is a Laplacian too
    low, high = _ends(csr_array(identity(n) - mixing))
    lambda2, lambda_min = 1.0 - low, 1.0 - high
    return Spectrum(rho, rho2, lambda_min, lambda2, gap=1.0 - max(abs(lambda2), abs(lambda_min)))


def _ends(laplacian: csr_array) -> tuple[float, float]:
    """The smallest positive and the largest eigenvalue of the Laplacian of a connected graph."""
    if laplacian.shape[0] <= DENSE:
        values = np.linalg.eigvalsh(laplacian.toarray())
        return float(values[1]), float(values[-1])
    return _smallest_positive(laplacian), _largest(laplacian)


# Lanczos is fast on well-connected graphs, where a factorisation has much fill-in. It stalls on rings, paths and
# trees, whose eigenvalues cluster at the ends; there factorisations are cheap, so use shift-invert.


def _largest(laplacian: csr_array) -> float:
    start = _start(laplacian.shape[0])
    try:
        return float(eigsh(laplacian, 1, which="LA", v0=start, **_lanczos(laplacian))[0])
    except ArpackNoConvergence:
        above = _bound(laplacian) * (1 + 1e-8)
        return float(eigsh(laplacian.tocsc(), 1, sigma=above, v0=start, return_eigenvectors=False)[0])


def _smallest_positive(laplacian: csr_array) -> float:
    n, bound = laplacian.shape[0], _bound(laplacian)
    # top of bound·(I − 11ᵀ/n) − L: the vector of ones, with eigenvalue zero, is moved out of the way
    flipped = LinearOperator(
        (n, n), matvec=lambda x: bound * (x - x.mean()) - laplacian @ x, dtype=np.dtype(np.float64)
    )
    start = _start(n)
    try:
        return bound - float(eigsh(flipped, 1, which="LA", v0=start - start.mean(), **_lanczos(laplacian))[0])
    except ArpackNoConvergence:
        below = -1e-6 * bound  # just below zero, where L − below·I is positive definite
        return float(max(eigsh(laplacian.tocsc(), 2, sigma=below, v0=start, return_eigenvectors=False)))


def _lanczos(laplacian: csr_array) -> dict[str, Any]:
    """Options of Lanczos; very few iterations for a graph with little more edges than a tree."""
    n = laplacian.shape[0]
    edges = (laplacian.nnz - n) / 2
    return {"maxiter": 5 if edges <= 1.1 * n else 500, "ncv": min(n, 64), "return_eigenvectors": False}


def _bound(laplacian: csr_array) -> float:
    """Gershgorin: no eigenvalue of L exceeds twice its largest diagonal entry."""
    return 2.0 * float(laplacian.diagonal().max())


def _start(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(0).standard_normal(n)  # fixed, so that results are repeatable
