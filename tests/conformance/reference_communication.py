"""Methods with local steps, random exchanges or compressed messages, agent by agent, as their papers print them.

Functions take and return what those of `reference` do, and besides

    exchanges   exchanges(k): whether messages travel in iteration k; by default in each
    Q, c        the compressor of one agent's vector, by default none, and the consensus step, by default 1
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from tests.conformance.agent_by_agent import Gradient, Trajectory, Transform, gradients, neighbours, start

Exchanges = Callable[[int], bool]


def always(k: int) -> bool:
    return True


def whole(a: np.ndarray) -> np.ndarray:
    return a


def published(copies: np.ndarray, x: np.ndarray, Q: Transform) -> np.ndarray:
    """x̂_i + Q(x_i − x̂_i)."""
    return np.stack([copies[i] + Q(x[i] - copies[i]) for i in range(len(x))])


def k_gt(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    eta_s: float = 1.0,
    exchanges: Exchanges = always,
    transform: Transform | None = None,
) -> Trajectory:
    """K-GT, Algorithm 1 of Liu et al. with c_i = 0 at first: K steps x ← x − η(g + c);

    z = (x_before − x)/(Kη);  c ← c − z + Wz;  x ← W(x_before − Kη_sη z).
    """
    x = start(x0)
    n, c, before, K = len(x), np.zeros_like(x), x.copy(), 0
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        for i in range(n):
            x[i] = x[i] - eta * (g[i] + c[i])
        K += 1
        if exchanges(k):
            z = (before - x) / (K * eta)
            moved = before - K * eta_s * eta * z
            c = np.stack([c[i] - z[i] + neighbours(W, z, i) for i in range(n)])
            x = np.stack([neighbours(W, moved, i) for i in range(n)])
            before, K = x.copy(), 0
        iterates.append(x.copy())
    return iterates


def led(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float = 1.0,
    exchanges: Exchanges = always,
    transform: Transform | None = None,
) -> Trajectory:
    """LED, Algorithm 1 of Alghunaim with y_i = 0 at first: τ steps φ ← φ − ηg(φ) − βy;  x ← Wφ;  y ← y + φ − x."""
    phi = start(x0)
    n, y = len(phi), np.zeros_like(phi)
    iterates = [phi.copy()]
    for k in range(iterations):
        g = gradients(gradient, phi, k, transform)
        for i in range(n):
            phi[i] = phi[i] - eta * g[i] - beta * y[i]
        if exchanges(k):
            x = np.stack([neighbours(W, phi, i) for i in range(n)])
            for i in range(n):
                y[i] = y[i] + phi[i] - x[i]
            phi = x
        iterates.append(phi.copy())
    return iterates


def proxskip(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float = 1.0,
    chi: float = 1.0,
    exchanges: Exchanges = always,
    transform: Transform | None = None,
) -> Trajectory:
    """Decentralized ProxSkip, Algorithm 1 of Guo et al.: z = x − ηg − y, and if the coin says so

    x ← W_a z with W_a = I − (I−W)/(2χ),  y ← y + β(z − x);  otherwise x ← z. Their β is the probability p in ProxSkip.
    """
    x = start(x0)
    n, y = len(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        z = np.stack([x[i] - eta * g[i] - y[i] for i in range(n)])
        x = z.copy()
        if exchanges(k):
            for i in range(n):
                x[i] = z[i] - (z[i] - neighbours(W, z, i)) / (2 * chi)
                y[i] = y[i] + beta * (z[i] - x[i])
        iterates.append(x.copy())
    return iterates


def choco_sgd(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    Q: Transform = whole,
    c: float = 1.0,
    transform: Transform | None = None,
) -> Trajectory:
    """CHOCO-SGD, Algorithm 2 of Koloskova et al.: a = x − ηg;  x̂ ← x̂ + Q(a − x̂);  x_i = a_i + c Σ w_ij(x̂_j − x̂_i)."""
    x = start(x0)
    n, x_hat = len(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        a = np.stack([x[i] - eta * g[i] for i in range(n)])
        x_hat = published(x_hat, a, Q)
        x = np.stack([a[i] + c * (neighbours(W, x_hat, i) - x_hat[i]) for i in range(n)])
        iterates.append(x.copy())
    return iterates


def motef(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    beta: float = 0.0,
    Q: Transform = whole,
    c: float = 1.0,
    transform: Transform | None = None,
) -> Trajectory:
    """MoTEF, Algorithm 1 of Islamov et al. with λ = 1 − β; BEER, Algorithm 1 of Zhao et al., with β = 0.

    x ← x + c(W−I)h − ηv;  h ← h + Q(x − h);  m⁺ = (1−λ)m + λg(x);  v ← v + c(W−I)u + m⁺ − m;  u ← u + Q(v − u).
    At first m = v = g(x), h = Q(x) and u = Q(v), where the papers have h = u = 0.
    """
    x, lam = start(x0), 1 - beta
    n, m = len(x), gradients(gradient, x, 0, transform)
    v = m.copy()
    h, u = published(np.zeros_like(x), x, Q), published(np.zeros_like(x), v, Q)
    iterates = [x.copy()]
    for k in range(iterations):
        x = np.stack([x[i] + c * (neighbours(W, h, i) - h[i]) - eta * v[i] for i in range(n)])
        h = published(h, x, Q)
        m_next = (1 - lam) * m + lam * gradients(gradient, x, k + 1, transform)
        v = np.stack([v[i] + c * (neighbours(W, u, i) - u[i]) + m_next[i] - m[i] for i in range(n)])
        u, m = published(u, v, Q), m_next
        iterates.append(x.copy())
    return iterates


COMMUNICATION: dict[str, Callable[..., Trajectory]] = {
    "k-gt": k_gt,
    "led": led,
    "proxskip": proxskip,
    "choco-sgd": choco_sgd,
    "beer": motef,
    "motef": motef,
}
