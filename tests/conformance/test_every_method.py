"""Every method: the common properties, and equality with its per-agent transcription."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch
from tests.conformance import reference, reference_tracking
from tests.support.chosen_methods import EVERY_METHOD

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
PUSHED = ("sgp", "push-diging")
"""Also compared on directed graphs, see test_directed."""
RATES = {"eta": 0.05, "alpha": 4.0, "beta": 3.0}
SCLIP = {"eta": 0.5, "beta": 0.5, "phi": 2.0, "tau": 0.1}
"""The defaults of SClip-EF."""


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Arrays this small are slower with several threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_every_preset_has_the_common_properties(name: str) -> None:
    report = testing.check_algorithm(make(name, **({"weight_decay": 0.0} if "adamw" in name else {})))
    assert not report.skipped
    assert len(report.checked) == 2 + len(testing._CHECKS)


@pytest.mark.parametrize("name", ["gossip-sgd", "gossip-adamw", "gossip-adamw-outer"])
@pytest.mark.parametrize("order", ["adapt-then-combine", "combine-then-adapt"])
def test_weight_decay_shrinks_x_in_proportion(name: str, order: str) -> None:
    method = make(name, eta=0.05, weight_decay=0.1, order=order)
    report = testing.check_algorithm(method, graphs=("er:6:0.5",), iterations=10)
    assert len(report.skipped) == 1
    assert "with weight decay it shrinks x to 0.9" in report.skipped[0] or "outer" in name


@pytest.mark.parametrize("transform", [Powerball(0.7), Sign(), Clip(0.5), Clip(0.5).then(Powerball(0.5))], ids=str)
@pytest.mark.parametrize("name", ["d-sgd-1", "d-sgt-2", "d-asg", "c-sgd", "dsgpa-f-pb-exact"])
def test_every_transform_keeps_the_common_properties(name: str, transform: Any) -> None:
    report = testing.check_algorithm(make(name, transform=transform), graphs=("er:6:0.5",), iterations=10)
    assert not report.skipped


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


# Their transcriptions with local steps and compressed messages are compared in test_communication_methods.
COMMUNICATION: dict[str, dict[str, Any]] = {
    "k-gt": {"eta": 0.05, "eta_s": 0.8},
    "led": {"eta": 0.07},
    "proxskip": {"eta": 0.07, "chi": 1.5},
    "choco-sgd": {"eta": 0.07},
    "beer": {"eta": 0.05},
    "motef": {"eta": 0.05, "beta": 0.6},
}

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
    powers = {"eta": 0.05, "gamma": 0.7}
    table["powered-tracking"] = (partial(make, "powered-tracking", **powers), reference.powered_tracking, powers)
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
    for name in PUSHED:
        table[name] = (partial(make, name, eta=0.07), reference.REFERENCES[name], {"eta": 0.07})
    momentum = {"eta": 0.05, "beta": 0.6}
    table["dm-sgd"] = (partial(DMSGD, **momentum), reference.dm_sgd, momentum)
    table["dm-sgd+powerball"] = (
        partial(make, "dm-sgd", powerball=0.5, **momentum),
        reference.dm_sgd,
        {**momentum, "transform": powered(0.5)},
    )
    hybrid = {"eta": 0.05, "beta": 0.3}
    table["gt-hsgd"] = (partial(make, "gt-hsgd", **hybrid), reference_tracking.gt_hsgd, hybrid)
    table["gt-hsgd+powerball"] = (
        partial(make, "gt-hsgd", powerball=0.7, **hybrid),
        reference_tracking.gt_hsgd,
        {**hybrid, "transform": powered(0.7)},
    )
    table["gt-nsgdm"] = (partial(make, "gt-nsgdm", **momentum), reference_tracking.gt_nsgdm, momentum)
    table["sclip-ef"] = (partial(make, "sclip-ef"), reference_tracking.sclip_ef, SCLIP)
    table["d-asg"] = (partial(DASG, **momentum), reference.d_asg, momentum)
    table["d-asg-zero"] = (partial(DASG, previous="zero", **momentum), d_asg_from_zero, momentum)
    table["d-sgd-2"] = (
        partial(DSGD2, alpha=Inverse(0.1, 0.2), beta=Inverse(0.4, 0.2, 0.3)),
        reference.d_sgd_2,
        {"a": 0.1, "b": 0.4, "epsilon": 0.2},
    )
    local = {"gossip-sgd": {"momentum": 0.6}, "gossip-adam": {"beta1": 0.5}, "gossip-adamw": {"beta2": 0.9}}
    for name, own in local.items():
        for order in ("adapt-then-combine", "combine-then-adapt"):
            values = {"eta": 0.05, "weight_decay": 0.1, "order": order, **own}
            table[name if order[0] == "a" else f"{name}+{order}"] = (
                partial(make, name, **values),
                reference.REFERENCES[name],
                values,
            )
    for name in ("gossip-sgd-outer", "gossip-adamw-outer"):
        for order in ("adapt-then-combine", "combine-then-adapt"):
            values = {"eta": 0.02, "outer_lr": 0.6, "outer_momentum": 0.5, "weight_decay": 0.1, "order": order}
            table[name if order[0] == "a" else f"{name}+{order}"] = (
                partial(make, name, **values),
                reference.REFERENCES[name],
                values,
            )
    table["d-sgd-2 by its defaults"] = (DSGD2, reference.d_sgd_2, {"a": 0.1, "b": 0.2, "epsilon": 1e-5})
    return table | corrected_cases(momentum) | communication_cases()


def corrected_cases(momentum: dict[str, float]) -> dict[str, Case]:
    """The same for the methods of `reference_corrected`."""
    moments = {"eta": 0.05, "beta1": 0.5, "beta2": 0.9, "beta3": 0.6}
    values = {
        **{name: {"eta": 0.07} for name in ("extra", "nids", "exact-diffusion", "aug-dgm")},
        **dict.fromkeys(("edm", "momentum-tracking", "qg-dsgdm"), momentum),
        "d-adam": moments,
        "clipped-d-sgd": {"eta": 0.07, "tau": 0.5},
    }
    return {name: (partial(make, name, **own), reference.CORRECTED[name], own) for name, own in values.items()}


def averaged_cases() -> dict[str, Case]:
    """Momentum before the power, wherever the power acts and in both orders."""
    table: dict[str, Case] = {}
    for power_on, dual in itertools.product(("gradient", "direction"), ("jacobi", "gauss-seidel")):
        values = {"gamma": 0.7, "power_on": power_on, "dual": dual, "momentum": 0.3, **RATES}
        table[f"dsgpa-momentum-{power_on}-{dual}"] = (partial(DSGPA, **values), reference.dsgpa, values)
    return table


def communication_cases() -> dict[str, Case]:
    """The same for the methods of `reference_communication`, with messages in every iteration, as they are."""
    known = reference.COMMUNICATION
    return {name: (partial(make, name, **own), known[name], own) for name, own in COMMUNICATION.items()}


CASES = {**cases(), **averaged_cases()}


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
    lazy = name.startswith(("d2", "led")) and np.linalg.eigvalsh(W).min() <= -1 / 3 + 1e-9
    return L, (np.eye(graph.n) + W) / 2 if lazy else W


def pairs() -> list[Any]:
    """Every case on every graph, on one of them in the quick tests; variants of DSGPA and gossip on some."""
    return [
        pytest.param(name, spec, marks=[pytest.mark.e2e] if (i + j) % len(GRAPHS) else [])
        for i, name in enumerate(CASES)
        for j, spec in enumerate(GRAPHS)
        if not name.startswith(("dsgpa-0", "dsgpa-1", "gossip")) or (i + j) % (3 if name[0] == "g" else 2) == 0
    ]


@pytest.mark.parametrize(("name", "spec"), pairs())
def test_equals_its_transcription(name: str, spec: str) -> None:
    construct, transcription, keywords = CASES[name]
    graph = graphs.parse(spec)
    L, W = matrices(graph, name)
    for family in (noisy_quadratic, minibatch_logistic):
        problem, gradient = family(graph.n)
        expected = transcription(start(graph.n), L, W, gradient, ITERATIONS, **keywords)[-1]
        # Bounded: otherwise a tolerance relative to the largest entry would mean little.
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
                compress="none",
            )
            assert result.kernel.startswith(kernel)
            far = np.abs(result.x.numpy() - expected).max() / np.abs(expected).max()
            assert far < 1e-10, f"{kernel} kernel, {problem.name}"


def test_every_preset_has_a_transcription() -> None:
    assert set(PRESETS) <= {*reference.REFERENCES, *reference_tracking.REFERENCES}
    assert set(PRESETS) <= set(CASES)
