"""What the transcriptions share: an agent's sum over its neighbours, and its gradient. Agents are rows, in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Gradient = Callable[[int, np.ndarray, int], np.ndarray]
Transform = Callable[[np.ndarray], np.ndarray]
Trajectory = list[np.ndarray]


def neighbours(A: np.ndarray, x: np.ndarray, i: int) -> np.ndarray:
    """Row i of A x: Σ_j A_ij x_j over agent i itself and its neighbours."""
    total = np.zeros(x.shape[1])
    for j in range(len(x)):
        if A[i, j] != 0:
            total = total + A[i, j] * x[j]
    return total


def gradients(gradient: Gradient, x: np.ndarray, k: int, transform: Transform | None) -> np.ndarray:
    """g(x): row i is agent i's (transformed) gradient at row i of x."""
    g = np.zeros_like(x)
    for i in range(len(x)):
        g_i = np.array(gradient(i, x[i].copy(), k), dtype=np.float64)
        g[i] = g_i if transform is None else transform(g_i)
    return g


def start(x0: np.ndarray) -> np.ndarray:
    """x0 as a float64 n×p copy."""
    x = np.array(x0, dtype=np.float64)
    if x.ndim != 2:
        raise ValueError(f"x0 must be n×p, got shape {x.shape}")
    return x
