"""Every method through the common laws, and against its transcription agent by agent."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.conformance import reference

import peerdescent
from peerdescent import graphs, testing
from peerdescent.algorithms import DASG, DMSGD, DSGD1, DSGD2, DSGPA, PRESETS, Algorithm, make
from peerdescent.data import Minibatches, stream
from peerdescent.problems import Problem, Quadratic, logistic_nonconvex
from peerdescent.schedules import Inverse
from peerdescent.transforms import Clip, Powerball, Sign

pytestmark = pytest.mark.filterwarnings("ignore:gamma = 0")

ITERATIONS, SEED, BATCH, P = 50, 5, 4, 5
GRAPHS = (
    "path:6",
    "star:5",
    "ring:1",
    "complete:4",
    "ws:8:4:0.3",
    "er:9:0.4:seed=1",
    "er:9:0.4:seed=2",
    "regular:8:3",
    "ba:7:2",
)
# Stable in both dual orders for every Laplacian here (ρ(L) ≤ 2): instability would magnify rounding.
RATES = {"eta": 0.05, "alpha": 4.0, "beta": 3.0}


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Arrays this small only lose by being shared out."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", list(PRESETS))
def test_every_preset_keeps_the_laws(name: str) -> None:
    report = testing.check_algorithm(make(name))
    assert not report.left_out
    assert len(report.checked) == 2 + len(testing._LAWS)


@pytest.mark.parametrize("transform", [Powerball(0.7), Sign(), Clip(0.5), Clip(0.5).then(Powerball(0.5))], ids=str)
@pytest.mark.parametrize("name", ["d-sgd-1", "d-sgt-2", "d-asg", "c-sgd", "dsgpa-f-pb-exact"])
def test_every_transform_keeps_the_laws(name: str, transform: Any) -> None:
    report = testing.check_algorithm(make(name, transform=transform), graphs=("er:6:0.5",), iterations=10)
    assert not report.left_out


# ---- Against the transcription -------------------------------------------------------------------------


def d_asg_from_zero(
    x0: np.ndarray, L: np.ndarray, W: np.ndarray, gradient: reference.Gradient, iterations: int, eta: float, beta: float
) -> list[np.ndarray]:
    """D-ASG with x₋₁ = 0, which the reference does not offer."""
    x, before, iterates = x0, np.zeros_like(x0), [x0]
    for k in range(iterations):
        y = (1 + beta) * x - beta * before
        g = np.stack([gradient(i, y[i], k) for i in range(len(y))])
        x, before = W @ y - eta * g, x
        iterates.append(x)
    return iterates


def powered(gamma: float) -> Callable[[np.ndarray], np.ndarray]:
    return partial(reference.powerball, gamma=gamma)


def clipped_root(g: np.ndarray) -> np.ndarray:
    return reference.powerball(np.minimum(np.maximum(g, -0.5), 0.5), 0.5)


Case = tuple[Callable[[], Algorithm], Callable[..., list[np.ndarray]], Mapping[str, Any]]


def cases() -> dict[str, Case]:
    """Name → (the library's method, its transcription, the transcription's keywords)."""
    table: dict[str, Case] = {}
    for gamma in (1.0, 0.7, 0.5, 0.0, 0.3):
        for power_on in ("gradient", "direction"):
            for dual in ("jacobi", "gauss-seidel"):
                for epsilon in (0.0, 0.5):
                    values = {"gamma": gamma, "epsilon": epsilon, "power_on": power_on, "dual": dual, **RATES}
                    name = f"dsgpa-{gamma:g}-{power_on}-{dual}-{epsilon:g}"
                    table[name] = (partial(DSGPA, **values), reference.dsgpa, values)
    for name in PRESETS:
        if not name.startswith("dsgpa"):
            continue
        changed = {"dual": "gauss-seidel", **RATES}
        gamma = {"gamma": 0.7} if "pb" in name else {}
        table[name] = (partial(make, name, **RATES), reference.REFERENCES[name], changed | gamma)
    for name in ("d-sgd-1", "d2", "d-sgt-1", "d-sgt-2", "c-sgd"):
        method = reference.REFERENCES[name]
        table[name] = (partial(make, name, eta=0.07), method, {"eta": 0.07})
        table[f"{name}+powerball"] = (
            partial(make, name, eta=0.07, transform=Powerball(0.7)),
            method,
            {"eta": 0.07, "transform": powered(0.7)},
        )
    table["d-sgd-1+sign"] = (
        partial(DSGD1, eta=0.07, transform=Sign()),
        reference.d_sgd_1,
        {"eta": 0.07, "transform": np.sign},
    )
    table["c-sgd+clip+root"] = (
        partial(make, "c-sgd", eta=0.07, transform=Clip(0.5).then(Powerball(0.5))),
        reference.c_sgd,
        {"eta": 0.07, "transform": clipped_root},
    )
    momentum = {"eta": 0.05, "beta": 0.6}
    table["dm-sgd"] = (partial(DMSGD, **momentum), reference.dm_sgd, momentum)
    table["dm-sgd+powerball"] = (
        partial(make, "dm-sgd", powerball=0.5, **momentum),
        reference.dm_sgd,
        {**momentum, "transform": powered(0.5)},
    )
    table["d-asg"] = (partial(DASG, **momentum), reference.d_asg, momentum)
    table["d-asg-zero"] = (partial(DASG, previous="zero", **momentum), d_asg_from_zero, momentum)
    table["d-sgd-2"] = (
        partial(DSGD2, alpha=Inverse(0.1, 0.2), beta=Inverse(0.4, 0.2, 0.3)),
        reference.d_sgd_2,
        {"a": 0.1, "b": 0.4, "epsilon": 0.2},
    )
    table["d-sgd-2 by its defaults"] = (DSGD2, reference.d_sgd_2, {"a": 0.1, "b": 0.2, "epsilon": 1e-5})
    return table


CASES = cases()


def start(n: int) -> np.ndarray:
    return np.random.default_rng((1, n)).normal(size=(n, P))


@cache
def noisy_quadratic(n: int) -> tuple[Problem, reference.Gradient]:
    """A_i(x − c_i) and noise, computed here by NumPy from the stream that the library documents."""
    random = np.random.default_rng((2, n))
    roots = random.normal(size=(n, P, P)) / np.sqrt(P)
    A, c = roots @ roots.transpose(0, 2, 1) / 2 + 0.1 * np.eye(P), random.normal(size=(n, P))
    noise = [0.3 / np.sqrt(BATCH) * stream(SEED, "noise", i).standard_normal((ITERATIONS + 1, P)) for i in range(n)]
    return Quadratic(A, c, noise=0.3), lambda i, x, k: A[i] @ (x - c[i]) + noise[i][k]


@cache
def minibatch_logistic(n: int) -> tuple[Problem, reference.Gradient]:
    """The nonconvex logistic gradient on the minibatch that (seed, agent, k) names."""
    problem = logistic_nonconvex(agents=n, samples=40 * n, dimension=P - 1, regularisation=0.1)
    batches = Minibatches(problem.sizes, BATCH, SEED)
    shards = [[part.double().numpy() for part in problem.shard(i)] for i in range(n)]

    def gradient(i: int, x: np.ndarray, k: int) -> np.ndarray:
        rows = batches.batches(k)[i].numpy()
        a, b = shards[i][0][rows], shards[i][1][rows]
        fit = -(b / (1 + np.exp(b * (a @ x)))) @ a / BATCH
        return fit + 0.1 * 2 * x / (1 + x**2) ** 2

    return problem, gradient


def matrices(graph: graphs.Graph, name: str) -> tuple[np.ndarray, np.ndarray]:
    """L and W from the degrees; D² takes (I+W)/2 where W has an eigenvalue of −1/3 or less."""
    L, degree = np.zeros((graph.n, graph.n)), np.zeros(graph.n)
    for i, j in graph.edges:
        degree[[i, j]] += 1
    for i, j in graph.edges:
        weight = 1 / (1 + max(degree[i], degree[j]))
        L[i, j] = L[j, i] = -weight
        L[i, i] += weight
        L[j, j] += weight
    W = np.eye(graph.n) - L
    lazy = name.startswith("d2") and np.linalg.eigvalsh(W).min() <= -1 / 3 + 1e-9
    return L, (np.eye(graph.n) + W) / 2 if lazy else W


def pairs() -> list[tuple[str, str]]:
    """Every case on every graph; of the many variants of DSGPA each on every third graph, in turn."""
    return [
        (name, spec)
        for i, name in enumerate(CASES)
        for j, spec in enumerate(GRAPHS)
        if (not name.startswith("dsgpa-0") and not name.startswith("dsgpa-1")) or (i + j) % 2
    ]


@pytest.mark.parametrize(("name", "spec"), pairs())
def test_equals_its_transcription(name: str, spec: str) -> None:
    construct, transcription, keywords = CASES[name]
    graph = graphs.parse(spec)
    L, W = matrices(graph, name)
    for family in (noisy_quadratic, minibatch_logistic):
        problem, gradient = family(graph.n)
        expected = transcription(start(graph.n), L, W, gradient, ITERATIONS, **keywords)[-1]
        # Bounded, or agreement to a share of the largest entry would say little.
        assert np.abs(expected).max() < 20
        for kernel in ("plain", "compiled"):
            result = peerdescent.train(
                problem,
                graph,
                construct(),
                x0=torch.from_numpy(start(graph.n)),
                iterations=ITERATIONS,
                batch_size=BATCH,
                seed=SEED,
                dtype="float64",
                kernel=kernel,
                gradients="stacked",
                eval_every=ITERATIONS,
                per_agent=False,
            )
            assert result.kernel.startswith(kernel)
            far = np.abs(result.x.numpy() - expected).max() / np.abs(expected).max()
            assert far < 1e-10, f"{kernel} kernel, {problem.name}"


def test_every_preset_has_a_transcription() -> None:
    assert set(PRESETS) <= set(reference.REFERENCES)
    assert set(PRESETS) <= set(CASES)


# ---- The laws themselves: each of these methods breaks one ------------------------------------------------

Step = Generator[Any, Any, dict[str, Any]]


@dataclass(frozen=True)
class Descent(Algorithm):
    """Right, and the base of those that are wrong."""

    eta: float = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        Wx = net.mix(s.x)
        g = yield s.x
        return self.moved(s, Wx - h.eta * g, g)

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x}


@dataclass(frozen=True)
class Unnamed(Descent):
    def memory(self) -> Mapping[str, Any]:
        return {"u": "zero"}


@dataclass(frozen=True)
class Undeclared(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x, "u": g}


@dataclass(frozen=True)
class YieldsTwice(Descent):
    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Step:
        g = yield s.x
        g = yield s.x - g
        return {"x": net.mix(s.x) - h.eta * g}


@dataclass(frozen=True)
class Infinite(Descent):
    def memory(self) -> Mapping[str, Any]:
        return {"u": "zero"}

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x, "u": s.u / s.u}


@dataclass(frozen=True)
class Lawless(Descent):
    def invariants(self, s: SimpleNamespace) -> dict[str, Any]:
        return {"mean of x = 0": s.x}


@dataclass(frozen=True)
class Random(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x + torch.rand(1, dtype=x.dtype)}


@dataclass(frozen=True)
class Decaying(Descent):
    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": 0.9 * x}


@dataclass(frozen=True)
class Led(Descent):
    """Agent 0 leads."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x - 0.1 * (s.x - s.x[:1])}


