"""Every inequality of docs/convergence.md on random draws, from a literal transcription of the step in NumPy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given as drawn
from hypothesis import settings
from hypothesis import strategies as st
from tests.support.exact_cases import cases, check_one_step
from tests.support.exact_draws import (
    AGENTS,
    DRAWS,
    ORDERS,
    WIDTH,
    Array,
    Draw,
    N,
    at_most,
    column,
    dot,
    draw,
    log_uniform,
    remainder,
    sigma,
    square,
)

from peerdescent import algorithms, theory, train
from peerdescent.problems import Quadratic

pytestmark = pytest.mark.filterwarnings("ignore:gamma", "ignore:ηβ²", "ignore:dsgpa", "ignore:overflow")


def test_lemma_1_on_powers() -> None:
    random = np.random.default_rng(1)
    g = random.uniform(0.01, 0.99, 20_000)
    a, other = (random.choice([-1, 1], 20_000) * log_uniform(random, 1e-6, 1e6, 20_000) for _ in range(2))
    other = np.where(random.random(20_000) < 0.2, -a, other)  # where the constant is attained
    gap = np.abs(sigma(a, g) - sigma(other, g))
    at_most(gap, 2 ** (1 - g) * np.abs(a - other) ** g, np.abs(a) ** g + np.abs(other) ** g)
    assert np.isclose(gap, 2 ** (1 - g) * np.abs(a - other) ** g).mean() > 0.15
    given, moved = draw("jacobi", 1), draw("jacobi", 2).w
    phi, phi_after = (replace(given, w=w, x=0 * w).potential for w in (given.w, given.w + moved))
    at_most(phi_after, phi + dot(given.s, moved) + remainder(given, moved), phi + phi_after)
    q = 1 + given.gamma
    sums = (np.abs(moved) ** column(q)).sum(axis=(1, 2))
    bound = N ** ((1 - given.gamma) / 2) * square(moved) ** (q / 2)
    at_most(sums, bound, bound)
    s2, length = square(given.s), np.sqrt(square(given.w))
    at_most(length, s2 ** (1 / (2 * given.gamma)), length)
    at_most((q * phi) ** (2 * given.gamma / q), s2, s2)
    at_most(length, (q * phi) ** (1 / q), length)


@pytest.mark.parametrize("dual", ORDERS)
def test_lemma_2_descent(dual: str) -> None:
    before = draw(dual, 3)
    after = before.step()
    right = before.potential - before.eta * before.dissipation + remainder(before, after.w - before.w)
    at_most(after.potential, right, before.potential + after.potential)


@pytest.mark.parametrize("dual", ORDERS)
def test_lemma_3_how_far_w_moves(dual: str) -> None:
    before = draw(dual, 4)
    moved, bound = square(before.step().w - before.w), before.eta**2 * before.K * before.dissipation
    at_most(moved, bound, bound + 1e-6 * square(before.w))
    assert (moved > bound / 10).any()  # the constant is not absurdly large


@pytest.mark.parametrize("dual", ORDERS)
def test_theorem_a_one_step(dual: str) -> None:
    before = draw(dual, 5)
    after = before.step()
    right = before.potential - before.eta / 2 * before.dissipation + before.eta * before.F
    at_most(after.potential, right, before.potential + after.potential)


@pytest.mark.parametrize("dual", ORDERS)
def test_theorem_a_dissipation_bounds_the_potential(dual: str) -> None:
    given = draw(dual, 6)
    at_most(given.psi(given.potential), given.dissipation, given.dissipation)
    g, F = given.gamma, given.F
    level = np.maximum(2 / (1 + g) * (16 * F / given.mu) ** ((1 + g) / (2 * g)), 16 * F / (given.alpha * given.rho2))
    np.testing.assert_allclose(given.psi(level), 4 * F, rtol=1e-9)


@pytest.mark.parametrize("dual", ORDERS)
def test_theorem_b_one_step(dual: str) -> None:
    before = draw(dual, 7, decaying=dual == "gauss-seidel")
    assert (before.next_eta < before.eta).any() == (dual == "gauss-seidel")
    after = before.step()
    more = 2 ** ((1 + before.gamma) / (1 - before.gamma)) if dual == "gauss-seidel" else 1.0
    right = before.potential - before.eta / 2 * before.dissipation + before.eta * more * before.F
    at_most(after.potential, right, before.potential + after.potential)


def test_the_condition_on_the_decay_is_needed_for_the_bound() -> None:
    before = draw("gauss-seidel", 8)
    jump = replace(before, next_eta=0 * before.eta)  # the dual's step ends at once
    after = jump.step()
    right = jump.potential - jump.eta / 2 * jump.dissipation
    more = 2 ** ((1 + jump.gamma) / (1 - jump.gamma)) * jump.eta * jump.F
    assert (after.potential > (right + more) * (1 + 1e-9)).any()


@pytest.mark.parametrize("dual", ORDERS)
def test_the_distance_from_the_optimum(dual: str) -> None:
    given = draw(dual, 9)
    # quadratic costs with Hessians H, minimized together at 0: Σ∇f_i(0) = 0 and w = βv + g(x) with Σv = 0
    pull = given.w - given.w.mean(axis=1, keepdims=True)
    given = replace(given, w=pull + given.hessian(given.x).mean(axis=1, keepdims=True))
    u, n = given.potential, AGENTS
    D = np.sqrt(2 * u / (given.beta**2 * given.rho2))
    residual = ((1 + given.gamma) * u) ** (1 / (1 + given.gamma))
    right = (residual / given.mu + (given.ell / given.mu + 1) * D) / np.sqrt(n)
    at_most(np.sqrt(square(given.x) / n), right, right)
    off = given.x - given.x.mean(axis=1, keepdims=True)
    at_most(np.sqrt(square(off)), D, D)


@pytest.mark.parametrize("dual", ORDERS)
def test_without_a_power_convergence_is_linear(dual: str) -> None:
    given = draw(dual, 10)
    small = np.minimum(given.eta, 1 / given.K)  # a smaller η has a smaller K
    given = replace(given, gamma=np.ones(DRAWS), eta=small, next_eta=small)
    after = given.step()
    shrunk = 1 - given.eta / 4 * np.minimum(given.mu, given.alpha * given.rho2)
    at_most(after.potential, shrunk * given.potential, given.potential)


@drawn(h=st.floats(0.1, 10), eta=st.floats(1e-4, 0.1), gamma=st.floats(0.1, 0.9))
def test_the_exponent_is_sharp(h: float, eta: float, gamma: float) -> None:
    size = (eta * h / 2) ** (1 / (1 - gamma))
    x = size / h

    def moved(x: float) -> float:
        return x - eta * float(sigma(np.array(h * x), np.array(gamma)))

    assert moved(x) == pytest.approx(-x, rel=1e-9)
    assert abs(moved(0.9 * x)) > 0.9 * x  # repelled from inside
    assert abs(moved(1.1 * x)) < 1.1 * x


def test_the_library_alternates_at_the_sharp_size() -> None:
    eta, h, gamma = 0.1, 2.0, 0.5
    x = (eta * h / 2) ** (1 / (1 - gamma)) / h
    costs = Quadratic(A=np.full((3, 1), h), c=np.zeros((3, 1)), start=np.full((3, 1), x))
    method = algorithms.make("dsgpa-f-pb-exact", gamma=gamma, eta=eta, alpha=1.0, beta=2.0)
    for iterations in (100, 101):
        end = train(costs, "ring:3", method, iterations=iterations, dtype="float64").x.numpy()
        np.testing.assert_allclose(end, x * (-1) ** iterations, rtol=1e-6)


@pytest.mark.parametrize("dual", ORDERS)
def test_the_transcription_is_the_library(dual: Any) -> None:
    given = draw(dual, 11, 1)
    c = np.random.default_rng(0).standard_normal((AGENTS, WIDTH))
    x = given.x[0] + 1
    method = algorithms.DSGPA(
        float(given.eta[0]), float(given.alpha[0]), float(given.beta[0]), 0.6, power_on="direction", dual=dual
    )
    g = np.einsum("ipq,iq->ip", given.H[0], x - c)
    first = given.beta[0] ** 2 * given.eta[0] * (given.L[0] @ x) if dual == "gauss-seidel" else 0.0
    now = replace(given, gamma=np.array([0.6]), x=x[None], w=(g + first)[None])
    for _ in range(3):
        now = now.step()
    costs = Quadratic(A=given.H[0], c=c, start=x)
    weights = -np.triu(given.L[0], 1)
    found = train(costs, weights + weights.T, method, iterations=3, dtype="float64", laplacian="weighted").x.numpy()
    np.testing.assert_allclose(found, now.x[0], rtol=1e-9, atol=1e-9 * np.abs(x).max())


def test_the_flow() -> None:
    random = np.random.default_rng(12)
    given = draw("jacobi", 12)
    beta, k = log_uniform(random, 1e-2, 1e2), log_uniform(random, 1e-3, 1e3)
    # the derivative of U, from the definition: w' = β²y − Hd, x' = −d
    d = column(given.alpha) * given.y + given.s
    slope = dot(given.s, column(beta**2) * given.y - given.hessian(d)) - k * dot(given.y, d)
    mixed = column(beta**2 - k) * given.y - column(given.alpha) * given.hessian(given.y)
    form = -dot(given.s, given.hessian(given.s)) + dot(given.s, mixed) - k * given.alpha * square(given.y)
    size = square(given.s) * given.ell + square(given.y) * (given.alpha * k + given.alpha**2 * given.ell + beta**4)
    np.testing.assert_allclose(slope / size, form / size, atol=1e-9)
    # a k exists if and only if 4β² > α(√ℓ − √μ)²: negative definite for every curvature in [μ, ℓ]
    h = given.mu[:, None] * (given.ell / given.mu)[:, None] ** np.linspace(0, 1, 41)
    a, b = given.alpha[:, None], beta[:, None]

    def definite(k: Array) -> Array:
        return ((b**2 - k[:, None] - a * h) ** 2 < 4 * a * h * k[:, None]).all(axis=1)

    low = np.maximum(np.sqrt(given.alpha * given.ell) - beta, beta - np.sqrt(given.alpha * given.mu))
    high = beta + np.sqrt(given.alpha * given.mu)
    claimed = 4 * beta**2 > given.alpha * (np.sqrt(given.ell) - np.sqrt(given.mu)) ** 2
    assert (claimed == (np.maximum(low, 0) < high)).all()
    assert definite(((np.maximum(low, 0) + high) / 2) ** 2)[claimed].all()
    for tried in np.geomspace(1e-6, 1e6, 25):
        assert not definite(tried * given.alpha * given.ell)[~claimed].any()
    assert 0.1 < claimed.mean() < 0.95


def noisy_step(given: Draw, noise: Array, odds: Array) -> tuple[Array, Array, Array]:
    """𝔼U⁺, U and E where entry j has noise[0, j] with probability odds[j] and noise[1, j] otherwise, exactly.

    The expectation adds all 2^N outcomes; ΣΦ_j(w⁺) needs φ's integral, a power of its own: ∫σ = |·|^(1+γ)/(1+γ).
    """
    g = column(given.gamma)

    def integral(w: Array) -> Array:
        """Σ_j ∫₀^{w_j} φ_j, up to a constant."""
        return sum(
            (share[None] * np.abs(w + each[None]) ** (1 + g) / (1 + g)).sum(axis=(1, 2))
            for each, share in zip(noise, (odds, 1 - odds), strict=True)
        )

    phi = odds * sigma(given.w + noise[0], g) + (1 - odds) * sigma(given.w + noise[1], g)
    expected = np.zeros(len(given.eta))
    for outcome in np.ndindex(*(2,) * N):
        chosen = np.reshape(outcome, (AGENTS, WIDTH))
        chance = float(np.where(chosen == 0, odds, 1 - odds).prod())
        xi = np.where(chosen == 0, noise[0], noise[1])
        s = sigma(given.w + xi, g)
        d = column(given.alpha) * given.y + s
        x = given.x - column(given.eta) * d
        pushed = given.laplacian(x) if given.dual == "gauss-seidel" else given.y
        w = given.w + column(given.eta) * (column(given.beta**2) * pushed - given.hessian(d))
        expected += chance * (integral(w) + given.beta**2 / 2 * dot(x, given.laplacian(x)))
    before = integral(given.w) + given.beta**2 / 2 * dot(given.x, given.y)
    return expected, before, given.mu / 4 * square(phi) + given.alpha * given.beta**2 / 4 * square(given.y)


@pytest.mark.parametrize("dual", ORDERS)
def test_noise_of_a_fixed_distribution(dual: str) -> None:
    random = np.random.default_rng(13)
    given = draw(dual, 13, 300)
    odds = random.uniform(0.1, 0.9, (AGENTS, WIDTH))
    size = log_uniform(random, 1e-2, 10, N).reshape(AGENTS, WIDTH)
    noise = np.stack([size * (1 - odds), -size * odds])  # mean 0, variance size²·odds(1 − odds)
    expected, before, dissipation = noisy_step(given, noise, odds)
    g, eta = given.gamma, given.eta
    variance = float((size**2 * odds * (1 - odds)).max())
    V = 2 ** (1 - g) * variance**g * N
    b = given.ell + eta * given.beta**2 * given.rho * (dual == "gauss-seidel")
    right = before - eta / 2 * dissipation + eta * given.F + eta**2 * given.beta**2 * given.rho / 2 * V
    right += 2 ** (1 - g) / (1 + g) * N ** ((1 - g) / 2) * eta ** (1 + g) * (b**2 * V) ** ((1 + g) / 2)
    at_most(expected, right, np.abs(before) + expected)


def test_the_variance_of_a_power() -> None:
    random = np.random.default_rng(14)
    w, spread = random.standard_normal(10_000) * 10, log_uniform(random, 1e-3, 1e3, 10_000)
    odds, g = random.uniform(0.01, 0.99, 10_000), random.uniform(0.05, 1, 10_000)
    ends = sigma(w + spread * (1 - odds), g), sigma(w - spread * odds, g)
    variance = odds * (1 - odds) * (ends[0] - ends[1]) ** 2
    bound = 2 ** (1 - g) * (spread**2 * odds * (1 - odds)) ** g
    at_most(variance, bound, bound)


@pytest.mark.parametrize(("noise", "limit"), [((2.0, -1.0, 1 / 3), 0.4), ((1.0, -1.0, 1 / 2), 0.0)])
def test_skewed_noise_moves_the_limit(noise: tuple[float, float, float], limit: float) -> None:
    # equal costs x²/2, so that Σ∇f_i(x_i) = nx̄: the mean settles where φ(x̄) = 0
    up, down, chance = noise
    random = np.random.default_rng(15)
    L = 3 * np.eye(3) - np.ones((3, 3))
    for power_on in ("direction", "gradient"):
        x, v, sums, eta, alpha, beta = np.full((200, 3), 0.3), np.zeros((200, 3)), [], 0.01, 2.0, 1.0
        for k in range(3000):
            xi = np.where(random.random((200, 3)) < chance, up, down)
            v = v + eta * beta * x @ L
            direction = sigma(beta * v + x + xi, 0.5) if power_on == "direction" else beta * v + sigma(x + xi, 0.5)
            x = x - eta * (alpha * x @ L + direction)
            sums.append(x.mean()) if k >= 1500 else None
        assert np.mean(sums) == pytest.approx(limit, abs=0.02)


def test_one_concave_cost_keeps_the_method_away() -> None:
    # the curvatures −½, 2 and 2 sum to 3.5 > 0; γ = 1 converges, γ = ½ keeps a distance that does not depend on η
    h, c, x0 = np.array([-0.5, 2.0, 2.0]), np.array([0.3, -1.0, 1.0]), np.array([0.1, 0.2, -0.4])
    L, optimum = 3 * np.eye(3) - np.ones((3, 3)), float(h @ c / h.sum())

    def farthest(gamma: float, eta: float) -> float:
        x, v, found = x0, np.zeros(3), 0.0
        for k in range(round(40 / eta)):
            y = L @ x
            v = v + eta * y
            w = v + h * (x - c)
            x = x - eta * (y + np.sign(w) * np.abs(w) ** gamma)
            found = max(found, float(np.abs(x - optimum).max())) if k > 36 / eta else found
        return found

    assert farthest(1.0, 0.02) < 1e-9
    assert [farthest(0.5, eta) for eta in (0.02, 0.005)] == pytest.approx([0.07, 0.07], rel=0.05)


@drawn(theta=st.floats(0, 0.99), product=st.floats(0.01, 500))
def test_momentum_before_the_power(theta: float, product: float) -> None:
    # m⁺ = θm + (1−θ)w, w⁺ = w − ηhq·m⁺
    row = np.array([theta, 1 - theta])
    matrix = np.array([row, np.array([0.0, 1.0]) - product * row])
    radius = float(np.abs(np.linalg.eigvals(matrix)).max())
    bound = 2 * (1 + theta) / (1 - theta)
    if abs(product / bound - 1) > 1e-6 and theta > 0:
        assert (radius < 1) == (product < bound)


def test_exact_bound_is_that_of_the_page() -> None:
    given = draw("gauss-seidel", 16, 50)
    for i in range(50):
        method = algorithms.DSGPA(
            *(float(a[i]) for a in (given.eta, given.alpha, given.beta, given.gamma)), power_on="direction"
        )
        if 16 * given.F[i] / given.mu[i] > 1e50:
            continue
        facts = (float(a[i]) for a in (given.mu, given.ell, given.rho, given.rho2))
        found = theory.exact_bound(method, *facts, AGENTS, WIDTH)
        assert pytest.approx(given.K[i]) == found.K
        assert pytest.approx(given.F[i]) == found.F
        assert given.psi(np.array(found.potential - given.eta[i] * given.F[i]))[i] == pytest.approx(4 * given.F[i])


@pytest.mark.parametrize("dual", ORDERS)
def test_every_inequality_of_one_step_where_hypothesis_looks(dual: str) -> None:
    @settings(max_examples=40, deadline=None)
    @drawn(case=cases(dual))
    def check(case: Draw) -> None:
        check_one_step(case)

    check()
