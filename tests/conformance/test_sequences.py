"""Every method on graphs that change over time: equality with its per-agent transcription, whose L and W change too."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from tests.conformance.reference import Gradient
from tests.conformance.test_every_method import (
    BATCH,
    CASES,
    COMMUNICATION,
    ITERATIONS,
    SEED,
    matrices,
    noisy_quadratic,
    one_thread,
    start,
)

import peerdescent
from peerdescent import graphs
from peerdescent.algorithms import PRESETS

SEQUENCES = (
    "onepeer-exp:4",
    pytest.param("matching:5:seed=2", marks=pytest.mark.e2e),
    pytest.param("sequence", marks=pytest.mark.e2e),
)
ROUNDS = [graphs.parse("star:4"), graphs.parse("ring:4"), graphs.parse("path:4")]
__all__ = ["one_thread"]  # a fixture that pytest finds here


class Clock:
    """The iteration of a transcription: it computes its gradients before it mixes."""

    def __init__(self, gradient: Gradient) -> None:
        self.k, self._gradient = 0, gradient

    def gradient(self, i: int, x: np.ndarray, k: int) -> np.ndarray:
        self.k = k
        return self._gradient(i, x, k)


class Varying:
    """A matrix whose entries are those of the current iteration."""

    def __init__(self, clock: Clock, each: list[np.ndarray]) -> None:
        self._clock, self._each = clock, each

    def __getitem__(self, place: tuple[int, int]) -> float:
        return float(self._each[self._clock.k][place])

    def __matmul__(self, x: np.ndarray) -> np.ndarray:
        product: np.ndarray = self._each[self._clock.k] @ x
        return product


@pytest.mark.parametrize("spec", SEQUENCES)
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.e2e) if name in COMMUNICATION else name for name in PRESETS]
)
def test_equals_its_transcription_on_a_sequence(name: str, spec: str) -> None:
    construct, transcription, keywords = CASES[name]
    sequence = graphs.sequence(ROUNDS) if spec == "sequence" else graphs.parse(spec)
    problem, gradient = noisy_quadratic(sequence.n)
    clock = Clock(gradient)
    each = [matrices(sequence.graph(k), "") for k in range(ITERATIONS + 1)]  # trackers are one ahead
    mixing = [(np.eye(sequence.n) + W) / 2 if name in ("d2", "led") else W for _, W in each]
    L, W = Varying(clock, [L for L, _ in each]), Varying(clock, mixing)
    expected = transcription(start(sequence.n), L, W, clock.gradient, ITERATIONS, **keywords)[-1]
    assert np.abs(expected).max() < 20
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
        )
        far = np.abs(result.x.numpy() - expected).max() / np.abs(expected).max()
        assert far < 1e-10, f"{kernel} kernel"
        sent = sum(2 * len(sequence.graph(k).edges) for k in range(ITERATIONS))
        vectors = result.metrics["bytes_sent"][-1] / (8 * problem.dimension)
        assert vectors == sent * peerdescent.tracing.recording.vectors_sent(construct())
