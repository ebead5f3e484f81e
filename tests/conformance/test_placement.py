"""Transforms after the correction: each method against its equation, and what has no correction."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import peerdescent
from peerdescent import InputError, graphs, transforms
from peerdescent.algorithms import PRESETS, make
from peerdescent.expressions import Clamp, walk
from peerdescent.problems import quadratic
from peerdescent.tracing.recording import record
from peerdescent.transforms import Clip, ClipNorm, Normalize, OnDirection, Powerball, Sign, Transform

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


def extra(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, v = START, np.zeros((N, P))
    for _ in range(K):
        x, v = W @ x - ETA * sigma(g(x) + v / ETA), v + (x - W @ x) / 2
    return x


def diffusion(W: np.ndarray, sigma: Sigma, beta: float = 0.0, first_mixes: bool = True) -> np.ndarray:
    """As d2 with (I+W)/2, on momentum, and without mixing in the first iteration."""
    x, v, m = START, np.zeros((N, P)), np.zeros((N, P))
    half = (np.eye(N) + W) / 2
    for k in range(K):
        m = beta * m + (1 - beta) * g(x)
        phi = x - ETA * sigma(m + v / ETA)
        mixed = half @ phi if k or first_mixes else phi
        x, v = mixed, v + phi - mixed
    return x


def aug_dgm(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, y = START, g(START)
    for _ in range(K):
        new = W @ (x - ETA * sigma(y))
        y = W @ (y + g(new) - g(x))
        x = new
    return x


def momentum_tracking(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, u, c = START, np.zeros((N, P)), np.zeros((N, P))
    for _ in range(K):
        u = 0.6 * u + g(x)
        x, c = W @ x - ETA * sigma(u - c), W @ (c - u) + u
    return x


def gt_hsgd(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, before = START, START
    v = y = np.zeros((N, P))
    for k in range(K):
        new = g(x) + (0.7 * (v - g(before)) if k else 0)
        y, v = W @ (y + new - v), new
        x, before = W @ (x - ETA * sigma(y)), x
    return x


def gt_nsgdm(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, y, m = START, np.zeros((N, P)), np.zeros((N, P))
    for _ in range(K):
        new = 0.6 * m + 0.4 * g(x)
        y, m = W @ (y + new - m), new
        d = sigma(y)
        x = W @ (x - ETA * d / np.sqrt((d**2).sum(axis=1, keepdims=True)))
    return x


def k_gt(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    """One local step per exchange: x⁺ = W(x − η_s ησ(g + c)), c⁺ = c − (I−W)(g + c)."""
    x, c = START, np.zeros((N, P))
    for _ in range(K):
        d = g(x) + c
        x, c = W @ (x - 0.8 * ETA * sigma(d)), c - d + W @ d
    return x


def led(W: np.ndarray, sigma: Sigma, beta: float) -> np.ndarray:
    x, y = START, np.zeros((N, P))
    for _ in range(K):
        phi = x - ETA * sigma(g(x) + beta * y / ETA)
        x, y = W @ phi, y + phi - W @ phi
    return x


def motef(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    x, y = START, g(START)
    m = y
    for _ in range(K):
        x = W @ x - ETA * sigma(y)
        new = 0.6 * m + 0.4 * g(x)
        y, m = W @ y + new - m, new
    return x


def powered_tracking(W: np.ndarray, L: np.ndarray, sigma: Sigma) -> np.ndarray:
    return tracking(W, L, lambda y: np.sign(sigma(y)) * np.abs(sigma(y)) ** 0.8, False)


METHODS: dict[str, tuple[Any, dict[str, float]]] = {
    "extra": (extra, {"eta": ETA}),
    "exact-diffusion": (lambda W, L, sigma: diffusion(W, sigma), {"eta": ETA}),
    "nids": (lambda W, L, sigma: diffusion(W, sigma, first_mixes=False), {"eta": ETA}),
    "edm": (lambda W, L, sigma: diffusion(W, sigma, 0.6), {"eta": ETA, "beta": 0.6}),
    "aug-dgm": (aug_dgm, {"eta": ETA}),
    "momentum-tracking": (momentum_tracking, {"eta": ETA, "beta": 0.6}),
    "gt-hsgd": (gt_hsgd, {"eta": ETA, "beta": 0.3}),
    "gt-nsgdm": (gt_nsgdm, {"eta": ETA, "beta": 0.6}),
    "push-diging": (lambda W, L, sigma: tracking(W, L, sigma, True), {"eta": ETA}),
    "powered-tracking": (powered_tracking, {"eta": ETA, "gamma": 0.8}),
    "k-gt": (k_gt, {"eta": ETA, "eta_s": 0.8}),
    "led": (lambda W, L, sigma: led(W, sigma, 0.5), {"eta": ETA, "beta": 0.5}),
    "proxskip": (lambda W, L, sigma: led((np.eye(N) + W) / 2, sigma, 0.5), {"eta": ETA, "beta": 0.5}),
    "beer": (lambda W, L, sigma: tracking(W, L, sigma, False), {"eta": ETA}),
    "motef": (motef, {"eta": ETA, "beta": 0.6}),
    "d-sgt-1": (lambda W, L, sigma: tracking(W, L, sigma, False), {"eta": ETA}),
    "d-sgt-2": (lambda W, L, sigma: tracking(W, L, sigma, True), {"eta": ETA}),
    "d2": (d2, {"eta": ETA}),
    "dsgpa-f": (dsgpa, {"eta": ETA, "alpha": 4.0, "beta": 2.0}),
}
SIGMAS: dict[str, tuple[Transform, Sigma]] = {
    "power": (Powerball(0.7), lambda a: np.sign(a) * np.abs(a) ** 0.7),
    "clip": (Clip(0.2), lambda a: np.minimum(np.maximum(a, -0.2), 0.2)),
    "unit length": (Normalize(), lambda a: a / np.sqrt((a**2).sum(axis=1, keepdims=True))),
    "both": (Clip(0.5).then(Powerball(0.5)), lambda a: np.sign(a) * np.sqrt(np.minimum(np.abs(a), 0.5))),
}


def combinations() -> list[Any]:
    """Every method with every transform, a third of them in the quick tests, and few compiled."""
    return [
        pytest.param(name, sigma, kernel, marks=[pytest.mark.e2e] if (i + j) % (3 if kernel == "plain" else 12) else [])
        for i, name in enumerate(METHODS)
        for j, sigma in enumerate(SIGMAS)
        for kernel in ("plain", "compiled")
    ]


@pytest.mark.parametrize(("name", "sigma", "kernel"), combinations())
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
        eval_every=K, per_agent=False, compress="none",
    )  # fmt: skip
    np.testing.assert_allclose(found.x.numpy(), expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["d-sgd-1", "dm-sgd", "c-sgd", "gossip-adamw"])
def test_what_corrects_nothing_has_no_direction(name: str) -> None:
    with pytest.raises(InputError, match=r"corrects no gradients, so that OnDirection.*leave out on_direction\(\)"):
        make(name, transform=Clip(1.0).on_direction())


@pytest.mark.parametrize("local", [False, True])
def test_every_method_that_corrects_uses_the_transform(local: bool) -> None:
    """A method that declares `corrects` and does not call `corrected` would ignore an option."""
    for name, preset in PRESETS.items():
        if preset.kind.corrects:
            method = make(name, transform=Clip(1e-3).on_direction())
            points, outputs = record(method, ("x", *method.memory()), local)
            assert any(isinstance(node, Clamp) for node in walk(*points, outputs["x"])), name


def test_every_method_that_has_a_direction_is_written_out() -> None:
    of = {type(make(name)) for name in METHODS}
    assert {preset.kind for preset in PRESETS.values() if preset.kind.corrects} == of


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
        ("normalize@direction", OnDirection(Normalize())),
        ("clip-norm:2", ClipNorm(2.0)),
        ("sign@direction", OnDirection(Sign())),
        ("clip:2+power:0.5@direction", Clip(2.0).then(OnDirection(Powerball(0.5)))),
    ],
)
def test_texts(text: str, made: Transform) -> None:
    assert transforms.parse(text) == made


@pytest.mark.parametrize(
    "text",
    [
        "",
        "power",
        "sign:1",
        "clip:x",
        "norm:1",
        "clip:1@gradient",
        "normalize:1",
        "clip-norm",
        "clip:-1",
        "power:2",
        5,
        None,
    ],
)
def test_other_texts_are_one_sentence(text: Any) -> None:
    with pytest.raises(InputError, match=r"^[^\n]*\.$"):
        transforms.parse(text)
