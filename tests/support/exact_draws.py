"""Random parameters, graphs, Hessians and states for docs/convergence.md, and its step, transcribed in NumPy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

DRAWS, AGENTS, WIDTH = 4000, 4, 2
N = AGENTS * WIDTH
SLACK = 1e-10
"""Relative, for rounding."""
ORDERS = ("gauss-seidel", "jacobi")
Array = np.ndarray


def sigma(a: Array, gamma: Array) -> Array:
    return np.sign(a) * np.abs(a) ** gamma


def dot(a: Array, b: Array) -> Array:
    return np.einsum("bip,bip->b", a, b)


def square(a: Array) -> Array:
    return dot(a, a)


def column(a: Array) -> Array:
    return a[:, None, None]


@dataclass(frozen=True)
class Draw:
    """Random parameters that satisfy (P), a graph, a mean Hessian and a state; the first axis counts the draws."""

    dual: str
    gamma: Array
    eta: Array
    alpha: Array
    beta: Array
    mu: Array
    ell: Array
    rho: Array
    rho2: Array
    L: Array
    H: Array
    x: Array
    w: Array
    next_eta: Array
    """η of the next iteration, which the dual uses first."""

    def laplacian(self, a: Array) -> Array:
        return np.einsum("bij,bjp->bip", self.L, a)

    def hessian(self, a: Array) -> Array:
        return np.einsum("bipq,biq->bip", self.H, a)

    @property
    def s(self) -> Array:
        return sigma(self.w, column(self.gamma))

    @property
    def y(self) -> Array:
        return self.laplacian(self.x)

    def step(self) -> Draw:
        """One iteration of the page: x⁺ and the argument of the next power."""
        d = column(self.alpha) * self.y + self.s
        x = self.x - column(self.eta) * d
        pushed = self.laplacian(x) * column(self.next_eta) if self.dual == "gauss-seidel" else self.y * column(self.eta)
        w = self.w + column(self.beta**2) * pushed - column(self.eta) * self.hessian(d)
        return replace(self, x=x, w=w)

    @property
    def potential(self) -> Array:
        phi = (np.abs(self.w) ** column(1 + self.gamma)).sum(axis=(1, 2)) / (1 + self.gamma)
        return phi + self.beta**2 / 2 * dot(self.x, self.y)

    @property
    def dissipation(self) -> Array:
        return self.mu / 4 * square(self.s) + self.alpha * self.beta**2 / 4 * square(self.y)

    @property
    def K(self) -> Array:
        b = self.ell + self.eta * self.beta**2 * self.rho * (self.dual == "gauss-seidel")
        return 4 * (self.beta**2 / self.alpha + b**2 / self.mu)

    @property
    def F(self) -> Array:
        g = self.gamma
        return 2 * N * (1 - g) / (1 + g) * self.K * (self.K * self.eta) ** (2 * g / (1 - g))

    def psi(self, u: Array) -> Array:
        g = self.gamma
        return np.minimum(self.mu / 4 * ((1 + g) * u / 2) ** (2 * g / (1 + g)), self.alpha * self.rho2 / 4 * u)


def log_uniform(random: np.random.Generator, low: float, high: float, size: int = DRAWS) -> Array:
    return np.exp(random.uniform(np.log(low), np.log(high), size))


def laplacians(random: np.random.Generator, size: int) -> tuple[Array, Array, Array]:
    """Connected graphs with random weights over several decades, and the ends of their spectra."""
    weights = np.triu(log_uniform(random, 1e-2, 10, size * AGENTS**2).reshape(size, AGENTS, AGENTS), 1)
    path = np.eye(AGENTS, k=1)
    weights *= np.maximum(path, random.random((size, AGENTS, AGENTS)) < 0.5)
    weights = weights + weights.transpose(0, 2, 1)
    L = np.eye(AGENTS) * weights.sum(axis=2)[:, :, None] - weights
    values = np.linalg.eigvalsh(L)
    return L, values[:, -1], values[:, 1]


def hessians(random: np.random.Generator, mu: Array, ell: Array) -> Array:
    """For each agent a symmetric matrix with eigenvalues in [μ, ℓ], half of the draws at the ends."""
    size = len(mu)
    basis = np.linalg.qr(random.standard_normal((size, AGENTS, WIDTH, WIDTH)))[0]
    where = random.random((size, AGENTS, WIDTH))
    where = np.where(random.random((size, 1, 1)) < 0.5, np.round(where), where)
    values = mu[:, None, None] * (ell / mu)[:, None, None] ** where
    return np.einsum("bipk,bik,biqk->bipq", basis, values, basis)


def draw(dual: str, seed: int, size: int = DRAWS, decaying: bool = False) -> Draw:
    random = np.random.default_rng((seed, ORDERS.index(dual), decaying))
    L, rho, rho2 = laplacians(random, size)
    mu = log_uniform(random, 1e-2, 1e2, size)
    ell = mu * log_uniform(random, 1, 100, size)
    gamma = random.uniform(0.05, 0.95, size)
    alpha = log_uniform(random, 1e-2, 1e2, size)

    def within(limit: Array) -> Array:
        """At the limit in a third of the draws, below it by up to four decades in the others."""
        return limit * np.where(random.random(size) < 1 / 3, 1.0, log_uniform(random, 1e-4, 1, size))

    beta = np.sqrt(alpha * ell / within(np.ones(size)))
    eta = (
        within(0.5 / (alpha * rho))
        if dual == "gauss-seidel"
        else within(np.minimum(0.25 / (alpha * rho), mu / (4 * beta**2 * rho)))
    )
    shape = (size, AGENTS, WIDTH)
    x, w = (random.standard_normal(shape) * column(log_uniform(random, 1e-4, 1e4, size)) for _ in range(2))
    x = x * np.where(random.random((size, 1, 1)) < 0.2, 0.0, 1.0)  # consensus
    w = np.where(random.random(shape) < 0.3, 1e-3 * w, w)  # entries of different sizes
    after = eta
    if decaying:
        B = 2 * beta / np.sqrt(mu * alpha) + 4 * eta * beta**2 * rho / mu
        after = eta * (1 - np.minimum(1.0, within(1 / (4 * B))))
    H = hessians(random, mu, ell)
    return Draw(dual, gamma, eta, alpha, beta, mu, ell, rho, rho2, L, H, x, w, after)


def at_most(left: Array, right: Array, scale: Array) -> None:
    excess = (left - right) / scale
    assert excess.max() <= SLACK, (int(excess.argmax()), float(excess.max()))


def remainder(given: Draw, delta: Array) -> Array:
    """The sum in Lemma (2): (2^(1−γ)/(1+γ)) Σ|Δ|^(1+γ)."""
    g = given.gamma
    return 2 ** (1 - g) / (1 + g) * (np.abs(delta) ** column(1 + g)).sum(axis=(1, 2))
