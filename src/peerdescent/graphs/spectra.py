"""The extreme eigenvalues of L and W, which stability and step sizes depend on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array, identity, issparse
from scipy.sparse.csgraph import reverse_cuthill_mckee
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from peerdescent._util.validation import described
from peerdescent.errors import InputError

DENSE = 500
"""Agents up to which all eigenvalues are computed: faster, and always converges."""
FILL = 30_000_000
"""The largest factorisation in numbers."""
TOLERANCE = 1e-8
"""Of the residual; the error of the eigenvalue of a symmetric matrix is of the order of its square."""
ROUNDING = 1e-14


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

    def lazy(self) -> Spectrum:
        """The eigenvalues of L and of (I+W)/2.

        >>> Spectrum(rho=4.0, rho2=2.0, lambda_min=-0.5, lambda2=0.0, gap=0.5).lazy()
        Spectrum(rho=4.0, rho2=2.0, lambda_min=0.25, lambda2=0.5, gap=0.5)
        """
        lambda_min, lambda2 = (1 + self.lambda_min) / 2, (1 + self.lambda2) / 2
        return Spectrum(self.rho, self.rho2, lambda_min, lambda2, gap=1 - max(abs(lambda2), abs(lambda_min)))

    def scaled(self, c: float) -> Spectrum:
        """The eigenvalues of c·L and of I − c(I−W).

        >>> Spectrum(rho=4.0, rho2=2.0, lambda_min=-0.5, lambda2=0.0, gap=0.5).scaled(0.5)
        Spectrum(rho=2.0, rho2=1.0, lambda_min=0.25, lambda2=0.5, gap=0.5)
        """
        lambda_min, lambda2 = 1 - c * (1 - self.lambda_min), 1 - c * (1 - self.lambda2)
        return Spectrum(self.rho * c, self.rho2 * c, lambda_min, lambda2, gap=1 - max(abs(lambda2), abs(lambda_min)))


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
    rho2, rho = ends_of(laplacian)
    disagreement = csr_array(identity(n) - mixing)  # a Laplacian too
    same = n > DENSE and abs(disagreement - laplacian).max() < ROUNDING
    low, high = (rho2, rho) if same else ends_of(disagreement)
    lambda2, lambda_min = 1.0 - low, 1.0 - high
    return Spectrum(rho, rho2, lambda_min, lambda2, gap=1.0 - max(abs(lambda2), abs(lambda_min)))


def has_negative_weights(laplacian: csr_array) -> bool:
    """Whether an entry off the diagonal is positive; eigenvalues may then be negative, and bounds do not hold."""
    row = np.repeat(np.arange(laplacian.shape[0]), np.diff(laplacian.indptr))
    return bool((laplacian.data[row != laplacian.indices] > 0).any())


def ends_of(laplacian: csr_array) -> tuple[float, float]:
    """The smallest positive and the largest eigenvalue of the Laplacian of a connected graph.

    With negative weights, the second smallest eigenvalue in place of the smallest positive one.
    """
    if laplacian.shape[0] <= DENSE or has_negative_weights(laplacian):
        values = np.linalg.eigvalsh(laplacian.toarray())
        return float(values[1]), float(values[-1])
    if (known := _closed_form(laplacian)) is not None:
        return known
    # Factorisations are cheap on rings, trees, grids and other graphs that are long and thin, where Lanczos stalls
    # since their eigenvalues cluster at the ends. On well-connected graphs they fill up, and Lanczos is fast.
    n = laplacian.shape[0]
    if n * _bandwidth(laplacian) <= FILL:
        return _shift_invert(laplacian)
    try:
        return _lanczos(laplacian)
    except ArpackNoConvergence:
        return _shift_invert(laplacian)


def _closed_form(laplacian: csr_array) -> tuple[float, float] | None:
    """The ends for complete graphs, stars, rings and paths with one weight w on all edges; None for others.

    w·n and w·n, w and w·n, w(2 − 2cos 2π/n) and w(2 − 2cos 2π⌊n/2⌋/n), w(2 − 2cos π/n) and w(2 + 2cos π/n).
    """
    n = laplacian.shape[0]
    weights = -laplacian.data[laplacian.data < 0]
    if len(weights) + n != laplacian.nnz or np.ptp(weights) > ROUNDING * weights.max():  # some are zero, or unequal
        return None
    w, edges = float(weights[0]), len(weights) // 2
    degrees = np.diff(laplacian.indptr) - 1
    if edges == n * (n - 1) // 2:
        return w * n, w * n
    if edges == n - 1 and degrees.max() == n - 1:
        return w, w * n
    if degrees.max() > 2:
        return None
    if edges == n:
        return w * _wave(2 * np.pi / n), w * _wave(2 * np.pi * (n // 2) / n)
    return w * _wave(np.pi / n), w * _wave(np.pi * (n - 1) / n)


def _wave(angle: float) -> float:
    """2 − 2cos(angle), without cancellation."""
    return float(4 * np.sin(angle / 2) ** 2)


def _bandwidth(laplacian: csr_array) -> int:
    """The bandwidth in a good order of the agents; n times this bounds the size of a factorisation."""
    order = reverse_cuthill_mckee(laplacian, symmetric_mode=True)
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    entries = laplacian.tocoo()
    return int(np.abs(place[entries.row] - place[entries.col]).max())


def _lanczos(laplacian: csr_array) -> tuple[float, float]:
    n, bound = laplacian.shape[0], _bound(laplacian)
    # top of bound·(I − 11ᵀ/n) − L: the vector of ones, with eigenvalue zero, is moved out of the way
    flipped = LinearOperator(
        (n, n), matvec=lambda x: bound * (x - x.mean()) - laplacian @ x, dtype=np.dtype(np.float64)
    )
    start = _start(n)
    options: dict[str, Any] = {"ncv": 40, "maxiter": 500, "tol": TOLERANCE, "return_eigenvectors": False}
    low = bound - float(eigsh(flipped, 1, which="LA", v0=start - start.mean(), **options)[0])
    return low, float(eigsh(laplacian, 1, which="LA", v0=start, **options)[0])


def _shift_invert(laplacian: csr_array) -> tuple[float, float]:
    matrix, bound, start = laplacian.tocsc(), _bound(laplacian), _start(laplacian.shape[0])
    below = -1e-6 * bound  # just below zero, where L − below·I is positive definite
    low = float(max(eigsh(matrix, 2, sigma=below, v0=start, return_eigenvectors=False)))
    above = bound * (1 + 1e-8)
    return low, float(eigsh(matrix, 1, sigma=above, v0=start, return_eigenvectors=False)[0])


def _bound(laplacian: csr_array) -> float:
    """Gershgorin: no eigenvalue of L exceeds twice its largest diagonal entry."""
    return 2.0 * float(laplacian.diagonal().max())


def _start(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.random.default_rng(0).standard_normal(n)  # fixed, so that results are repeatable
