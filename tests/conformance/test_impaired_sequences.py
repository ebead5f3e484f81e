"""Lost and late messages on graphs that change over time: every method against its per-agent transcription.

The transcriptions mix through `neighbours`. Here that function knows what was sent: row i of W·a becomes
a_i − Σ_j w_ij (â_i − â_j) over the messages that arrive, with the rows â and the graph of the round in which they left.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.conformance import reference, reference_communication, reference_corrected, reference_tracking
from tests.conformance.test_every_method import BATCH, CASES, SEED, matrices, noisy_quadratic, one_thread, start
from tests.conformance.test_sequences import Clock

import peerdescent
from peerdescent import graphs
from peerdescent.algorithms import PRESETS
from peerdescent.mixing.chance import Independent
from peerdescent.tracing.recording import vectors_sent

ITERATIONS = 30
IMPAIRED: dict[str, dict[str, Any]] = {
    "drop": {"drop": "0.3"},
    "delay": {"delay": 2},
    "both": {"drop": "0.3", "delay": 2},
}
SPEC = "onepeer-exp:4"
MODULES = reference, reference_communication, reference_corrected, reference_tracking
FEW = ("d-sgd-1", "d-sgt-1", "dsgpa-f", "d2")
NOT_SENT = ("nids", "aug-dgm")
"""Their equations mix nothing in the first iteration, so that they do not say what arrives late from it."""
__all__ = ["one_thread"]  # a fixture that pytest finds here


@pytest.fixture(autouse=True)
def no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stability on random rounds is sampled, and tested elsewhere."""
    monkeypatch.setattr("peerdescent.training.train._warn_if_unstable", lambda plan, group: None)


@cache
def lost(i: int, j: int) -> np.ndarray:
    return Independent(0.3).happens(SEED, "drop", np.array([sorted([i, j])]), 0, ITERATIONS + 1)[:, 0]


class Late:
    """L or W of every round, and all that was ever sent."""

    def __init__(self, clock: Clock, each: list[np.ndarray], identity: bool, settings: dict[str, Any]) -> None:
        self.clock, self.each, self.identity = clock, each, identity
        self.delay, self.drops = settings.get("delay", 0), "drop" in settings
        self.sent: dict[tuple[int, int], np.ndarray] = {}

    def product(self, a: np.ndarray, i: int, message: int) -> np.ndarray:
        """Row i of W·a or L·a; a message is known by the line of the transcription that asks for it."""
        k = self.clock.k
        self.sent[message, k] = a.copy()
        left, own = k - self.delay, a[i] if self.identity else np.zeros(a.shape[1])
        if left < 0:
            return own.copy()
        rows = self.sent.get((message, left), np.zeros_like(a))  # a tracker is zero before its first gradient
        weights = self.each[left] if self.identity else -self.each[left]
        total = np.zeros(a.shape[1])
        for j in range(len(a)):
            if j != i and weights[i, j] != 0 and not (self.drops and lost(i, j)[left]):
                total = total + weights[i, j] * (rows[i] - rows[j])
        return own - total if self.identity else total

    def __matmul__(self, a: np.ndarray) -> np.ndarray:
        line = sys._getframe(1).f_lineno
        return np.stack([self.product(a, i, line) for i in range(len(a))])


@pytest.mark.parametrize(
    ("name", "impairment"),
    [
        *((name, "both") for name in FEW),
        *(
            pytest.param(name, kind, marks=pytest.mark.e2e)
            for name in PRESETS
            for kind in IMPAIRED
            if kind == "drop" or name not in NOT_SENT
        ),
    ],
)
def test_equals_its_transcription(name: str, impairment: str, monkeypatch: pytest.MonkeyPatch) -> None:
    construct, transcription, keywords = CASES[name]
    settings, sequence = IMPAIRED[impairment], graphs.parse(SPEC)
    problem, gradient = noisy_quadratic(sequence.n)
    clock = Clock(gradient)
    each = [matrices(sequence.graph(k), "") for k in range(ITERATIONS + 1)]  # trackers are one ahead
    lazy = construct().mixing(-1.0) == "lazy"
    mixing = [(np.eye(sequence.n) + W) / 2 if lazy else W for _, W in each]
    L = Late(clock, [L for L, _ in each], False, settings)
    W = Late(clock, mixing, True, settings)
    for module in MODULES:
        monkeypatch.setattr(module, "neighbours", lambda A, a, i: A.product(a, i, sys._getframe(1).f_lineno))
    expected = transcription(start(sequence.n), L, W, clock.gradient, ITERATIONS, **keywords)[-1]
    for kernel in ("plain", "compiled"):
        result = peerdescent.train(
            problem,
            sequence,
            construct(),
            x0=torch.from_numpy(start(sequence.n)),
            iterations=ITERATIONS,
            batch_size=BATCH,
            seed=SEED,
            dtype="float64",
            kernel=kernel,
            eval_every=ITERATIONS,
            per_agent=False,
            compress="none",
            **settings,
        )
        far = np.abs(result.x.numpy() - expected).max() / np.abs(expected).max()
        assert far < 1e-9, f"{kernel} kernel"
        d = settings.get("delay", 0)
        arrived = sum(
            2 * ("drop" not in settings or not lost(*edge)[k])
            for k in range(ITERATIONS - d)
            for edge in sequence.graph(k).edges
        )
        vectors = result.metrics["bytes_sent"][-1] / (8 * problem.dimension)
        assert vectors == arrived * vectors_sent(construct())
