"""Methods with local steps, random exchanges or compressed messages, agent by agent, as their papers print them.

Nothing is shared with the library. Functions take and return what those of `reference` do, and besides

    exchanges   exchanges(k): whether messages travel in iteration k; by default in each
    Q, c        the compressor of one agent's vector, by default none, and the consensus step, by default 1
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Gradient = Callable[[int, np.ndarray, int], np.ndarray]
Transform = Callable[[np.ndarray], np.ndarray]
Trajectory = list[np.ndarray]
Exchanges = Callable[[int], bool]


def always(k: int) -> bool:
    return True


def whole(a: np.ndarray) -> np.ndarray:
    return a


def gradients(gradient: Gradient, x: np.ndarray, k: int, transform: Transform | None) -> np.ndarray:
    rows = [np.array(gradient(i, x[i].copy(), k), dtype=np.float64) for i in range(len(x))]
    return np.stack(rows if transform is None else [transform(row) for row in rows])


def combined(W: np.ndarray, x: np.ndarray, i: int) -> np.ndarray:
    """Σ_j w_ij x_j."""
    total = np.zeros(x.shape[1])
    for j in range(len(x)):
        total = total + W[i, j] * x[j]
    return total


def pulled(W: np.ndarray, copies: np.ndarray, i: int) -> np.ndarray:
    """Σ_j w_ij (x̂_j − x̂_i)."""
    total = np.zeros(copies.shape[1])
    for j in range(len(copies)):
        total = total + W[i, j] * (copies[j] - copies[i])
    return total


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
    x = np.array(x0, dtype=np.float64)
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
            c = np.stack([c[i] - z[i] + combined(W, z, i) for i in range(n)])
            x = np.stack([combined(W, moved, i) for i in range(n)])
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
    phi = np.array(x0, dtype=np.float64)
    n, y = len(phi), np.zeros_like(phi)
    iterates = [phi.copy()]
    for k in range(iterations):
        g = gradients(gradient, phi, k, transform)
        for i in range(n):
            phi[i] = phi[i] - eta * g[i] - beta * y[i]
        if exchanges(k):
            x = np.stack([combined(W, phi, i) for i in range(n)])
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
    x = np.array(x0, dtype=np.float64)
    n, y = len(x), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        z = np.stack([x[i] - eta * g[i] - y[i] for i in range(n)])
        x = z.copy()
        if exchanges(k):
            for i in range(n):
                x[i] = z[i] - (z[i] - combined(W, z, i)) / (2 * chi)
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
    """CHOCO-SGD, Algorithm 2 of Koloskova et al.: x½ = x − ηg;  x̂ ← x̂ + Q(x½ − x̂);  x = x½ + c Σ w_ij(x̂_j − x̂_i)."""
    x = np.array(x0, dtype=np.float64)
    x_hat = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        half = np.stack([x[i] - eta * g[i] for i in range(len(x))])
        x_hat = published(x_hat, half, Q)
        x = np.stack([half[i] + c * pulled(W, x_hat, i) for i in range(len(x))])
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

    x ← x + c Σ w_ij(h_j − h_i) − ηv;  h ← h + Q(x − h);  m⁺ = (1−λ)m + λg(x);  v ← v + c Σ w_ij(g_j − g_i) + m⁺ − m;
    g ← g + Q(v − g). At first h = Q(x), m = v = λg(x), g = Q(v), where the papers have h = g = 0.
    """
    x, lam = np.array(x0, dtype=np.float64), 1 - beta
    n, m = len(x), lam * gradients(gradient, x, 0, transform)
    v = m.copy()
    h, copies = published(np.zeros_like(x), x, Q), published(np.zeros_like(x), v, Q)
    iterates = [x.copy()]
    for k in range(iterations):
        x = np.stack([x[i] + c * pulled(W, h, i) - eta * v[i] for i in range(n)])
        h = published(h, x, Q)
        m_next = (1 - lam) * m + lam * gradients(gradient, x, k + 1, transform)
        v = np.stack([v[i] + c * pulled(W, copies, i) + m_next[i] - m[i] for i in range(n)])
        copies, m = published(copies, v, Q), m_next
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
