"""Every method, agent by agent, as its equation is written: the reference for the library's updates.

Nothing here is fast, and nothing is shared with the library. Agents are rows; each method loops over
agents, and each agent over its neighbours, in float64. Every function takes

    x0          n×p starting points
    L, W        n×n Laplacian and mixing matrix, dense (a method ignores the one its equation does not name)
    gradient    gradient(i, x, k): agent i's minibatch gradient at the p-vector x, iteration k = 0, 1, …
    iterations  T
    transform   optional, applied to an agent's gradient before anything else

and returns the T + 1 stacked iterates [x_0, x_1, …, x_T].
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

import numpy as np
from tests.conformance.agent_by_agent import Gradient, Trajectory, Transform, gradients, neighbours, start
from tests.conformance.reference_communication import COMMUNICATION
from tests.conformance.reference_corrected import CORRECTED


def powerball(g: np.ndarray, gamma: float) -> np.ndarray:
    """σ(g, γ) = sign(g) |g|^γ, elementwise; γ = 0 is the sign (and 0 stays 0)."""
    powered: np.ndarray = np.sign(g) * np.abs(g) ** gamma
    return powered


def dsgpa(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    alpha: float,
    beta: float,
    gamma: float = 1.0,
    epsilon: float = 0.0,
    power_on: Literal["gradient", "direction"] = "gradient",
    dual: Literal["jacobi", "gauss-seidel"] = "jacobi",
    momentum: float = 1.0,
    transform: Transform | None = None,
) -> Trajectory:
    """DSGPA.

    x⁺ = x − η_k (α_k Lx + β_k v + σ(g(x), γ)),  v⁺ = v + η_k β_k Lx,  v_0 = 0   (power on the gradient)
    x⁺ = x − η_k (α_k Lx + σ(β_k v + g(x), γ)),  v⁺ as above                      (power on the direction)

    η_k = η/(k+1)^ε, α_k = α(k+1)^ε, β_k = β(k+1)^ε for k = 0, 1, …
    Jacobi: x⁺ uses v. Gauss–Seidel: x⁺ uses v⁺. With momentum θ the power acts on m⁺ = (1−θ)m + θ(what it acts on
    above), m_0 = 0.
    """
    if power_on not in ("gradient", "direction"):
        raise ValueError(f"power_on must be 'gradient' or 'direction', got {power_on!r}")
    if dual not in ("jacobi", "gauss-seidel"):
        raise ValueError(f"dual must be 'jacobi' or 'gauss-seidel', got {dual!r}")
    x = start(x0)
    v = np.zeros_like(x)
    m = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        eta_k = eta / (k + 1) ** epsilon
        alpha_k = alpha * (k + 1) ** epsilon
        beta_k = beta * (k + 1) ** epsilon
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        v_next = np.zeros_like(v)
        for i in range(len(x)):
            Lx_i = neighbours(L, x, i)
            v_next[i] = v[i] + eta_k * beta_k * Lx_i
            v_used = v[i] if dual == "jacobi" else v_next[i]
            if power_on == "gradient":
                m[i] = (1 - momentum) * m[i] + momentum * g[i]
                step = alpha_k * Lx_i + beta_k * v_used + powerball(m[i], gamma)
            else:
                m[i] = (1 - momentum) * m[i] + momentum * (beta_k * v_used + g[i])
                step = alpha_k * Lx_i + powerball(m[i], gamma)
            x_next[i] = x[i] - eta_k * step
        x, v = x_next, v_next
        iterates.append(x.copy())
    return iterates


def dm_sgd(
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
    """DM-SGD: ũ = βu + g(x);  x⁺ = W(x − ηũ);  u⁺ = Wũ;  u_0 = 0."""
    x = start(x0)
    u = np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        u_tilde = np.zeros_like(x)
        moved = np.zeros_like(x)
        for i in range(len(x)):
            u_tilde[i] = beta * u[i] + g[i]
            moved[i] = x[i] - eta * u_tilde[i]
        x_next = np.zeros_like(x)
        u_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, moved, i)
            u_next[i] = neighbours(W, u_tilde, i)
        x, u = x_next, u_next
        iterates.append(x.copy())
    return iterates


def d_sgd_1(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """D-SGD-1: x⁺ = Wx − ηg(x)."""
    x = start(x0)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, x, i) - eta * g[i]
        x = x_next
        iterates.append(x.copy())
    return iterates


def d_sgd_2(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    a: float,
    b: float,
    epsilon: float,
    power: float = 0.3,
    transform: Transform | None = None,
) -> Trajectory:
    """D-SGD-2: x⁺ = x − β_k Lx − α_k g(x);  α_k = a/(εk+1), β_k = b/(εk+1)^power, k = 0, 1, …."""
    x = start(x0)
    iterates = [x.copy()]
    for k in range(iterations):
        alpha_k = a / (epsilon * k + 1)
        beta_k = b / (epsilon * k + 1) ** power
        g = gradients(gradient, x, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = x[i] - beta_k * neighbours(L, x, i) - alpha_k * g[i]
        x = x_next
        iterates.append(x.copy())
    return iterates


def d2(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """D²: x_1 = W(x_0 − ηg_0);  x⁺ = W(2x − x₋ − η(g − g₋)), g₋ as it was computed at x₋.

    W is used as given: the caller must ensure that λmin(W) > −1/3.
    """
    x = start(x0)
    x_before = g_before = None
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        moved = np.zeros_like(x)
        for i in range(len(x)):
            if x_before is None or g_before is None:
                moved[i] = x[i] - eta * g[i]
            else:
                moved[i] = 2 * x[i] - x_before[i] - eta * (g[i] - g_before[i])
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, moved, i)
        x, x_before, g_before = x_next, x, g
        iterates.append(x.copy())
    return iterates


def d_sgt_1(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """D-SGT-1: x⁺ = Wx − ηy;  y⁺ = Wy + g(x⁺) − g(x);  y_0 = g_0.

    g(x⁺) is the gradient at x⁺ of iteration k+1, so the last one needed is of iteration T.
    """
    x = start(x0)
    g = gradients(gradient, x, 0, transform)
    y = g.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, x, i) - eta * y[i]
        g_next = gradients(gradient, x_next, k + 1, transform)
        y_next = np.zeros_like(y)
        for i in range(len(x)):
            y_next[i] = neighbours(W, y, i) + g_next[i] - g[i]
        x, y, g = x_next, y_next, g_next
        iterates.append(x.copy())
    return iterates


def d_sgt_2(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """D-SGT-2: x⁺ = W(x − ηy);  y⁺ = Wy + g(x⁺) − g(x);  y_0 = g_0.

    g(x⁺) is the gradient at x⁺ of iteration k+1, so the last one needed is of iteration T.
    """
    x = start(x0)
    g = gradients(gradient, x, 0, transform)
    y = g.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        moved = np.zeros_like(x)
        for i in range(len(x)):
            moved[i] = x[i] - eta * y[i]
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, moved, i)
        g_next = gradients(gradient, x_next, k + 1, transform)
        y_next = np.zeros_like(y)
        for i in range(len(x)):
            y_next[i] = neighbours(W, y, i) + g_next[i] - g[i]
        x, y, g = x_next, y_next, g_next
        iterates.append(x.copy())
    return iterates


def powered_tracking(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    gamma: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Powered tracking: x⁺ = Wx − ησ(y, γ);  y⁺ = Wy + g(x⁺) − g(x);  y_0 = g_0."""
    x = start(x0)
    g = gradients(gradient, x, 0, transform)
    y = g.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, x, i) - eta * powerball(y[i], gamma)
        g_next = gradients(gradient, x_next, k + 1, transform)
        y_next = np.zeros_like(y)
        for i in range(len(x)):
            y_next[i] = neighbours(W, y, i) + g_next[i] - g[i]
        x, y, g = x_next, y_next, g_next
        iterates.append(x.copy())
    return iterates


