"""One copy for each pair: transcriptions on graphs over time and with lost and late messages, identities, refusals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tests.mixing.test_compressors import quantized, top_k

from peerdescent import InputError, algorithms, graphs, train
from peerdescent.algorithms import Algorithm
from peerdescent.data.randomness import stream
from peerdescent.distributed.placement import Placement
from peerdescent.mixing.chance import Independent
from peerdescent.mixing.pair_rows import PairRows, Slots
from peerdescent.problems import Quadratic
from peerdescent.training.train import plan_of

Array = NDArray[np.float64]
N, P, ETA, SEED, K = 8, 20, 0.1, 3, 40
random = np.random.default_rng(1)
CURVATURE, CENTRES = random.uniform(0.5, 1.5, (N, P)), random.standard_normal((N, P))
SOLUTION = (CURVATURE * CENTRES).sum(axis=0) / CURVATURE.sum(axis=0)
METHODS = {
    "d-sgd-1": algorithms.make("d-sgd-1", eta=ETA),
    "d-sgt-1": algorithms.make("d-sgt-1", eta=ETA),
    "dsgpa": algorithms.DSGPA(eta=ETA, alpha=5.0, beta=2.0),
}


@pytest.fixture(autouse=True)
def no_prediction(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stability on random rounds is sampled, and tested elsewhere."""
    monkeypatch.setattr("peerdescent.training.train._warn_if_unstable", lambda plan, group: None)


def run(method: Algorithm | str, graph: object, **settings: Any) -> Any:
    problem, start = Quadratic(A=CURVATURE, c=CENTRES), torch.zeros(N, P)
    chosen = {"iterations": K, "dtype": "float64", "batch_size": 0, "seed": SEED, "per_agent": False, **settings}
    return train(problem, graph, method, x0=start, **chosen)


def compressor(text: str) -> Callable[[Array, int, int, int], Array]:
    """Q(a) of one agent, in one iteration, for one of its messages."""
    if text == "topk:0.2":
        return lambda a, agent, k, message: top_k(a, 4)
    assert text == "qsgd:4"
    return lambda a, agent, k, message: quantized(
        a, 7, stream(SEED, f"compression {message}", agent, k).random(P, dtype=np.float32).astype(float)
    )


class Copies:
    """What agents have sent to each other, pair by pair, and the sums that they form of it."""

    def __init__(self, graph: str, text: str, c: float, lost: Callable[..., bool], delay: int) -> None:
        self.sequence, self.Q, self.c, self.lost, self.delay = graphs.parse(graph), compressor(text), c, lost, delay
        self.copies: dict[tuple[int, int, int], Array] = defaultdict(lambda: np.zeros(P))
        self.written: dict[tuple[int, int], Array] = {}

    def exchanged(self, message: int, a: Array, k: int, kind: str) -> Array:
        """c·Σ_j w_ij(â_ij − â_ji), the rows of c·(I−W)a or c·L·a as the agents know them."""
        self.written[message, k] = a.copy()
        total, sent = np.zeros_like(a), k - self.delay
        if sent < 0:
            return total
        graph, rows = self.sequence.graph(sent), self.written[message, sent]
        weights = graph.mixing().toarray() if kind == "W" else -graph.laplacian().toarray()
        edges = [(i, j) for edge in graph.edges for i, j in (edge, edge[::-1]) if not self.lost(i, j, k)]
        for i, j in edges:
            self.copies[message, i, j] += self.Q(rows[i] - self.copies[message, i, j], i, k, message)
        for i, j in edges:  # j receives
            total[j] += self.c * weights[j, i] * (self.copies[message, j, i] - self.copies[message, i, j])
        return total


def transcribed(name: str, copies: Copies, inactive: Callable[[int, int], bool]) -> Array:
    """The method agent by agent."""
    x, y, v, g_last = (np.zeros((N, P)) for _ in range(4))
    for k in range(K):
        g = CURVATURE * (x - CENTRES)
        new_x, new_y, new_v, new_g = x.copy(), y.copy(), v.copy(), g_last.copy()
        Dx = copies.exchanged(0, x, k, "L" if name == "dsgpa" else "W")
        Dy = copies.exchanged(1, y, k, "W") if name == "d-sgt-1" else x
        for i in (i for i in range(N) if not inactive(i, k)):
            if name == "d-sgd-1":
                new_x[i] = x[i] - Dx[i] - ETA * g[i]
            elif name == "d-sgt-1":
                new_y[i], new_g[i] = y[i] - Dy[i] + g[i] - g_last[i], g[i]
                new_x[i] = x[i] - Dx[i] - ETA * new_y[i]
            else:
                new_v[i] = v[i] + ETA * 2.0 * Dx[i]
                new_x[i] = x[i] - ETA * (5.0 * Dx[i] + 2.0 * new_v[i] + g[i])
        x, y, v, g_last = new_x, new_y, new_v, new_g
    return x


