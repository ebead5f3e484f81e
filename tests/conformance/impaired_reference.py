"""Four methods agent by agent on a network that loses, delays and disturbs messages, and with inactive agents.

Agents are rows; every agent loops over the messages that reach it. What reaches whom is given as plain functions:

    arrives(i, j, r)   whether agent i may use, in round r, what j sent in round r − delay (and j what i sent)
    inactive(i, k)     whether agent i does nothing in iteration k
    noise(m, i, r)     what is added to message m of agent i when it is sent in round r

An agent compares a message with its own message of the same round, as it was sent.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Wire:
    """All that was ever sent, and the sums that agents form of it."""

    def __init__(self, delay: int, arrives: Callable, noise: Callable) -> None:
        self.delay, self.arrives, self.noise = delay, arrives, noise
        self.sent: dict[tuple[int, int], np.ndarray] = {}

    def send(self, message: int, rows: np.ndarray, r: int) -> None:
        self.sent[message, r] = np.stack([rows[i] + self.noise(message, i, r) for i in range(len(rows))])

    def heard(self, message: int, i: int, r: int, weights: np.ndarray) -> np.ndarray:
        """Σ_j w_ij (a_i − a_j) over the messages that reach agent i in round r: row i of L·a or (I−W)·a."""
        total = np.zeros(self.sent[message, r].shape[1])
        if r >= self.delay:
            rows = self.sent[message, r - self.delay]
            for j in range(len(rows)):
                if j != i and weights[i, j] != 0 and self.arrives(i, j, r):
                    total = total + weights[i, j] * (rows[i] - rows[j])
        return total


def d_sgd_1(x, L, W, gradient, iterations, wire, inactive, eta):
    """x⁺ = Wx − ηg(x)."""
    for k in range(iterations):
        wire.send(0, x, k)
        new = x.copy()
        for i in range(len(x)):
            if not inactive(i, k):
                new[i] = x[i] - wire.heard(0, i, k, W) - eta * gradient(i, x[i])
        x = new
    return x


def d_sgt_1(x, L, W, gradient, iterations, wire, inactive, eta):
    """y⁺ = Wy + g(x) − g₋, x⁺ = Wx − ηy⁺, y = g₋ = 0 at first; g₋ is an agent's gradient of when it was last active."""
    y, g_last = np.zeros_like(x), np.zeros_like(x)
    for k in range(iterations):
        wire.send(0, x, k)
        wire.send(1, y, k)
        new_x, new_y, new_g = x.copy(), y.copy(), g_last.copy()
        for i in range(len(x)):
            if not inactive(i, k):
                new_g[i] = gradient(i, x[i])
                new_y[i] = y[i] - wire.heard(1, i, k, W) + new_g[i] - g_last[i]
                new_x[i] = x[i] - wire.heard(0, i, k, W) - eta * new_y[i]
        x, y, g_last = new_x, new_y, new_g
    return x


def dsgpa_f(x, L, W, gradient, iterations, wire, inactive, eta, alpha, beta):
    """v⁺ = v + ηβLx, x⁺ = x − η(αLx + βv⁺ + g(x)), v = 0 at first."""
    v = np.zeros_like(x)
    for k in range(iterations):
        wire.send(0, x, k)
        new_x, new_v = x.copy(), v.copy()
        for i in range(len(x)):
            if not inactive(i, k):
                Lx = wire.heard(0, i, k, -L)
                new_v[i] = v[i] + eta * beta * Lx
                new_x[i] = x[i] - eta * (alpha * Lx + beta * new_v[i] + gradient(i, x[i]))
        x, v = new_x, new_v
    return x


def d2(x, L, W, gradient, iterations, wire, inactive, eta):
    """φ = x − ηg(x) − v, x⁺ = Wφ, v⁺ = v + (I−W)φ, v = 0 at first."""
    v = np.zeros_like(x)
    for k in range(iterations):
        phi = x.copy()
        for i in range(len(x)):
            if not inactive(i, k):
                phi[i] = x[i] - eta * gradient(i, x[i]) - v[i]
        wire.send(0, phi, k)
        new_x, new_v = x.copy(), v.copy()
        for i in range(len(x)):
            if not inactive(i, k):
                differences = wire.heard(0, i, k, W)
                new_x[i] = phi[i] - differences
                new_v[i] = v[i] + differences
        x, v = new_x, new_v
    return x