@dataclass(frozen=True)
class Wild(Descent):
    def hyperparameters(self, k: int) -> dict[str, float]:
        return {"eta": float("inf") if k == 1000 else 0.1}


@dataclass(frozen=True)
class Forgetful(Descent):
    def parameters(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True)
class TwoFaced(Descent):
    """Recorder another equation than it computes."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x if isinstance(x, torch.Tensor) else x + 0.001 * g}


@dataclass(frozen=True)
class Apart(Descent):
    """Moves each agent by a number of its own."""

    def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
        return {"x": x + g * torch.arange(len(x), dtype=x.dtype)[:, None]}


@pytest.mark.parametrize(
    ("method", "law"),
    [
        (Unnamed(), testing.NAMES),
        (Undeclared(), testing.NAMES),
        (YieldsTwice(), testing.NAMES),
        (Infinite(), testing.FINITE),
        (Lawless(), testing.INVARIANTS),
        (Random(), testing.REPEATS),
        (Apart(), testing.CONSENSUS),
        (Decaying(), testing.REST),
        (Led(), testing.LABELS),
        (Wild(), testing.NUMBERS),
        (Forgetful(eta=0.3), testing.PARAMETERS),
        (TwoFaced(), testing.KERNEL),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Algorithm) else "",
)
def test_a_broken_law_is_named(method: Algorithm, law: str) -> None:
    with pytest.raises(AssertionError) as caught:
        testing.check_algorithm(method)
    message = str(caught.value)
    assert message.startswith(f"{type(method).__name__} breaks a law. {law}: ")


def test_what_cannot_be_recorded_or_written_down_is_left_out_and_said() -> None:
    @dataclass(frozen=True)
    class Eager(Descent):
        def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
            return {"x": x.clone()}

    report = testing.check_algorithm(Eager(eta=lambda k: 0.1 / (k + 1)))  # type: ignore[arg-type]
    assert {testing.KERNEL, testing.PARAMETERS}.isdisjoint(report.checked)
    assert any("Eager is not plain arithmetic" in sentence for sentence in report.left_out)
    assert any("eta is a schedule of your own" in sentence for sentence in report.left_out)
    assert "left out" in str(report)


def test_the_base_of_the_broken_ones_is_whole() -> None:
    assert not testing.check_algorithm(Descent()).left_out


def test_one_agent_is_always_among_the_graphs() -> None:
    @dataclass(frozen=True)
    class Pair(Descent):
        def moved(self, s: SimpleNamespace, x: Any, g: Any) -> dict[str, Any]:
            return {"x": x + 0 * s.x[1:2]}

    with pytest.raises(AssertionError, match="ring:1"):
        testing.check_algorithm(Pair(), graphs=("complete:2",))
