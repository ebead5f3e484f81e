"""Compressed messages: agent-by-agent transcriptions, identities, bytes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.mixing.test_compressors import quantized, top_k
from tests.support.chosen_methods import EVERY_METHOD

from peerdescent import InputError, algorithms, graphs, train
from peerdescent.algorithms import Algorithm
from peerdescent.data.randomness import stream
from peerdescent.mixing.consensus_step import largest_consensus_step
from peerdescent.problems import Problem, Quadratic

Array = NDArray[np.float64]
N, P, ETA, SEED = 6, 20, 0.1, 3
random = np.random.default_rng(1)
CURVATURE, CENTRES = random.uniform(0.5, 1.5, (N, P)), random.standard_normal((N, P))
SOLUTION = (CURVATURE * CENTRES).sum(axis=0) / CURVATURE.sum(axis=0)


def problem() -> Problem:
    return Quadratic(A=CURVATURE, c=CENTRES)


def run(method: Algorithm | str, graph: object = f"ring:{N}", **settings: Any) -> Any:
    chosen = {"iterations": 40, "dtype": "float64", "batch_size": 0, "seed": SEED, **settings}
    return train(problem(), graph, method, x0=torch.zeros(N, P), **chosen)


def compressor(text: str) -> Callable[[Array, int, int, int], Array]:
    """Q(a) of one agent, in one iteration, for one of its messages."""
    if text == "topk:0.2":
        return lambda a, agent, k, message: top_k(a, 4)
    assert text == "qsgd:4"
    return lambda a, agent, k, message: quantized(
        a, 7, stream(SEED, f"compression {message}", agent, k).random(P, dtype=np.float32).astype(float)
    )


def transcribed(name: str, text: str, c: float, iterations: int) -> Array:
    """The method agent by agent, with a public copy of every message."""
    W = graphs.parse(f"ring:{N}").mixing().toarray()
    L = graphs.parse(f"ring:{N}").laplacian().toarray()
    Q = compressor(text)
    x, y, v, g_prev = (np.zeros((N, P)) for _ in range(4))
    copies = [np.zeros((N, P)), np.zeros((N, P))]

    def publish(a: Array, k: int, message: int) -> Array:
        for i in range(N):
            copies[message][i] += Q(a[i] - copies[message][i], i, k, message)
        return copies[message]

    for k in range(iterations):
        g = CURVATURE * (x - CENTRES)
        x_hat = publish(x, k, 0)
        new = np.zeros_like(x)
        if name == "d-sgd-1":
            for i in range(N):
                new[i] = x[i] + c * sum(W[i, j] * (x_hat[j] - x_hat[i]) for j in range(N)) - ETA * g[i]
        elif name == "d-sgt-1":
            y_hat = publish(y, k, 1)
            tracked = np.zeros_like(y)
            for i in range(N):
                tracked[i] = y[i] + c * sum(W[i, j] * (y_hat[j] - y_hat[i]) for j in range(N)) + g[i] - g_prev[i]
                new[i] = x[i] + c * sum(W[i, j] * (x_hat[j] - x_hat[i]) for j in range(N)) - ETA * tracked[i]
            y, g_prev = tracked, g
        else:
            for i in range(N):
                Lx = c * sum(L[i, j] * x_hat[j] for j in range(N))
                v[i] = v[i] + ETA * 2.0 * Lx
                new[i] = x[i] - ETA * (5.0 * Lx + 2.0 * v[i] + g[i])
        x = new
    return x


METHODS = {
    "d-sgd-1": algorithms.make("d-sgd-1", eta=ETA),
    "d-sgt-1": algorithms.make("d-sgt-1", eta=ETA),
    "dsgpa": algorithms.DSGPA(eta=ETA, alpha=5.0, beta=2.0),
}


@pytest.mark.parametrize("kernel", ["auto", "plain"])
@pytest.mark.parametrize("text", ["topk:0.2", "qsgd:4"])
@pytest.mark.parametrize("name", list(METHODS))
def test_a_run_is_its_transcription(name: str, text: str, kernel: str) -> None:
    result = run(METHODS[name], compress=text, consensus_step=0.3, kernel=kernel)
    assert np.allclose(result.x.numpy(), transcribed(name, text, 0.3, 40), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", ["d-sgd-1", "dsgpa-f", "gossip-sgd"])
def test_without_compression_and_with_c_1_nothing_changes(name: str) -> None:
    plain = run(name)
    assert torch.equal(run(name, compress="none", consensus_step=1.0).x, plain.x)
    assert not torch.equal(run(name, consensus_step=0.5).x, plain.x)


def test_choco_sgd_without_compression_is_w_times_the_adapted_points() -> None:
    """Adapt, then combine with c = 1, through public copies that are exact: W(x − ηg)."""
    result = run(algorithms.make("gossip-sgd", eta=ETA), compress="topk:1", consensus_step=1.0)
    W, x = graphs.parse(f"ring:{N}").mixing().toarray(), np.zeros((N, P))
    for _ in range(40):
        x = W @ (x - ETA * CURVATURE * (x - CENTRES))
    assert np.allclose(result.x.numpy(), x, atol=1e-12)


@pytest.mark.parametrize("text", ["topk:0.2", "randk:0.3", "qsgd:4", "sign", "bf16"])
def test_gradient_tracking_reaches_the_solution_through_compressed_messages(text: str) -> None:
    result = run(METHODS["d-sgt-1"], iterations=1000, compress=text)
    assert np.abs(result.x.numpy() - SOLUTION).max() < 1e-2
    assert result.metrics[-1]["loss"] < result.metrics[0]["loss"]


@pytest.mark.parametrize(("text", "size"), [("topk:0.2", 4 * 8 + 3), ("qsgd:4", 8 + 4 * 3), ("sign", 8 + 3)])
def test_bytes_are_those_of_the_encoded_messages(text: str, size: int) -> None:
    result = run("d-sgt-1", iterations=10, compress=text)
    assert result.metrics[-1]["bytes_sent"] == 10 * 2 * 2 * N * size


def test_the_chosen_consensus_step_is_noted() -> None:
    assert "consensus_step = 0.1" in " ".join(run("d-sgd-1", iterations=1, compress="sign").notes)
    assert not run("d-sgd-1", iterations=1, compress="sign", consensus_step=0.2).notes
    assert not run("d-sgd-1", iterations=1, compress="qsgd:8").notes


@pytest.mark.parametrize("delta", [0.5, 0.1, 0.02])
def test_below_the_largest_step_consensus_is_reached_whatever_the_error(delta: float) -> None:
    """The error that hurts most in one mode is −r times the difference: the copy overshoots."""
    r, mu = np.sqrt(1 - delta), 4 / 3
    limit = largest_consensus_step(delta, mu)
    for c, stable in ((0.99 * limit, True), (1.01 * limit, False)):
        copied = np.array([1 + r, -r])  # â⁺ = x + r(x − â)
        step = np.array([[1, 0] - c * mu * copied, copied])  # x⁺ = x − cμâ⁺
        assert bool(np.abs(np.linalg.eigvals(step)).max() < 1) is stable


def test_messages_that_are_no_iterates_are_refused() -> None:
    with pytest.raises(InputError, match=r"^compress = 'topk:0.2' does not suit D2: its message .*\.$"):
        run("d2", compress="topk:0.2")


@pytest.mark.parametrize("name", EVERY_METHOD)
@pytest.mark.filterwarnings("ignore")
def test_every_method_follows_its_uncompressed_self_or_says_why_not(name: str) -> None:
    preset, settings = algorithms.make(name), {"iterations": 300, "consensus_step": 0.3, "communication_period": 1}
    method = algorithms.make(name, **({"eta": 0.02} if "eta" in preset.parameters() else {}))
    if method.not_compressible:
        with pytest.raises(InputError, match="does not suit"):
            run(method, compress="topk:0.3")
        return
    exact, compressed = (run(method, **settings, compress=text).x for text in ("none", "topk:0.3"))
    near = 0.5 if "adamw-outer" in name else 0.05  # Adam under momentum keeps circling, compressed or not
    assert (compressed.mean(dim=0) - exact.mean(dim=0)).abs().max() < near * exact.abs().max()
    assert (compressed - exact).abs().max() < 4 * near * exact.abs().max()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compress": "topk:2"}, "expected a share"),
        ({"compress": "sign", "message_dtype": "bf16"}, "message_dtype = 'bf16' and compress = 'sign'"),
        ({"consensus_step": 0.0}, "consensus_step = 0"),
        ({"consensus_step": 1.5}, "consensus_step = 1.5"),
    ],
)
def test_what_makes_no_sense_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run("d-sgd-1", **settings)