def drawn(purpose: str, probability: float, i: int, j: int) -> NDArray[np.bool_]:
    return Independent(probability).happens(SEED, purpose, np.array([[i, j]]), 0, K)[:, 0]


def off(i: int, k: int) -> bool:
    return bool(drawn("inactive", 0.2, i, i)[k])


CASES: dict[str, tuple[str, dict[str, Any], Callable[..., bool], Callable[[int, int], bool]]] = {
    "sequence": (f"onepeer-exp:{N}", {}, lambda i, j, k: False, lambda i, k: False),
    "matching": (f"matching:{N}", {}, lambda i, j, k: False, lambda i, k: False),
    "late": (f"onepeer-exp:{N}", {"delay": 2}, lambda i, j, k: False, lambda i, k: False),
    "lost": (
        f"ring:{N}",
        {"drop": "0.3"},
        lambda i, j, k: bool(drawn("drop", 0.3, *sorted([i, j]))[k]),
        lambda i, k: False,
    ),
    "one-sided": (
        f"onepeer-exp:{N}",
        {"drop": "0.3:one-sided"},
        lambda i, j, k: bool(drawn("drop", 0.3, j, i)[k]),
        lambda i, k: False,
    ),
    "inactive": (f"base:{N}:2", {"inactive": "0.2"}, lambda i, j, k: off(i, k) or off(j, k), off),
}


@pytest.mark.parametrize(
    ("case", "name", "text", "kernel"),
    [
        ("sequence", "d-sgt-1", "topk:0.2", "auto"),
        ("sequence", "dsgpa", "qsgd:4", "plain"),
        ("late", "d-sgt-1", "qsgd:4", "auto"),
        ("lost", "dsgpa", "topk:0.2", "auto"),
        ("one-sided", "d-sgd-1", "qsgd:4", "auto"),
        *(
            pytest.param(case, name, text, kernel, marks=pytest.mark.e2e)
            for case in CASES
            for name in METHODS
            for text in ("topk:0.2", "qsgd:4")
            for kernel in ("auto", "plain")
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:.*one direction only", "ignore:invariant violated")
def test_a_run_is_its_transcription(case: str, name: str, text: str, kernel: str) -> None:
    graph, settings, lost, inactive = CASES[case]
    if case == "inactive" and name == "dsgpa":
        graph = f"onepeer-exp:{N}"  # Base graphs have weights for W alone
    copies = Copies(graph, text, 0.3, lost, settings.get("delay", 0))
    result = run(METHODS[name], graph, compress=text, consensus_step=0.3, kernel=kernel, **settings)
    expected = transcribed(name, copies, inactive)
    assert np.abs(expected).max() < 20
    assert np.allclose(result.x.numpy(), expected, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("text", ["qsgd:4", "randk:0.3"])
def test_if_every_neighbour_gets_every_message_pairs_have_the_public_copy(text: str) -> None:
    """The same graph twice is a sequence, whose copies are per pair: the bits of one graph with public copies."""
    ring = graphs.parse(f"ring:{N}")
    for name, method in METHODS.items():
        fixed = run(method, ring, compress=text, consensus_step=0.3)
        pairs = run(method, graphs.sequence([ring, ring]), compress=text, consensus_step=0.3)
        assert torch.equal(fixed.x, pairs.x), name
        assert fixed.metrics[-1]["bytes_sent"] == pairs.metrics[-1]["bytes_sent"]


@pytest.mark.parametrize(
    ("graph", "settings"),
    [
        (f"onepeer-exp:{N}", {}),
        pytest.param(f"matching:{N}", {}, marks=pytest.mark.e2e),
        pytest.param(f"base:{N}:1", {}, marks=pytest.mark.e2e),
        pytest.param(f"ring:{N}", {"drop": "0.2"}, marks=pytest.mark.e2e),
        pytest.param(f"ring:{N}", {"inactive": "0.2"}, marks=pytest.mark.e2e),
        # messages this late need a smaller step even if they are not compressed
        pytest.param(f"ring:{N}", {"delay": 2, "consensus_step": 0.2}, marks=pytest.mark.e2e),
        pytest.param(f"onepeer-exp:{N}", {"delay": 1, "consensus_step": 0.2}, marks=pytest.mark.e2e),
    ],
)
@pytest.mark.parametrize("text", ["topk:0.2", pytest.param("qsgd:4", marks=pytest.mark.e2e)])
def test_gradient_tracking_reaches_the_solution(graph: str, settings: dict[str, Any], text: str) -> None:
    method = algorithms.make("d-sgt-1", eta=0.05)
    result = run(method, graph, iterations=1500, compress=text, eval_every=500, **settings)
    assert np.abs(result.x.numpy() - SOLUTION).max() < 1e-2
    assert not any("invariant" in note for note in result.notes)


def test_bytes_are_those_of_the_messages_that_are_sent() -> None:
    size = 4 * 8 + 3  # 4 of 20 numbers, and a bit for each
    result = run("d-sgt-1", f"onepeer-exp:{N}", iterations=10, compress="topk:0.2")
    assert result.metrics[-1]["bytes_sent"] == 10 * 2 * N * size
    lost = run("d-sgt-1", f"ring:{N}", iterations=10, compress="topk:0.2", drop="0.5")
    arrived = sum(int((~drawn("drop", 0.5, *sorted([i, (i + 1) % N]))[:10]).sum()) for i in range(N))
    assert lost.metrics[-1]["bytes_sent"] == arrived * 2 * 2 * size


@pytest.mark.parametrize("settings", [{"graph": f"matching:{N}"}, {"graph": f"ring:{N}", "drop": "0.3"}])
def test_resumed(settings: dict[str, Any], tmp_path: Path) -> None:
    chosen = {"compress": "qsgd:3", "eval_every": 10, **settings}
    whole = run("d-sgt-1", **chosen)
    run("d-sgt-1", **chosen, iterations=20, out=tmp_path / "run")
    resumed = run("d-sgt-1", **chosen, out=tmp_path / "run", resume=True)
    assert torch.equal(whole.x, resumed.x)
    assert resumed.metrics[-1]["bytes_sent"] == whole.metrics[-1]["bytes_sent"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"message_noise": 0.1}, "message_noise = 0.1 exclude each other: noise would drive the copies"),
        ({"delay": 2, "drop": "0.1"}, "delay = 2 and drop = '0.1' exclude each other: a sender learns too late"),
        ({"delay": 1, "inactive": "0.1"}, "delay = 1 and inactive = '0.1' exclude each other"),
    ],
)
def test_what_would_let_copies_differ_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=f"^compress = 'sign'(,| and) {message}.*bf16.*\\.$"):
        run("d-sgd-1", f"ring:{N}", compress="sign", **settings)


