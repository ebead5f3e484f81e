"""More methods, agent by agent, as their papers print them: corrected ones, momentum, adaptive moments.

Every function has the arguments and the result that `reference` describes. Two-step forms are written as printed: the
library computes others, which are equal up to rounding.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.conformance.agent_by_agent import Gradient, Trajectory, Transform, gradients, neighbours, start


def lazy(W: np.ndarray, x: np.ndarray, i: int) -> np.ndarray:
    """Row i of W̃x with W̃ = (I+W)/2."""
    return (x[i] + neighbours(W, x, i)) / 2


def extra(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """EXTRA, summed over the iterations so far, which also holds where W changes:

    x_{k+1} = W x_k − Σ_{t<k} (W̃ − W) x_t − ηg_k.
    """
    x = start(x0)
    total = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, x, i) - total[i] - eta * g[i]
        for i in range(len(x)):
            total[i] = total[i] + lazy(W, x, i) - neighbours(W, x, i)
        x = x_next
        iterates.append(x.copy())
    return iterates


def exact_diffusion(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float = 0.0,
    transform: Transform | None = None,
) -> Trajectory:
    """Exact diffusion: ψ = x − ηg (adapt), φ = ψ + x − ψ₋ (correct), x⁺ = W̃φ (combine), ψ₋₁ = x_0.

    EDM: ψ = x − ηm⁺ with m⁺ = βm + (1−β)g, m_0 = 0.
    """
    x = start(x0)
    m, psi_before = np.zeros_like(x), x.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        psi, phi = np.zeros_like(x), np.zeros_like(x)
        for i in range(len(x)):
            m[i] = beta * m[i] + (1 - beta) * g[i]
            psi[i] = x[i] - eta * m[i]
            phi[i] = psi[i] + x[i] - psi_before[i]
        x = np.stack([lazy(W, phi, i) for i in range(len(x))])
        psi_before = psi
        iterates.append(x.copy())
    return iterates


def nids(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """NIDS: x_1 = x_0 − ηg_0;  x⁺ = W̃(2x − x₋ − η(g − g₋)), g₋ as it was computed at x₋."""
    x = start(x0)
    x_before = g_before = None
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        if x_before is None or g_before is None:
            for i in range(len(x)):
                x_next[i] = x[i] - eta * g[i]
        else:
            moved = np.zeros_like(x)
            for i in range(len(x)):
                moved[i] = 2 * x[i] - x_before[i] - eta * (g[i] - g_before[i])
            for i in range(len(x)):
                x_next[i] = lazy(W, moved, i)
        x, x_before, g_before = x_next, x, g
        iterates.append(x.copy())
    return iterates


def aug_dgm(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Aug-DGM: x⁺ = W(x − ηy);  y⁺ = W(y + g(x⁺) − g(x));  y_0 = g_0."""
    x = start(x0)
    g = gradients(gradient, x, 0, transform)
    y = g.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        x = np.stack([neighbours(W, x - eta * y, i) for i in range(len(x))])
        g_next = gradients(gradient, x, k + 1, transform)
        y = np.stack([neighbours(W, y + g_next - g, i) for i in range(len(x))])
        g = g_next
        iterates.append(x.copy())
    return iterates


def momentum_tracking(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Momentum tracking: u⁺ = βu + g;  x⁺ = Wx − η(u⁺ − c);  c⁺ = W(c − u⁺) + u⁺;  u_0 = c_0 = 0."""
    x = start(x0)
    u, c = np.zeros_like(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next, c_next = np.zeros_like(x), np.zeros_like(x)
        for i in range(len(x)):
            u[i] = beta * u[i] + g[i]
            x_next[i] = neighbours(W, x, i) - eta * (u[i] - c[i])
        for i in range(len(x)):
            c_next[i] = neighbours(W, c - u, i) + u[i]
        x, c = x_next, c_next
        iterates.append(x.copy())
    return iterates


def qg_dsgdm(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """QG-DSGDm: x^½ = x − η(βm + g);  x⁺ = Wx^½;  d = (x − x⁺)/η;  m⁺ = βm + (1−β)d;  m_0 = 0."""
    x = start(x0)
    m = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        half = np.stack([x[i] - eta * (beta * m[i] + g[i]) for i in range(len(x))])
        x_next = np.stack([neighbours(W, half, i) for i in range(len(x))])
        for i in range(len(x)):
            m[i] = beta * m[i] + (1 - beta) * (x[i] - x_next[i]) / eta
        x = x_next
        iterates.append(x.copy())
    return iterates


def d_adam(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    beta3: float = 0.9,
    eps: float = 1e-8,
    transform: Transform | None = None,
) -> Trajectory:
    """D-Adam: m ← β₁m + (1−β₁)g;  v ← β₂v + (1−β₂)g²;  m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ), t = k + 1;
    w ← β₃w + (1−β₃)max(w, v̂);  x⁺ = Wx − ηm̂/(√w + ε).
    """
    x = start(x0)
    m, v, w = (np.zeros_like(x) for _ in range(3))
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            w[i] = beta3 * w[i] + (1 - beta3) * np.maximum(w[i], v[i] / (1 - beta2 ** (k + 1)))
            x_next[i] = neighbours(W, x, i) - eta * m[i] / (1 - beta1 ** (k + 1)) / (np.sqrt(w[i]) + eps)
        x = x_next
        iterates.append(x.copy())
    return iterates


def clipped_d_sgd(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    tau: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Clipped D-SGD: x⁺ = Wx − η·clip(g, τ), clip(g, τ) = g if ‖g‖ ≤ τ, else τg/‖g‖."""
    x = start(x0)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            length = np.sqrt((g[i] ** 2).sum())
            clipped = g[i] if length <= tau else tau * g[i] / length
            x_next[i] = neighbours(W, x, i) - eta * clipped
        x = x_next
        iterates.append(x.copy())
    return iterates


CORRECTED: dict[str, Callable[..., Trajectory]] = {
    "extra": extra,
    "nids": nids,
    "exact-diffusion": exact_diffusion,
    "edm": exact_diffusion,
    "aug-dgm": aug_dgm,
    "momentum-tracking": momentum_tracking,
    "qg-dsgdm": qg_dsgdm,
    "d-adam": d_adam,
    "clipped-d-sgd": clipped_d_sgd,
}
