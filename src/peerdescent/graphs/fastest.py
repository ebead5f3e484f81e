"""The fastest symmetric averaging on a graph: min ‖W − 11ᵀ/n‖₂ over the weights of its edges (Xiao and Boyd, 2004).

With W = I − Σ_e w_e a_e a_eᵀ, a_e = e_i − e_j, and M(w) = W − 11ᵀ/n this is a semidefinite program,

    minimise s   subject to   sI − M(w) ⪰ 0,   sI + M(w) ⪰ 0.

A barrier method solves it: Newton steps on t·s − log det(sI − M) − log det(sI + M) for growing t. Weights may be
negative. Any symmetric Y with a_eᵀ Y a_e = 0 on all edges certifies ‖M(w)‖₂ ≥ tr Y(I − 11ᵀ/n) / ‖Y‖_* for every w,
since the right-hand side is tr Y M(w) / ‖Y‖_*; near the optimum Y = (sI − M)⁻¹ − (sI + M)⁻¹ almost is such a matrix.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from peerdescent.errors import InputError

if TYPE_CHECKING:
    from peerdescent.graphs.graph import Graph

Numbers = NDArray[np.float64]
MOST_EDGES = 1000
"""Every Newton step solves a system with one unknown per edge."""
TOLERANCE = 1e-7
"""Of the smallest norm, absolute."""
GROWTH, MOST_STEPS = 10.0, 300
GRID = 2.0**24
"""Weights are rounded to multiples of 1/GRID, so that machines with other rounding find the same ones."""


class Fastest(NamedTuple):
    """The weights with their certificate."""

    weights: Numbers
    """One per edge, in the order of the graph's edges."""
    norm: float
    """‖W − 11ᵀ/n‖₂ of these weights."""
    bound: float
    """No weights on this graph have a smaller norm."""

    @property
    def note(self) -> str:
        """How good the weights are, in words."""
        gap, negative = max(self.norm - self.bound, 0.0), int((self.weights < 0).sum())
        signs = f"; {negative} of {len(self.weights)} weights are negative" if negative else ""
        return f"fastest weights: ‖W − 11ᵀ/n‖ = {self.norm:.6g}, at most {gap:.1e} above the smallest possible{signs}."


@functools.lru_cache(maxsize=8)
def fastest(graph: Graph) -> Fastest:
    """The weights with the smallest ‖W − 11ᵀ/n‖₂ on a graph, and a lower bound of it.

    Raises:
        InputError: the graph has too many edges, or is not connected.

    >>> from peerdescent.graphs import path
    >>> found = fastest(path(4))
    >>> found.weights.round(4).tolist(), round(found.norm, 5)
    ([0.5, 0.5, 0.5], 0.70711)
    """
    edges = len(graph.edges)
    if edges > MOST_EDGES:
        minutes = edges**3 / MOST_EDGES**3
        raise InputError(
            f"the mixing matrix 'fastest' takes a system of {edges:,} unknowns per step here, one per edge, about "
            f"{minutes:,.0f} minutes in all: it is limited to {MOST_EDGES:,} edges; use 'best-constant'."
        )
    if not edges:
        return Fastest(np.zeros(0), 0.0, 0.0)
    program = _Program(graph.n, graph.pairs)
    w, bound = program.solve()
    w = np.round(w * GRID) / GRID
    norm = program.norm(w)
    if norm > 1 - 1e-9:
        raise InputError("the mixing matrix 'fastest' needs a connected graph; use 'metropolis'.")
    return Fastest(w, norm, bound)