def sgp(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Stochastic gradient push: x⁺ = P(x − ηg(z)), w⁺ = Pw, z = x/w, w_0 = 1; the iterates are z.

    W is P: its columns sum to one, and W[i, j] is the part of j's message that i gets.
    """
    x = start(x0)
    w = np.ones((len(x), 1))
    z = x / w
    iterates = [z.copy()]
    for k in range(iterations):
        g = gradients(gradient, z, k, transform)
        half = np.zeros_like(x)
        for i in range(len(x)):
            half[i] = x[i] - eta * g[i]
        x_next, w_next, z_next = np.zeros_like(x), np.zeros_like(w), np.zeros_like(z)
        for i in range(len(x)):
            x_next[i] = neighbours(W, half, i)
            w_next[i] = neighbours(W, w, i)
            z_next[i] = x_next[i] / w_next[i]
        x, w, z = x_next, w_next, z_next
        iterates.append(z.copy())
    return iterates


def push_diging(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """Push-DIGing: u⁺ = C(u − ηy), v⁺ = Cv, x⁺ = u⁺/v⁺, y⁺ = Cy + g(x⁺) − g(x); u_0 = x_0, v_0 = 1, y_0 = g_0.

    W is C, whose columns sum to one. The gradient of iteration k+1 is computed after the messages of round k.
    """
    x = start(x0)
    u, v = x.copy(), np.ones((len(x), 1))
    g = gradients(gradient, x, 0, transform)
    y = g.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        moved = np.zeros_like(u)
        for i in range(len(x)):
            moved[i] = u[i] - eta * y[i]
        u_next, v_next = np.zeros_like(u), np.zeros_like(v)
        x_next, Cy = np.zeros_like(x), np.zeros_like(y)
        for i in range(len(x)):
            u_next[i] = neighbours(W, moved, i)
            v_next[i] = neighbours(W, v, i)
            x_next[i] = u_next[i] / v_next[i]
            Cy[i] = neighbours(W, y, i)
        g_next = gradients(gradient, x_next, k + 1, transform)
        for i in range(len(x)):
            y[i] = Cy[i] + g_next[i] - g[i]
        u, v, x, g = u_next, v_next, x_next, g_next
        iterates.append(x.copy())
    return iterates


def d_asg(
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
    """D-ASG: y = (1+β)x − βx₋;  x⁺ = Wy − ηg(y);  x₋₁ = x_0."""
    x = start(x0)
    x_before = x.copy()
    iterates = [x.copy()]
    for k in range(iterations):
        y = np.zeros_like(x)
        for i in range(len(x)):
            y[i] = (1 + beta) * x[i] - beta * x_before[i]
        g = gradients(gradient, y, k, transform)
        x_next = np.zeros_like(x)
        for i in range(len(x)):
            x_next[i] = neighbours(W, y, i) - eta * g[i]
        x, x_before = x_next, x
        iterates.append(x.copy())
    return iterates


def c_sgd(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    eta: float,
    transform: Transform | None = None,
) -> Trajectory:
    """C-SGD: x⁺ = x − ηg, g = (1/n) Σ_i g_i(x) on the pooled data, from the mean of the rows of x0.

    There is one agent, so `transform` acts on the pooled gradient. The n rows returned are identical.
    """
    n = len(start(x0))
    x = start(x0).mean(axis=0)
    iterates = [np.stack([x] * n)]
    for k in range(iterations):
        g = np.zeros_like(x)
        for i in range(n):
            g = g + np.array(gradient(i, x.copy(), k), dtype=np.float64) / n
        x = x - eta * (g if transform is None else transform(g))
        iterates.append(np.stack([x] * n))
    return iterates


def sgd_update(
    x: np.ndarray,
    g: np.ndarray,
    k: int,
    memory: dict[str, np.ndarray],
    *,
    eta: float,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
) -> np.ndarray:
    """SGD of one agent: m ← μm + g + λx; x − ηm."""
    memory["m"] = momentum * memory.get("m", 0.0) + g + weight_decay * x
    moved: np.ndarray = x - eta * memory["m"]
    return moved


def adam_update(
    x: np.ndarray,
    g: np.ndarray,
    k: int,
    memory: dict[str, np.ndarray],
    *,
    eta: float,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    decay_on: Literal["gradient", "weights"] = "weights",
) -> np.ndarray:
    """Adam of one agent, with weight decay λ in the gradient, or on the weights (AdamW).

    m ← β₁m + (1−β₁)g, v ← β₂v + (1−β₂)g²; x − ηm̂/(√v̂ + ε) with m̂ = m/(1−β₁ᵗ), v̂ = v/(1−β₂ᵗ), t = k + 1.
    """
    if decay_on == "gradient":
        g = g + weight_decay * x
    else:
        x = x - eta * weight_decay * x
    memory["m"] = beta1 * memory.get("m", 0.0) + (1 - beta1) * g
    memory["v"] = beta2 * memory.get("v", 0.0) + (1 - beta2) * g**2
    m_hat = memory["m"] / (1 - beta1 ** (k + 1))
    v_hat = memory["v"] / (1 - beta2 ** (k + 1))
    moved: np.ndarray = x - eta * m_hat / (np.sqrt(v_hat) + eps)
    return moved


def gossip(
    x0: np.ndarray,
    L: np.ndarray,
    W: np.ndarray,
    gradient: Gradient,
    iterations: int,
    *,
    update: Callable[..., np.ndarray],
    order: Literal["adapt-then-combine", "combine-then-adapt"] = "adapt-then-combine",
    period: int = 1,
    outer_lr: float | None = None,
    outer_momentum: float = 0.0,
    transform: Transform | None = None,
    **values: object,
) -> Trajectory:
    """Gossip: y = the agent's own update of x; every `period` iterations x⁺ = Wy, or Wx + (y − x) combined first.

    With an outer step, from the anchor a, x at the last exchange: Δ = a − y, M ← μM + Δ, d = Δ + μM, and
    x⁺ = W(a − ηd), or Wa − ηd combined first.
    """
    x = start(x0)
    n = len(x)
    memories: list[dict[str, np.ndarray]] = [{} for _ in range(n)]
    a, M = x.copy(), np.zeros_like(x)
    iterates = [x.copy()]
    for k in range(iterations):
        g = gradients(gradient, x, k, transform)
        y = np.stack([update(x[i], g[i], k, memories[i], **values) for i in range(n)])
        x_next = y.copy()
        if (k + 1) % period == 0:
            base, moved = x.copy(), y.copy()
            if outer_lr is not None:
                base = a.copy()
                for i in range(n):
                    M[i] = outer_momentum * M[i] + (a[i] - y[i])
                    moved[i] = a[i] - outer_lr * (a[i] - y[i] + outer_momentum * M[i])
            for i in range(n):
                if order == "adapt-then-combine":
                    x_next[i] = neighbours(W, moved, i)
                else:
                    x_next[i] = neighbours(W, base, i) + moved[i] - base[i]
            a = x_next.copy()
        x = x_next
        iterates.append(x.copy())
    return iterates


# A partial's keywords are defaults: the caller may pass another epsilon.
REFERENCES: dict[str, Callable[..., Trajectory]] = {
    "dsgpa-f": dsgpa,
    "dsgpa-t": partial(dsgpa, epsilon=1e-5),
    "dsgpa-f-pb": dsgpa,
    "dsgpa-t-pb": partial(dsgpa, epsilon=1e-5),
    "dsgpa-f-pb-exact": partial(dsgpa, power_on="direction"),
    "dsgpa-t-pb-exact": partial(dsgpa, power_on="direction", epsilon=1e-5),
    "dsgpa-f-pb-exact-momentum": partial(dsgpa, power_on="direction", momentum=0.1),
    "dm-sgd": dm_sgd,
    "d-sgd-1": d_sgd_1,
    "d-sgd-2": d_sgd_2,
    "d2": d2,
    "d-sgt-1": d_sgt_1,
    "d-sgt-2": d_sgt_2,
    "powered-tracking": powered_tracking,
    "d-asg": d_asg,
    "sgp": sgp,
    "push-diging": push_diging,
    "c-sgd": c_sgd,
    "gossip-sgd": partial(gossip, update=sgd_update),
    "gossip-adam": partial(gossip, update=adam_update, decay_on="gradient"),
    "gossip-adamw": partial(gossip, update=adam_update),
    "gossip-sgd-outer": partial(gossip, update=sgd_update, outer_lr=0.7, outer_momentum=0.9),
    "gossip-adamw-outer": partial(gossip, update=adam_update, outer_lr=0.7, outer_momentum=0.9),
    **CORRECTED,
    **COMMUNICATION,
}
