"""Transforms after the correction: each method against its equation, and what has no correction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import peerdescent
from peerdescent import InputError, graphs, transforms
from peerdescent.algorithms import PRESETS, Algorithm, make
from peerdescent.algorithms.state import initial_state
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import quadratic
from peerdescent.transforms import Clip, OnDirection, Powerball, Sign, Transform

N, P, K, ETA, SPEC = 5, 3, 40, 0.07, "er:5:0.6:seed=2"
PROBLEM = quadratic(N, P, condition=5, seed=1)
A, C = PROBLEM.A.numpy(), PROBLEM.c.numpy()
START = np.random.default_rng(3).normal(size=(N, P))
Sigma = Callable[[np.ndarray], np.ndarray]


def g(x: np.ndarray) -> np.ndarray:
    return np.stack([A[i] @ (x[i] - C[i]) for i in range(N)])


def tracking(W: np.ndarray, L: np.ndarray, sigma: Sigma, combine_last: bool) -> np.ndarray:
    x, y = START, g(START)
    for _ in range(K):
        new = W @ (x - ETA * sigma(y)) if combine_last else W @ x - ETA * sigma(y)
        y = W @ y + g(new) - g(x)
        x = new
    return x


def d2(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    """φ = x − ησ(g + v/η), x⁺ = Wφ, v⁺ = v + φ − Wφ; without σ this is x⁺ = W(2x − x₋ − η(g − g₋))."""
    x, v = START, np.zeros((N, P))
    for _ in range(K):
        phi = x - ETA * sigma(g(x) + v / ETA)
        x, v = W @ phi, v + phi - W @ phi
    return x


def dsgpa(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, v = START, np.zeros((N, P))
    for _ in range(K):
        v = v + ETA * 2.0 * L @ x
        x = x - ETA * (4.0 * L @ x + sigma(2.0 * v + g(x)))
    return x


METHODS: dict[str, tuple[Any, dict[str, float]]] = {
    "d-sgt-1": (lambda W, L, sigma: tracking(W, L, sigma, False), {"eta": ETA}),
    "d-sgt-2": (lambda W, L, sigma: tracking(W, L, sigma, True), {"eta": ETA}),
    "d2": (d2, {"eta": ETA}),
    "dsgpa-f": (dsgpa, {"eta": ETA, "alpha": 4.0, "beta": 2.0}),
}
SIGMAS: dict[str, tuple[Transform, Sigma]] = {
    "power": (Powerball(0.7), lambda a: np.sign(a) * np.abs(a) ** 0.7),
    "clip": (Clip(0.2), lambda a: np.minimum(np.maximum(a, -0.2), 0.2)),
    "both": (Clip(0.5).then(Powerball(0.5)), lambda a: np.sign(a) * np.sqrt(np.minimum(np.abs(a), 0.5))),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("sigma", list(SIGMAS))
@pytest.mark.parametrize("name", list(METHODS))
def test_after_the_correction_is_the_equation(name: str, sigma: str, kernel: str) -> None:
    by_hand, values = METHODS[name]
    transform, function = SIGMAS[sigma]
    W = graphs.parse(SPEC).mixing().toarray()
    method = make(name, transform=transform.on_direction(), **values)
    if method.mixing(float(np.linalg.eigvalsh(W)[0])) == "lazy":
        W = (np.eye(N) + W) / 2
    expected = by_hand(W, graphs.parse(SPEC).laplacian("metropolis").toarray(), function)
    found = peerdescent.train(
        PROBLEM, SPEC, method, iterations=K, dtype="float64", x0=torch.from_numpy(START), batch_size=0, kernel=kernel,
        eval_every=K, per_agent=False,
    )  # fmt: skip
    np.testing.assert_allclose(found.x.numpy(), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["d-sgd-1", "dm-sgd", "c-sgd", "gossip-adamw"])
def test_what_corrects_nothing_has_no_direction(name: str) -> None:
    with pytest.raises(InputError, match=r"corrects no gradients, so that OnDirection.*leave out on_direction\(\)"):
        make(name, transform=Clip(1.0).on_direction())


def test_every_method_that_corrects_uses_the_transform() -> None:
    """A method that declares `corrects` and does not call `corrected` would ignore an option."""
    for name, preset in PRESETS.items():
        if preset.kind.corrects:
            plain, clipped = (_one_step(make(name, transform=t)) for t in (Transform(), Clip(1e-3).on_direction()))
            assert not torch.equal(plain, clipped), name


def _one_step(method: Algorithm) -> torch.Tensor:
    weights = MixingWeights.build(graphs.parse(SPEC), "metropolis", "metropolis", method)
    network = make_network(weights, torch.float64, torch.device("cpu"))
    update = make_update(method, initial_state(method, torch.from_numpy(START)), network, "plain")
    update.gradient.copy_(torch.from_numpy(g(update.begin(0).numpy())))
    update.finish(0)
    return update.state["x"]


def test_before_and_after_are_kept_apart() -> None:
    both = Clip(1.0).then(Powerball(0.5).on_direction()).then(Sign())
    assert (both.before, both.after) == (Clip(1.0).then(Sign()), Powerball(0.5))
    assert both(4.0) == 1.0
    with pytest.raises(InputError, match="on_direction has"):
        OnDirection(both)


@pytest.mark.parametrize(
    ("text", "made"),
    [
        ("power:0.7", Powerball(0.7)),
        ("sign@direction", OnDirection(Sign())),
        ("clip:2+power:0.5@direction", Clip(2.0).then(OnDirection(Powerball(0.5)))),
    ],
)
def test_texts(text: str, made: Transform) -> None:
    assert transforms.parse(text) == made


@pytest.mark.parametrize(
    "text", ["", "power", "sign:1", "clip:x", "norm:1", "clip:1@gradient", "clip:-1", "power:2", 5, None]
)
def test_other_texts_are_one_sentence(text: Any) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*\.$"):
        transforms.parse(text)
