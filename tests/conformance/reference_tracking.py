"""Tracking and clipping beyond one gradient and one entry, agent by agent: see `reference`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.conformance.reference import Gradient, Trajectory, Transform, gradients, neighbours, start


def gt_hsgd(
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
    """GT-HSGD: v = g(x; ξ) + (1−β)(v₋ − g(x₋; ξ)), y⁺ = W(y + v − v₋), x⁺ = W(x − ηy⁺); v_0 = g_0, y_0 = v_{−1} = 0.

    Both gradients of iteration k are on its minibatch ξ_k.
    """
    x = start(x0)
    x_before, y, v_before = x.copy(), np.zeros_like(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        v = np.zeros_like(x)
        if k == 0:
            v = g.copy()
        else:
            g_before = gradients(gradient, x_before, k, transform)
            for i in range(len(x)):
                v[i] = g[i] + (1 - beta) * (v_before[i] - g_before[i])
        tracked, y_next, moved = np.zeros_like(x), np.zeros_like(x), np.zeros_like(x)
        for i in range(len(x)):
            tracked[i] = y[i] + v[i] - v_before[i]
        for i in range(len(x)):
            y_next[i] = neighbours(W, tracked, i)
            moved[i] = x[i] - eta * y_next[i]
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, moved, i)
        x, x_before, y, v_before = x_next, x, y_next, v
        iterates.append(x.copy())
    return iterates


def gt_nsgdm(
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
    """GT-NSGDm: m⁺ = βm + (1−β)g(x), y⁺ = W(y + m⁺ − m), x⁺ = W(x − ηy⁺/‖y⁺‖), agent by agent; m_0 = y_0 = 0."""
    x = start(x0)
    m, y = np.zeros_like(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        m_next, tracked, y_next, moved = (np.zeros_like(x) for _ in range(4))
        for i in range(len(x)):
            m_next[i] = beta * m[i] + (1 - beta) * g[i]
            tracked[i] = y[i] + m_next[i] - m[i]
        for i in range(len(x)):
            y_next[i] = neighbours(W, tracked, i)
            moved[i] = x[i] - eta * y_next[i] / np.sqrt((y_next[i] ** 2).sum())
        x = np.stack([neighbours(W, moved, i) for i in range(len(x))])
        m, y = m_next, y_next
        iterates.append(x.copy())
    return iterates


def sclip_ef(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float,
    phi: float,
    tau: float,
    transform: Transform | None = None,
) -> Trajectory:
    """SClip-EF-Network: m⁺ = β_k m + (1−β_k)Ψ_k(g(x) − m), x⁺ = W(x − η_k m⁺); m_0 = 0.

    Ψ_k(a) = φ_k a/√(a² + τ_k), elementwise; η_k = η/(k+1)^0.2, β_k = β/(k+1)^0.5, φ_k = φ/(k+1)^0.5, τ_k = τ(k+1)^0.6.
    """
    x = start(x0)
    m = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        eta_k, beta_k = eta / (k + 1) ** 0.2, beta / (k + 1) ** 0.5
        phi_k, tau_k = phi / (k + 1) ** 0.5, tau * (k + 1) ** 0.6
        g = gradients(gradient, x, k, transform)
        moved = np.zeros_like(x)
        m_next = np.zeros_like(x)
        for i in range(len(x)):
            a = g[i] - m[i]
            m_next[i] = beta_k * m[i] + (1 - beta_k) * phi_k * a / np.sqrt(a**2 + tau_k)
            moved[i] = x[i] - eta_k * m_next[i]
        x = np.stack([neighbours(W, moved, i) for i in range(len(x))])
        m = m_next
        iterates.append(x.copy())
    return iterates


REFERENCES: dict[str, Callable[..., Trajectory]] = {"gt-hsgd": gt_hsgd, "gt-nsgdm": gt_nsgdm, "sclip-ef": sclip_ef}
