"""Methods made for local steps, random exchanges or compressed messages: transcriptions, identities, limits."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conformance import reference
from tests.mixing.test_compressors import top_k

from peerdescent import InputError, Result, algorithms, explain, graphs, optim, train
from peerdescent.algorithms import Algorithm, make
from peerdescent.data import stream
from peerdescent.problems import Quadratic
from peerdescent.runs.folder import read_experiment

N, P, SEED = 6, 20, 3
random = np.random.default_rng(1)
CURVATURE, CENTRES, X0 = random.uniform(0.5, 1.5, (N, P)), random.normal(size=(N, P)), random.normal(size=(N, P))
SOLUTION = (CURVATURE * CENTRES).sum(axis=0) / CURVATURE.sum(axis=0)
GRAPH = f"er:{N}:0.6:seed=1"
L, W = graphs.parse(GRAPH).laplacian().toarray(), graphs.parse(GRAPH).mixing().toarray()


def run(method: Any, iterations: int = 40, graph: object = GRAPH, **settings: Any) -> Result:
    chosen = {"dtype": "float64", "batch_size": 0, "seed": SEED, "per_agent": False, **settings}
    problem = Quadratic(A=CURVATURE, c=CENTRES)
    return train(problem, graph, method, x0=torch.from_numpy(X0), iterations=iterations, **chosen)


def gradient(i: int, x: np.ndarray, k: int) -> np.ndarray:
    return CURVATURE[i] * (x - CENTRES[i])


def far(result: Result) -> float:
    return float(np.abs(result.x.numpy() - SOLUTION).max())


def coin(k: int, p: float = 0.3) -> bool:
    """The coin of an iteration below 1,024, as the library documents it."""
    return bool(stream(SEED, "communication").random(1024)[k] < p)


# ---- Local steps ---------------------------------------------------------------------------------------

# Schedule, the iterations that exchange, and the mean number of steps from one exchange to the next.
SCHEDULES: dict[str, tuple[int | str, Callable[[int], bool], float]] = {
    "every 4": (4, lambda k: k % 4 == 3, 4),
    "random": ("random:0.3", coin, 1 / 0.3),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("schedule", list(SCHEDULES))
@pytest.mark.parametrize("name", ["k-gt", "led", "proxskip"])
def test_local_steps_are_those_of_the_transcription(name: str, schedule: str, kernel: str) -> None:
    period, exchanges, tau = SCHEDULES[schedule]
    ours: dict[str, Any] = {"k-gt": {"eta_s": 0.7}, "led": {"beta": 0.6}, "proxskip": {"beta": 0.9, "chi": 1.5}}[name]
    theirs = {key: value / tau if key == "beta" else value for key, value in ours.items()}  # our β is that of a round
    expected = reference.REFERENCES[name](X0, L, W, gradient, 40, eta=0.05, exchanges=exchanges, **theirs)[-1]
    result = run(make(name, eta=0.05, **ours), communication_period=period, kernel=kernel)
    np.testing.assert_allclose(result.x.numpy(), expected, rtol=0, atol=1e-12)
    vectors = sum(map(exchanges, range(40))) * (2 if name == "k-gt" else 1)
    assert result.metrics[-1]["bytes_sent"] == vectors * P * 8 * 2 * len(graphs.parse(GRAPH).edges)


def test_k_gt_counts_the_steps_of_rounds_that_a_schedule_cuts_short() -> None:
    when = (5, 12, 15, 17, 18, 19)
    expected = reference.REFERENCES["k-gt"](X0, L, W, gradient, 20, eta=0.05, exchanges=when.__contains__)[-1]
    result = run(make("k-gt", eta=0.05), 20, communication_period="6,3@10,1@17")
    np.testing.assert_allclose(result.x.numpy(), expected, rtol=0, atol=1e-12)


def test_led_removes_the_bias_that_d2_has_with_local_steps() -> None:
    """Heterogeneous quadratics, exact gradients, period 5: docs/communication.md has these numbers."""
    shared: dict[str, Any] = {"iterations": 1000, "communication_period": 5}
    assert far(run(make("led", eta=0.1), **shared)) < 1e-9
    assert far(run(make("k-gt", eta=0.1), **shared)) < 1e-9
    assert far(run(make("d2", eta=0.1), **shared)) > 1e-2
    assert far(run(make("dsgpa-f", eta=0.1, alpha=2.0, beta=2.0), **shared)) > 1e-2


def test_proxskip_reaches_the_solution_with_a_fifth_of_the_messages() -> None:
    assert far(run(make("proxskip", eta=0.1), 1500, communication_period="random:0.2")) < 1e-9


@pytest.mark.parametrize(
    ("one", "other", "shared", "mixing"),
    [
        (make("k-gt", eta=0.07), make("d-sgt-2", eta=0.07), {}, "metropolis"),
        (make("led", eta=0.07), make("d2", eta=0.07), {}, "metropolis"),
        (make("proxskip", eta=0.07), make("d2", eta=0.07), {}, "lazy"),
        (make("choco-sgd", eta=0.07), make("gossip-sgd", eta=0.07), {"compress": "none"}, "metropolis"),
        (make("beer", eta=0.07), make("d-sgt-1", eta=0.07), {"compress": "none"}, "metropolis"),
        (make("motef", eta=0.07, beta=0.0), make("beer", eta=0.07), {}, "metropolis"),
    ],
    ids=["k-gt", "led", "proxskip", "choco-sgd", "beer", "motef"],
)
def test_special_cases(one: Algorithm, other: Algorithm, shared: dict[str, Any], mixing: str) -> None:
    """Exchanges in every iteration; `mixing` is the W of the other method."""
    found, expected = run(one, **shared), run(other, mixing=mixing, **shared)
    np.testing.assert_allclose(found.x.numpy(), expected.x.numpy(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("stop", [11, 16])
def test_a_run_with_random_exchanges_goes_on_bit_by_bit(stop: int, tmp_path: Path) -> None:
    shared: dict[str, Any] = {"communication_period": "random:0.3", "eval_every": 1, "seed": 5}
    whole = train("quadratic", "ring:5", "proxskip", iterations=20, **shared)
    train("quadratic", "ring:5", "proxskip", iterations=stop, out=tmp_path / "a", **shared)
    resumed = train("quadratic", "ring:5", "proxskip", iterations=20, out=tmp_path / "a", resume=True, **shared)
    assert torch.equal(resumed.x, whole.x)
    assert resumed.metrics["bytes_sent"] == whole.metrics["bytes_sent"]
    assert read_experiment(tmp_path / "a")["communication_period"] == "random:0.3"
    other = train("quadratic", "ring:5", "proxskip", iterations=20, **{**shared, "seed": 6})
    assert other.metrics["bytes_sent"] != whole.metrics["bytes_sent"]


@pytest.mark.parametrize("chi", [0.5, float("inf"), "big"])
def test_a_wrong_damping_is_refused(chi: Any) -> None:
    with pytest.raises(InputError, match=r"^chi = .*: expected a number of at least 1\.$"):
        make("proxskip", chi=chi)


# ---- Compressed messages -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["choco-sgd", "beer", "motef"])
def test_a_name_alone_compresses_as_its_paper_does(name: str, tmp_path: Path) -> None:
    values: dict[str, Any] = {"eta": 0.05} | ({"beta": 0.6} if name == "motef" else {})
    result = run(make(name, **values), graph=f"ring:{N}", out=tmp_path / "a")
    ring = graphs.ring(N).mixing().toarray()
    expected = reference.REFERENCES[name](X0, L, ring, gradient, 40, Q=lambda a: top_k(a, 2), c=0.21, **values)[-1]
    np.testing.assert_allclose(result.x.numpy(), expected, rtol=1e-9, atol=1e-12)
    assert read_experiment(tmp_path / "a")["compress"] == "topk:0.1"
    assert any(note.startswith("consensus_step = 0.21, by rule for topk:0.1") for note in result.notes)
    vectors = 1 if name == "choco-sgd" else 2
    assert result.metrics[-1]["bytes_sent"] == 40 * vectors * 2 * N * (2 * 8 + 3)  # two values and 20 bits
    facts = explain("quadratic", f"ring:{N}", name)
    assert facts.traffic.bytes_per_iteration == (2 * vectors * (4 + 2),) * 2  # one of ten values, and ten bits


def test_what_the_user_gives_replaces_the_compressor_of_the_method() -> None:
    name = "choco-sgd"
    assert run(name, 3, compress="none").metrics[-1]["bytes_sent"] == 3 * P * 8 * 2 * len(graphs.parse(GRAPH).edges)
    assert run(name, 3, compress="qsgd:4").settings.compress == "qsgd:4"
    assert run(name, 3).settings.compress == "topk:0.1"
    assert run("d-sgd-1", 3).settings.compress == "none"
    with pytest.raises(
        InputError, match=r"^ChocoSGD has compress = 'topk:0.1' unless it is given: message_dtype .*\.$"
    ):
        run(name, 3, message_dtype="bf16")
    assert run(name, 3, message_dtype="bf16", compress="none").settings.message_dtype == "bf16"


def test_an_optimizer_compresses_as_its_method_does() -> None:
    def compressor(kind: type[optim.Decentralized], **options: Any) -> str | None:
        chosen = kind(torch.nn.Linear(2, 1).parameters(), "ring:1", **options)._compression.compressor  # type: ignore[call-arg]
        return None if chosen is None else chosen.text

    assert compressor(optim.ChocoSGD) == "topk:0.1"
    assert compressor(optim.ChocoSGD, compress="none") is None
    assert compressor(optim.DSGD1) is None


@pytest.mark.e2e
def test_compressed_tracking_reaches_the_solution() -> None:
    assert far(run(make("beer", eta=0.05), 2500)) < 1e-6
    assert far(run(make("motef", eta=0.05), 2500)) < 1e-6
    assert far(run(make("choco-sgd", eta=0.05), 2500)) > 1e-2  # the bias of decentralized SGD


@pytest.mark.parametrize("name", ["led", "proxskip"])
def test_messages_that_are_no_iterates_are_refused(name: str) -> None:
    kind = algorithms.find(name).kind.__name__
    with pytest.raises(InputError, match=rf"^compress = 'topk:0.2' does not suit {kind}: its message φ .*\.$"):
        run(name, compress="topk:0.2")
