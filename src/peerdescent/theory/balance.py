"""Where transformed gradients balance: the nonlinear equations of a fixed point, and the slopes of transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg

from peerdescent.errors import InputError
from peerdescent.theory.recursion import Numbers
from peerdescent.transforms import Chain, Clip, ClipNorm, Normalize, Powerball, Sign, Transform, power

STAGES = 8
"""Powers between 1, where the equations are linear, and γ: each solution is the initial guess for the next."""
WIDER = np.geomspace(1e3, 1, 31)
"""Limits of clips, in units of the limit that is wanted: each solution is the initial guess for the next."""
SHORTER = np.geomspace(1e3, 1e-3, 61)
"""The same for unit vectors, in units of a long gradient."""
SINGULAR = "the sum of the A_i is singular: there is no unique fixed point."
FLAT = "all gradients are clipped, which can balance on a whole interval: a fixed point needs a larger limit."


def power_of(transform: Transform) -> float | None:
    """γ of a transform that consists of powers; None if a clip or a norm is among them.

    >>> power_of(Powerball(0.5).then(Powerball(0.8))), power_of(Clip(1.0))
    (0.4, None)
    """
    match transform:
        case Chain(first, second):
            parts = power_of(first), power_of(second)
            return None if parts[0] is None or parts[1] is None else parts[0] * parts[1]
        case Sign():
            return 0.0
        case Powerball(gamma):
            return gamma
        case Clip() | Normalize():
            return None
    if type(transform) is Transform:
        return 1.0
    raise InputError(f"no fixed point is known with {transform}: use powers, clips and norms only.")


def entrywise(transform: Transform) -> bool:
    """Whether a transform acts on each entry alone, not with the norm of a row."""
    if isinstance(transform, Chain):
        return entrywise(transform.first) and entrywise(transform.second)
    return not isinstance(transform, (ClipNorm, Normalize))


def balance(A: Numbers, c: Numbers, transform: Transform, G: Numbers) -> Numbers:
    """x, n×p, with u_i = σ(A_i(x_i − c_i)), Σu_i = 0 and x = x̄ + Gu, for a transform σ of powers, clips and norms."""
    gamma = power_of(transform)
    if gamma == 0:
        raise InputError("signs (γ = 0) can balance on a whole interval: a fixed point needs γ above 0.")
    if isinstance(transform, Chain) and not entrywise(transform):
        raise InputError(f"no fixed point is known with {transform}: use a norm alone.")
    diagonals = np.diagonal(A, axis1=1, axis2=2)
    if entrywise(transform) and not G.any() and np.array_equal(A, diagonals[:, :, None] * np.eye(A.shape[1])):
        return np.tile(_by_coordinate(diagonals, c, transform), (len(c), 1))
    if gamma is None:
        return _by_wider_limits(A, c, transform, G)
    return _by_continuation(A, c, gamma, G)


def _by_coordinate(a: Numbers, c: Numbers, transform: Transform) -> Numbers:
    """The zero of Σ_i σ(a_i(x−c_i)) in each coordinate, a sum of increasing functions, by bisection."""
    if not (a.max(axis=0) > 0).all():
        raise InputError(SINGULAR)
    found = _bisected(a, c, transform, np.greater)
    if power_of(transform) is None and not np.allclose(found, _bisected(a, c, transform, np.greater_equal), rtol=1e-9):
        raise InputError(FLAT)  # the sum is zero from one to the other
    return found


def _bisected(a: Numbers, c: Numbers, transform: Transform, beyond: Callable[[Numbers, float], Any]) -> Numbers:
    low, high = np.where(a > 0, c, np.inf).min(axis=0), np.where(a > 0, c, -np.inf).max(axis=0)
    for _ in range(200):
        middle = (low + high) / 2
        above = beyond(transform(a * (middle - c)).sum(axis=0), 0)
        low, high = np.where(above, low, middle), np.where(above, middle, high)
    return np.asarray((low + high) / 2, dtype=np.float64)


def _by_wider_limits(A: Numbers, c: Numbers, transform: Transform, G: Numbers) -> Numbers:
    """u = σ(A(x − c)) and Σu_i = 0 by Newton's method, for smaller and smaller limits, beginning with none.

    A unit vector is a vector clipped to any length below its own, divided by that length.
    """
    n, p = c.shape
    stacked = scipy.linalg.block_diag(*A)  # np × np, agent by agent
    spread, ones = np.kron(G, np.eye(p)), np.tile(np.eye(p), (n, 1))
    u, mean = np.zeros(n * p), np.zeros(p)
    units = isinstance(transform, Normalize)
    sigma: Transform = ClipNorm(1.0) if units else transform
    longest = float(np.linalg.norm(A @ (c[:, None] - c).mean(axis=1)[:, :, None], axis=1).max()) if units else 1.0
    for stage, wider in enumerate(SHORTER * longest if units else WIDER):
        factor = 1.0 if units else wider
        for _ in range(100):
            x = ones @ mean + spread @ u
            scaled = (stacked @ (x - c.ravel()) / wider).reshape(n, p)
            residual = np.concatenate([u - factor * sigma(scaled).ravel(), ones.T @ u])
            slopes = factor / wider * scipy.linalg.block_diag(*derivatives(sigma, scaled)) @ stacked
            jacobian = np.block([[np.eye(n * p) - slopes @ spread, -slopes @ ones], [ones.T, np.zeros((p, p))]])
            if np.abs(residual).max() < 1e-13 * max(1.0, np.abs(u).max()):
                break
            if np.linalg.matrix_rank(jacobian) < len(jacobian):
                raise InputError(FLAT if stage else SINGULAR)
            step = np.linalg.solve(jacobian, -residual)
            u, mean = u + step[: n * p], mean + step[n * p :]
    if np.linalg.matrix_rank(jacobian) < len(jacobian):
        raise InputError(FLAT)
    unclipped = units and (np.linalg.norm(scaled, axis=1) < 1).any()
    if unclipped or np.abs(residual).max() > 1e-9 * max(1.0, np.abs(u).max()):
        raise InputError(f"no fixed point was found with {transform}: try a larger limit.")
    return np.asarray((ones @ mean + spread @ u).reshape(n, p), dtype=np.float64)


def derivatives(transform: Transform, a: Numbers) -> Numbers:
    """dσ/da, one p×p matrix per row of a; 1 where the slope of a power is infinite, which no solution depends on.

    >>> derivatives(ClipNorm(1.0), np.array([[0.0, 2.0]])).tolist()
    [[[0.5, 0.0], [0.0, 0.0]]]
    """
    size, one = np.abs(a), np.eye(a.shape[1])
    match transform:
        case Chain(first, second):
            return np.asarray(derivatives(second, first(a)) @ derivatives(first, a), dtype=np.float64)
        case ClipNorm() | Normalize():
            limit = transform.limit if isinstance(transform, ClipNorm) else 0.0
            length = np.linalg.norm(a, axis=1)[:, None, None]
            unit = a[:, :, None] / np.where(length > 0, length, 1.0)
            shrunk = (limit or 1.0) / np.where(length > 0, length, 1.0) * (one - unit * unit.transpose(0, 2, 1))
            return np.where(length < limit, one, shrunk)
        case Clip(limit):
            slopes = (size < limit).astype(np.float64)
        case Powerball(gamma) if gamma < 1:
            slopes = np.where(size > 0, gamma * np.where(size > 0, size, 1.0) ** (gamma - 1), 1.0)
        case Sign():
            slopes = np.zeros_like(a)
        case _:
            slopes = np.ones_like(a)
    return np.asarray(slopes[:, :, None] * one, dtype=np.float64)


def infinitely_steep(transform: Transform, a: Numbers) -> bool:
    """Whether a power or a norm acts on a zero, where its slope is infinite.

    >>> infinitely_steep(Powerball(0.5), np.zeros((1, 1))), infinitely_steep(Clip(1.0), np.zeros((1, 1)))
    (True, False)
    """
    match transform:
        case Chain(first, second):
            return infinitely_steep(first, a) or infinitely_steep(second, first(a))
        case Normalize():
            return not a.any(axis=1).all()
    return (power_of(transform) or 0.0) < 1 and not isinstance(transform, Clip) and not a.all()


def _by_continuation(A: Numbers, c: Numbers, gamma: float, G: Numbers) -> Numbers:
    """x = x̄ + Gu with A_i(x_i−c_i) = |u_i|^(1/γ) sign u_i and Σu_i = 0, by Newton's method along γ."""
    from scipy.optimize import root

    n, p = c.shape
    stacked = scipy.linalg.block_diag(*A)  # np × np, agent by agent
    spread, ones = np.kron(G, np.eye(p)), np.tile(np.eye(p), (n, 1))

    def residual(unknown: Numbers, g: float) -> tuple[Numbers, Numbers]:
        u, mean = unknown[: n * p], unknown[n * p :]
        x = ones @ mean + spread @ u
        left = stacked @ (x - c.ravel()) - power(u, 1 / g)
        slope = np.diag(np.abs(u) ** (1 / g - 1) / g)
        jacobian = np.block([[stacked @ spread - slope, stacked @ ones], [ones.T, np.zeros((p, p))]])
        return np.concatenate([left, ones.T @ u]), jacobian

    unknown = np.zeros(n * p + p)
    value, jacobian = residual(unknown, 1.0)
    if np.linalg.matrix_rank(jacobian) < len(unknown):
        raise InputError(SINGULAR)
    unknown = np.asarray(np.linalg.solve(jacobian, -value), dtype=np.float64)  # γ = 1 is linear
    for g in np.geomspace(1, gamma, STAGES + 1)[1:] if gamma < 1 else ():
        unknown[: n * p] = power(unknown[: n * p], g)  # initial guess: u raised to a slightly smaller power
        found = root(residual, unknown, args=(float(g),), jac=True, method="lm", options={"xtol": 1e-14, "ftol": 1e-14})
        unknown = np.asarray(found.x, dtype=np.float64)
    if np.abs(residual(unknown, gamma)[0]).max() > 1e-8 * np.abs(stacked).max() * np.abs(c).max():
        raise InputError(f"no fixed point was found for γ = {gamma:g}: try a power nearer to 1.")
    x = ones @ unknown[n * p :] + spread @ unknown[: n * p]
    return np.asarray(x.reshape(n, p), dtype=np.float64)