def test_rows_that_do_not_fit_are_refused_before_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    problem, known = Quadratic(A=CURVATURE, c=CENTRES), {"compress": "sign", "dtype": "float64"}
    few, many = (plan_of(problem, f"{kind}:{N}", "d-sgd-1", **known).memory().total for kind in ("ring", "matching"))
    assert many - few > (7 + 7 - 1) * N * P * 8  # a copy for each other agent, and a difference, instead of one copy
    monkeypatch.setattr("peerdescent.training.memory.available_memory", lambda: few)
    run("d-sgd-1", f"ring:{N}", compress="sign", iterations=1)
    with pytest.raises(InputError, match=r"^d-sgd-1 needs about .* memory are free"):
        run("d-sgd-1", f"matching:{N}", compress="sign", iterations=1)


def test_slots_stay_when_agents_are_lost() -> None:
    whole = graphs.parse("onepeer-exp:8")
    all_slots = Slots(whole.union, range(8))
    left = [0, 1, 2, 4, 5, 6, 7]
    slots = Slots(whole.union, left)
    assert slots.width == all_slots.width == 3
    assert all(slots.of(left.index(i), left.index(j)) == all_slots.of(i, j) for i, j in [(0, 4), (2, 6), (7, 5)])


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_messages_of_pairs_arrive_where_they_are_expected(processes: int) -> None:
    """What one process sends another is what that one expects, in the same order."""
    pairs = np.array([(i, j) for edge in graphs.parse("star:5").edges for i, j in (edge, edge[::-1])])
    placement = Placement(5, processes)
    rows = [PairRows(pairs, placement, rank, Slots(graphs.parse("star:5"), range(5))) for rank in range(processes)]
    for rank, mine in enumerate(rows):
        assert len(mine.plan.own) == sum(len(graphs.parse("star:5").neighbours(i)) for i in placement.block(rank))
        for peer, numbers in mine.plan.sent.items():
            assert rows[peer].plan.received[rank] == numbers
