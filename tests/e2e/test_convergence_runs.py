"""The theorems of docs/convergence.md along whole trajectories, with costs that are not quadratic."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.commands import PATIENCE
from tests.support.exact_draws import AGENTS, ORDERS, WIDTH, Array, column, laplacians, log_uniform, sigma

from peerdescent import algorithms, graphs, theory, train
from peerdescent.problems import quadratic

pytestmark = [pytest.mark.e2e, pytest.mark.filterwarnings("ignore:gamma")]
ROOT = Path(__file__).parents[2]
RUNS = 200


class Trajectories:
    """Runs side by side on f_i(x) = Σ_j μx_j²/2 + (ℓ−μ) ln cosh(x_j − c_ij), whose curvatures fill (μ, ℓ]."""

    def __init__(self, dual: str, seed: int, gamma: Array | None = None) -> None:
        random = np.random.default_rng((seed, ORDERS.index(dual)))
        self.dual, self.random = dual, random
        self.L, self.rho, self.rho2 = laplacians(random, RUNS)
        self.mu = log_uniform(random, 0.1, 1, RUNS)
        self.ell = self.mu * log_uniform(random, 1, 20, RUNS)
        self.gamma = random.uniform(0.2, 0.9, RUNS) if gamma is None else gamma
        self.alpha = log_uniform(random, 0.1, 10, RUNS)
        self.beta = np.sqrt(self.alpha * self.ell * log_uniform(random, 1, 4, RUNS))
        self.c = random.standard_normal((RUNS, AGENTS, WIDTH))
        self.x = random.standard_normal((RUNS, AGENTS, WIDTH))
        self.v = np.zeros_like(self.x)

    @property
    def largest_step(self) -> Array:
        if self.dual == "gauss-seidel":
            return 0.5 / (self.alpha * self.rho)
        return np.minimum(0.25 / (self.alpha * self.rho), self.mu / (4 * self.beta**2 * self.rho))

    def step(self, eta: Array) -> tuple[Array, Array]:
        """Advance by one iteration; U and E before it."""
        y = np.einsum("bij,bjp->bip", self.L, self.x)
        v = self.v + column(eta * self.beta) * y
        gradient = column(self.mu) * self.x + column(self.ell - self.mu) * np.tanh(self.x - self.c)
        w = column(self.beta) * (v if self.dual == "gauss-seidel" else self.v) + gradient
        s = sigma(w, column(self.gamma))
        potential = (np.abs(w) ** column(1 + self.gamma)).sum(axis=(1, 2)) / (1 + self.gamma)
        potential += self.beta**2 / 2 * (self.x * y).sum(axis=(1, 2))
        dissipation = self.mu / 4 * (s**2).sum(axis=(1, 2))
        dissipation += self.alpha * self.beta**2 / 4 * (y**2).sum(axis=(1, 2))
        self.x, self.v = self.x - column(eta) * (column(self.alpha) * y + s), v
        return potential, dissipation

    def bound(self, eta: Array) -> tuple[Array, Array]:
        """F and Ū + ηF."""
        found = [
            theory.exact_bound(
                algorithms.DSGPA(
                    *(float(a[i]) for a in (eta, self.alpha, self.beta, self.gamma)),
                    power_on="direction",
                    dual=self.dual,  # type: ignore[arg-type]
                ),
                *(float(a[i]) for a in (self.mu, self.ell, self.rho, self.rho2)),
                AGENTS,
                WIDTH,
            )
            for i in range(RUNS)
        ]
        return np.array([each.F for each in found]), np.array([each.potential for each in found])


@pytest.mark.filterwarnings("ignore:ηβ²")
@pytest.mark.parametrize("dual", ORDERS)
def test_theorem_a_along_trajectories(dual: str) -> None:
    runs = Trajectories(dual, 1)
    eta = runs.largest_step * log_uniform(runs.random, 1e-3, 1, RUNS)
    F, level = runs.bound(eta)
    total, start, previous, below = np.zeros(RUNS), np.zeros(RUNS), np.full(RUNS, np.inf), np.zeros(RUNS, bool)
    T = 3000
    for k in range(T):
        U, E = runs.step(eta)
        start = U if k == 0 else start
        assert ((previous * (1 + 1e-9) + 1e-12 >= U) | (previous <= level)).all()  # it falls while above Ū
        below |= level >= U
        assert (U[below] <= level[below] * (1 + 1e-9)).all()  # and stays below once it is there
        previous, total = U, total + E
    assert (total / T <= (2 * start / (eta * T) + 2 * F) * (1 + 1e-9)).all()
    assert below.mean() > 0.3


@pytest.mark.filterwarnings("ignore:ηβ²")
@pytest.mark.parametrize("dual", ORDERS)
def test_theorem_b_rate(dual: str) -> None:
    # η_k = η₀(1 + k/k₀)^(−θ) on complete graphs: from T/10 to T iterations U falls at least as (k₀ + k)^(−2γθ/(1−γ))
    gamma, theta, T = 0.5, 0.6, 8_000
    runs = Trajectories(dual, 2, np.full(RUNS, gamma))
    runs.L, runs.rho, runs.rho2 = (
        np.tile(4 * np.eye(4) - np.ones((4, 4)), (RUNS, 1, 1)),
        np.full(RUNS, 4.0),
        np.full(RUNS, 4.0),
    )
    first = runs.largest_step
    B = 2 * runs.beta / np.sqrt(runs.mu * runs.alpha) + 4 * first * runs.beta**2 * runs.rho / runs.mu
    k0 = np.maximum(1.0, 4 * theta * B)
    more = 2 ** ((1 + gamma) / (1 - gamma)) if dual == "gauss-seidel" else 1.0
    kept: dict[int, list[Array]] = {T // 10: [], T: []}
    eta = first
    U, E = runs.step(eta)
    for k in range(1, T + 50):
        after, dissipation = runs.step(first * (1 + k / k0) ** -theta)
        if k % 1000 == 1:  # the inequality of the proof
            right = U - eta / 2 * E + eta * more * runs.bound(eta)[0]
            assert (after <= right + 1e-9 * (U + after)).all()
        U, E, eta = after, dissipation, first * (1 + k / k0) ** -theta
        for mark, values in kept.items():
            if mark <= k < mark + 50:
                values.append(U)
    early, late = (np.mean(values, axis=0) for values in kept.values())
    slopes = np.log(late / early) / np.log((T + k0) / (T / 10 + k0))
    assert np.median(slopes) < -0.95 * 2 * gamma * theta / (1 - gamma)
    assert (late < early).all()


@pytest.mark.parametrize("gamma", [0.5, 0.7])
def test_recommended_parameters_reach_the_wanted_distance(gamma: float) -> None:
    costs = quadratic(agents=6, dimension=3, condition=4, seed=3)
    curvatures = np.linalg.eigvalsh(costs.A.numpy())
    mu, ell = float(curvatures.min()), float(curvatures.max())
    graph, optimum = graphs.ring(6), costs.optimum().numpy()
    for floor, iterations in ((1e-3, 5_000), (1e-4, 10_000)):
        values = theory.exact_parameters(graph, mu, ell, floor, gamma, dimension=3, guaranteed=False)
        method = algorithms.make("dsgpa-f-pb-exact", gamma=gamma, **values)
        settings: dict[str, Any] = {"dtype": "float64", "per_agent": False, "eval_every": iterations}
        end = train(costs, graph, method, iterations=iterations, **settings).x.numpy()
        distance = float(np.sqrt(((end - optimum) ** 2).sum(axis=1).mean()))
        assert floor / 100 < distance < 5 * floor


def test_the_measured_floor_has_the_predicted_exponent(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "floor.py"), "--out", str(tmp_path / "floor.png")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
    rows = re.findall(r"\| (0\.\d) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", done.stdout)
    assert [float(row[0]) for row in rows] == [0.3, 0.5, 0.7]
    for _, predicted, *measured in rows:
        assert [float(value) for value in measured] == pytest.approx([float(predicted)] * 2, rel=0.05)
    assert (tmp_path / "floor.png").read_bytes().startswith(b"\x89PNG")
    page = (ROOT / "docs" / "convergence.md").read_text()
    assert done.stdout.strip() in page  # the page shows what the command prints
