"""Random exchanges in theory: the mean square, against its recursion over single iterations and against runs."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from peerdescent import InputError, theory, train
from peerdescent.algorithms import make
from peerdescent.mixing.periods import Periods
from peerdescent.problems import Quadratic
from peerdescent.theory.random_periods import second_moment
from peerdescent.theory.recursion import Equation


@pytest.mark.parametrize("name", ["led", "proxskip", "d2", "dsgpa-f"])
@pytest.mark.parametrize("p", [0.1, 0.5])
def test_rounds_and_single_iterations_agree_on_stability(name: str, p: float) -> None:
    """E[ssᵀ] of one iteration to the next has p E⊗E + (1−p) L⊗L, whose radius is below 1 if and only if M's is."""
    method = make(name, eta=0.5, **({"beta": 1.5} if name in ("led", "proxskip") else {}))
    bound = method.with_periods(Periods.parse(f"random:{p}"))
    for mu in (0.2, 0.9, 1.5, 1.9):
        step = {False: Equation(bound).step(mu, mu), True: Equation(bound).step(mu, mu, local=True)}
        E, L = (step[local].closed(0.3)[0] for local in (False, True))
        each = np.abs(np.linalg.eigvals(p * np.kron(E, E) + (1 - p) * np.kron(L, L))).max()
        whole = second_moment(E[None], L[None], p)
        radius = np.abs(np.linalg.eigvals(whole[0])).max() if np.isfinite(whole).all() else np.inf
        assert (each < 1) == (radius < 1), (mu, each, radius)


def test_d_sgd_in_closed_form() -> None:
    """x ← (1−μ)x with probability p: E[x²] is multiplied by 1 − p(1 − (1−μ)²) per iteration, per round by (1−μ)²."""
    verdict = theory.stability(make("d-sgd-1"), "ring:10", communication_period="random:0.2")
    mu = 2 / 3 * (1 - np.cos(2 * np.pi / 10))
    assert verdict.radius == pytest.approx((1 - mu) ** (2 * 0.2 / 2))
    assert "grows in the mean square by" in verdict.reason
    assert theory.stability(make("d-sgd-1"), "ring:10", communication_period="random:1").radius == pytest.approx(1 - mu)


@pytest.mark.parametrize(("beta", "stable"), [(1.0, True), (12.0, False)])
def test_a_run_does_what_is_predicted(beta: float, stable: bool) -> None:
    method = make("proxskip", beta=beta)
    assert theory.stability(method, "ring:6", communication_period="random:0.3").stable is stable
    flat = Quadratic(A=np.zeros((6, 2)), c=np.zeros((6, 2)))
    x0 = torch.from_numpy(np.random.default_rng(0).normal(size=(6, 2)))
    settings: dict[str, Any] = {
        "communication_period": "random:0.3",
        "batch_size": 0,
        "dtype": "float64",
        "eval_every": 400,
    }
    with nullcontext() if stable else pytest.warns(UserWarning, match="unstable"):
        x = train(flat, "ring:6", method, x0=x0, iterations=400, **settings).x
    assert (float((x - x.mean(dim=0)).abs().max()) < 1e-2) is stable


def test_what_theory_does_not_know_is_said() -> None:
    with pytest.raises(InputError, match="K-GT with fixed periods only"):
        theory.stability(make("k-gt"), "ring:6", communication_period="random:0.5")
    with pytest.raises(InputError, match="random exchanges only on one graph"):
        theory.stability(make("d-sgd-1"), "onepeer-exp:4", communication_period="random:0.5")


def test_local_steps_of_led_and_k_gt_are_judged_with_their_period() -> None:
    """β/τ and K follow the period: both stay stable on a ring for every period, and k-gt has K in its records."""
    for name in ("led", "k-gt"):
        for m in (1, 5, 20):
            assert theory.stability(make(name), "ring:6", communication_period=m).stable, (name, m)
    assert Equation(make("k-gt")).for_period(5).numbers()["K"] == 5
    assert Equation(make("led")).for_period(5).numbers()["tau"] == 5