class _Program:
    """The semidefinite program of one graph."""

    def __init__(self, n: int, pairs: NDArray[np.int64]) -> None:
        self.n, (self.i, self.j) = n, pairs.T
        self.eye = np.eye(n)

    def M(self, w: Numbers) -> Numbers:
        """W − 11ᵀ/n."""
        M = self.eye - 1.0 / self.n
        np.add.at(M, (self.i, self.j), w)
        np.add.at(M, (self.j, self.i), w)
        np.subtract.at(M, (self.i, self.i), w)
        np.subtract.at(M, (self.j, self.j), w)
        return M

    def norm(self, w: Numbers) -> float:
        """‖W − 11ᵀ/n‖₂."""
        return float(np.abs(np.linalg.eigvalsh(self.M(w))).max())

    def solve(self) -> tuple[Numbers, float]:
        """The weights, and the best lower bound that was found on the way to them."""
        degree = np.bincount(np.concatenate([self.i, self.j]), minlength=self.n).max()
        w = np.full(len(self.i), 1.0 / (1.0 + degree))
        s = self.norm(w) + 0.1
        t, left, bound = 2.0 * self.n / s, MOST_STEPS, 0.0
        while True:
            w, s, used = self._centre(w, s, t, left)
            left, bound = left - used, max(bound, self.lower_bound(w, s))
            if self.norm(w) - bound < TOLERANCE or 2 * self.n / t < TOLERANCE / 10 or left <= 0:
                return w, bound
            t *= GROWTH

    def _centre(self, w: Numbers, s: float, t: float, most: int) -> tuple[Numbers, float, int]:
        """Minimise the barrier function of this t."""
        value = self._barrier(w, s, t)
        for used in range(most):
            dw, ds, decrement = self._newton(w, s, t)
            if not decrement >= 1e-7:
                return w, s, used
            step = 1.0
            while not (new := self._barrier(w + step * dw, s + step * ds, t)) <= value - 0.1 * step * decrement:
                step /= 2
                if step < 1e-10:  # rounding is all that is left
                    return w, s, used + 1
            w, s, value = w + step * dw, s + step * ds, new
        return w, s, most

    def _barrier(self, w: Numbers, s: float, t: float) -> float:
        """t·s − log det(sI − M) − log det(sI + M); infinite outside."""
        M, total = self.M(w), t * s
        for F in (s * self.eye - M, s * self.eye + M):
            try:
                total -= 2.0 * float(np.log(np.diag(np.linalg.cholesky(F))).sum())
            except np.linalg.LinAlgError:
                return np.inf
        return total

    def _newton(self, w: Numbers, s: float, t: float) -> tuple[Numbers, float, float]:
        """The Newton step, and the squared Newton decrement."""
        M = self.M(w)
        U, V = np.linalg.inv(s * self.eye - M), np.linalg.inv(s * self.eye + M)
        Ua, Va = (B[:, self.i] - B[:, self.j] for B in (U, V))
        aUa, aVa = (B[self.i] - B[self.j] for B in (Ua, Va))
        m = len(w)
        hessian = np.empty((m + 1, m + 1))
        hessian[:m, :m] = aUa**2 + aVa**2
        hessian[m, :m] = hessian[:m, m] = (Ua**2).sum(axis=0) - (Va**2).sum(axis=0)
        hessian[m, m] = (U**2).sum() + (V**2).sum()
        gradient = np.append(np.diag(aVa) - np.diag(aUa), t - np.trace(U) - np.trace(V))
        step = -_solve(hessian, gradient)
        return step[:m], float(step[m]), float(-gradient @ step)

    def lower_bound(self, w: Numbers, s: float) -> float:
        """A number that ‖W − 11ᵀ/n‖₂ cannot be below, whatever the weights."""
        M = self.M(w)
        Y = np.linalg.inv(s * self.eye - M) - np.linalg.inv(s * self.eye + M)
        Y /= np.abs(Y).max() or 1.0
        # the nearest matrix with a_eᵀ Y a_e = 0 on all edges: the Gram matrix of the a_e a_eᵀ is (a_eᵀ a_f)²
        products = self._between(self.eye)
        c = _solve(products**2, np.diag(self._between(Y)))
        Y = Y + self.M(c) - (self.eye - 1.0 / self.n)
        length = float(np.abs(np.linalg.eigvalsh(Y)).sum())
        return max(float(np.trace(Y) - Y.mean() * self.n) / length, 0.0) if length else 0.0

    def _between(self, B: Numbers) -> Numbers:
        """All a_eᵀ B a_f."""
        Ba = B[:, self.i] - B[:, self.j]
        return np.asarray(Ba[self.i] - Ba[self.j])


def _solve(A: Numbers, b: Numbers) -> Numbers:
    """Solve Ax = b for a positive definite A, scaled to a unit diagonal; NaN where rounding made A indefinite."""
    scale = 1.0 / np.sqrt(np.diag(A))
    try:
        factor = scipy.linalg.cho_factor(A * scale * scale[:, None])
    except np.linalg.LinAlgError:
        return np.full_like(b, np.nan)
    return np.asarray(scale * scipy.linalg.cho_solve(factor, scale * b))
