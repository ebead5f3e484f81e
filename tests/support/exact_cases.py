"""Cases for docs/convergence.md that hypothesis draws and shrinks, and the check of one step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.support.exact_draws import AGENTS, WIDTH, Array, Draw, at_most, remainder, square

EDGES = np.triu_indices(AGENTS, 1)


def sizes(low: float, high: float) -> st.SearchStrategy[float]:
    """Numbers over several decades."""
    return st.floats(float(np.log10(low)), float(np.log10(high))).map(lambda exponent: 10.0**exponent)


def entries(draw: Any) -> Array:
    """A state whose entries have a common size, each up to 1000 times smaller, some exactly zero."""
    count, size = AGENTS * WIDTH, draw(sizes(1e-4, 1e4))
    values = draw(st.lists(st.floats(-1, 1), min_size=count, max_size=count))
    kept = [value if abs(value) > 1e-3 else 0.0 for value in values]
    return size * np.reshape(kept, (1, AGENTS, WIDTH))


def laplacian(draw: Any) -> Array:
    """A path with random weights, and some more edges."""
    weights = np.zeros((AGENTS, AGENTS))
    weights[EDGES] = draw(st.lists(sizes(1e-2, 10), min_size=len(EDGES[0]), max_size=len(EDGES[0])))
    kept = draw(st.lists(st.booleans(), min_size=len(EDGES[0]), max_size=len(EDGES[0])))
    weights[EDGES] *= np.where(np.diff(EDGES, axis=0)[0] == 1, True, kept)
    weights = weights + weights.T
    return np.diag(weights.sum(axis=1)) - weights


def hessian(draw: Any, mu: float, ell: float) -> Array:
    """For each agent a symmetric matrix with eigenvalues in [μ, ℓ]."""
    found = []
    for _ in range(AGENTS):
        angle = draw(st.floats(0, np.pi))
        turn = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
        values = [mu * (ell / mu) ** draw(st.floats(0, 1)) for _ in range(WIDTH)]
        found.append(turn @ np.diag(values) @ turn.T)
    return np.stack(found)[None]


@st.composite
def cases(draw: Any, dual: str) -> Draw:
    """One case that satisfies (P), often with equality, and (D)."""
    L = laplacian(draw)
    spectrum = np.linalg.eigvalsh(L)
    rho, rho2 = spectrum[-1], spectrum[1]
    part = st.one_of(st.just(1.0), sizes(1e-4, 1))
    mu, alpha, gamma = draw(sizes(1e-2, 1e2)), draw(sizes(1e-2, 1e2)), draw(st.floats(0.05, 0.95))
    ell = mu * draw(sizes(1, 100))
    beta = np.sqrt(alpha * ell / draw(part))
    first = dual == "gauss-seidel"
    largest = 0.5 / (alpha * rho) if first else min(0.25 / (alpha * rho), mu / (4 * beta**2 * rho))
    eta = largest * draw(part)
    B = 2 * beta / np.sqrt(mu * alpha) + 4 * eta * beta**2 * rho / mu
    after = eta * (1 - min(1.0, draw(part) / (4 * B))) if first and draw(st.booleans()) else eta
    numbers = (np.array([float(value)]) for value in (gamma, eta, alpha, beta, mu, ell, rho, rho2))
    return Draw(dual, *numbers, L[None], hessian(draw, mu, ell), entries(draw), entries(draw), np.array([after]))


def check_one_step(case: Draw) -> None:
    """(2), (3), (4a), E ≥ ψ(U) and the distance of (5), or the inequality of (7) where the step decays."""
    U, E, eta = case.potential, case.dissipation, case.eta
    after = case.step()
    scale = U + after.potential + 1e-300
    moved = after.w - case.w
    decays = bool(case.next_eta[0] < eta[0])
    if not decays:
        at_most(after.potential, U - eta * E + remainder(case, moved), scale)
    bound = eta**2 * case.K * E
    at_most(square(moved), bound, bound + 1e-6 * square(case.w) + 1e-300)
    more = 2 ** ((1 + case.gamma) / (1 - case.gamma)) if decays else 1.0
    at_most(after.potential, U - eta / 2 * E + eta * more * case.F, scale)
    at_most(case.psi(U), E, E + 1e-300)
    # quadratic costs with Hessians H whose sum is least at 0: then the mean of w is that of Hx, and U bounds ‖x‖
    pull = case.hessian(case.x).mean(axis=1, keepdims=True) - case.w.mean(axis=1, keepdims=True)
    case = replace(case, w=case.w + pull)
    g, u = case.gamma, case.potential
    D = np.sqrt(2 * u / (case.beta**2 * case.rho2))
    right = (((1 + g) * u) ** (1 / (1 + g)) / case.mu + (case.ell / case.mu + 1) * D) / np.sqrt(AGENTS)
    at_most(np.sqrt(square(case.x) / AGENTS), right, right + 1e-300)
