"""Steps with several gradients on the same samples, and with norms of rows: identities, limits and costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from tests.conformance.reference import neighbours
from torch import nn
from torch.utils.data import Dataset, IterableDataset

from peerdescent import explain, testing, train
from peerdescent.algorithms import Algorithm, make
from peerdescent.data import stream
from peerdescent.graphs import parse
from peerdescent.problems import Problem, Quadratic, supervised
from peerdescent.theory import recursion
from peerdescent.transforms import ClipNorm

N, P, T, GRAPH = 6, 3, 30, "er:6:0.5"
ETA = 0.07


def heterogeneous(noise: float = 0.0) -> Quadratic:
    random = np.random.default_rng(8)
    return Quadratic(A=random.uniform(0.5, 1.5, size=(N, P)), c=random.normal(size=(N, P)), noise=noise)


def run(method: Algorithm | str, iterations: int = T, noise: float = 0.0, **settings: Any) -> torch.Tensor:
    chosen = {"batch_size": 1 if noise else 0, "dtype": "float64", "eval_every": iterations, "per_agent": False}
    x0 = np.random.default_rng(9).normal(size=(N, P))
    return train(heterogeneous(noise), GRAPH, method, x0=x0, iterations=iterations, **{**chosen, **settings}).x


def aug_dgm(noise: float = 0.0) -> np.ndarray:
    """y = W(y₋ + g − g₋), x⁺ = W(x − ηy), agent by agent."""
    problem, W = heterogeneous(), parse(GRAPH).mixing().toarray()
    A, c = problem.A.diagonal(dim1=1, dim2=2).numpy(), problem.c.numpy()
    drawn = [noise * stream(0, "noise", i).standard_normal((T, P)) for i in range(N)]
    x = np.random.default_rng(9).normal(size=(N, P))
    y, g_before = np.zeros((N, P)), np.zeros((N, P))
    for k in range(T):
        g = np.stack([A[i] * (x[i] - c[i]) + drawn[i][k] for i in range(N)])
        y = np.stack([neighbours(W, y + g - g_before, i) for i in range(N)])
        x = np.stack([neighbours(W, x - ETA * y, i) for i in range(N)])
        g_before = g
    return x


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
def test_gt_hsgd_with_new_gradients_only_is_aug_dgm(kernel: str) -> None:
    found = run(make("gt-hsgd", eta=ETA, beta=1.0), noise=0.4, kernel=kernel)
    np.testing.assert_allclose(found.numpy(), aug_dgm(0.4), rtol=0, atol=1e-12)


@pytest.mark.parametrize("beta", [0.05, 0.6])
def test_gt_hsgd_with_exact_gradients_is_aug_dgm(beta: float) -> None:
    found = run(make("gt-hsgd", eta=ETA, beta=beta))
    np.testing.assert_allclose(found.numpy(), aug_dgm(), rtol=0, atol=1e-12)
    assert np.abs(run(make("gt-hsgd", eta=ETA, beta=beta), noise=0.4).numpy() - aug_dgm(0.4)).max() > 1e-2


def test_gt_hsgd_reduces_the_variance_of_the_gradients() -> None:
    """The noise of both gradients is the same and cancels; of new noise only the share β enters."""
    optimum = heterogeneous().optimum()
    far = {
        beta: float(
            np.mean(
                [
                    (run(make("gt-hsgd", eta=0.1, beta=beta), 200 + 20 * i, 1.0) - optimum).square().mean()
                    for i in range(4)
                ]
            )
        )
        for beta in (1.0, 0.1)
    }
    assert far[0.1] < 0.5 * far[1.0]


def test_gt_nsgdm_circles_within_a_multiple_of_its_step() -> None:
    optimum, far = heterogeneous().optimum(), []
    for eta in (0.04, 0.01):
        x = run(make("gt-nsgdm", eta=eta, beta=0.5), 1500)
        far.append(float((x - optimum).norm(dim=1).max()))
        assert 0 < far[-1] < 5 * eta
    assert far[1] < 0.5 * far[0]


@pytest.mark.parametrize(("name", "most"), [("gt-nsgdm", 0.02), ("sclip-ef", 0.5 * 2.0 * P**0.5)])
def test_no_gradient_moves_x_far(name: str, most: float) -> None:
    huge = Quadratic(A=np.full((1, P), 1e25), c=np.zeros((1, P)))
    moved = train(huge, "ring:1", name, x0=np.ones((1, P)), iterations=1, batch_size=0, dtype="float64").x - 1
    assert 0.4 * most < float(moved.norm()) <= most * (1 + 1e-12)


def test_clipping_by_norm_keeps_the_common_properties() -> None:
    method = make("d-sgd-1", transform=ClipNorm(0.5))
    assert not testing.check_algorithm(method, graphs=("er:6:0.5",), iterations=10).skipped


# ---- The same samples ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Twice(Algorithm):
    """D-SGD-1 that asks for its gradient twice and sums up how much both differ."""

    eta: float = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def memory(self) -> Mapping[str, Any]:
        return {"difference": "zero"}

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        Wx = net.mix(s.x)
        g = yield s.x
        again = yield s.x
        return {"x": Wx - h.eta * again, "difference": s.difference + (g - again) * (g - again)}


class Squares(Dataset[Any]):
    """Samples that are drawn anew each time they are read."""

    def __len__(self) -> int:
        return 40

    def __getitem__(self, i: int) -> Any:
        x = torch.full((2,), i / 20 - 1) + 0.1 * torch.randn(2)
        return x, x.square().sum()[None]


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Iterator[Any]:
        return (Squares()[i % 40] for i in range(10**6))


def mse(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).square().mean()


def network(data: Any, *layers: nn.Module) -> Problem:
    torch.manual_seed(0)
    return supervised(nn.Sequential(nn.Linear(2, 4), *layers, nn.Tanh(), nn.Linear(4, 1)), mse, data, agents=3)


IN_MEMORY = torch.randn(30, 2, generator=torch.Generator().manual_seed(1)), torch.ones(30, 1)
KINDS: dict[str, tuple[Any, ...]] = {
    "stacked": (IN_MEMORY,),
    "loop": (IN_MEMORY,),
    "dropout": (IN_MEMORY, nn.Dropout(0.5)),
    "statistics": (IN_MEMORY, nn.BatchNorm1d(4)),
    "lazy": (Squares(),),
    "stream": (Endless(),),
}


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("kind", KINDS)
def test_all_gradients_of_an_iteration_are_on_the_same_samples(kind: str, kernel: str) -> None:
    """Two gradients at one point are equal, and buffers change as with one gradient."""
    strategy = kind if kind in ("stacked", "loop") else "auto"
    settings = {"iterations": 6, "batch_size": 5, "seed": 3, "gradients": strategy, "per_agent": False, "eval_every": 6}
    torch.manual_seed(1)
    twice = train(network(*KINDS[kind]), "path:3", Twice(), kernel=kernel, **settings)
    torch.manual_seed(1)
    once = train(network(*KINDS[kind]), "path:3", make("d-sgd-1", eta=0.1), kernel=kernel, **settings)
    torch.testing.assert_close(twice.x, once.x, rtol=0, atol=1e-6)
    assert set(twice.buffers) == set(once.buffers)
    for name, rows in once.buffers.items():
        torch.testing.assert_close(twice.buffers[name], rows, rtol=1e-5, atol=1e-6)
    assert bool(once.buffers) == (kind == "statistics")


# ---- Theory, cost --------------------------------------------------------------------------------------


def test_the_recursion_of_a_step_with_two_gradients() -> None:
    eta, beta, h, w = 0.1, 0.3, 0.8, 0.6
    # v⁺ = hx + (1−β)(v − hx₋), y⁺ = w(y + v⁺ − v), x⁺ = w(x − ηy⁺); the state is (x, y, v, x₋)
    x, y, v, x_prev = np.eye(4)
    new_v = h * x + (1 - beta) * (v - h * x_prev)
    new_y = w * (y + new_v - v)
    expected = np.stack([w * (x - eta * new_y), new_y, new_v, x])
    found = recursion(make("gt-hsgd", eta=eta, beta=beta), 0.0, 1 - w, curvature=h)
    np.testing.assert_allclose(found, expected, atol=1e-14)


@dataclass(frozen=True)
class Extragradient(Algorithm):
    """x⁺ = x − ηg(x − ηg(x))."""

    eta: float = 0.1
    rates: ClassVar[tuple[str, ...]] = ("eta",)

    def step(self, s: SimpleNamespace, net: Any, h: SimpleNamespace) -> Any:
        g = yield s.x
        g = yield s.x - h.eta * g
        return {"x": net.mix(s.x) - h.eta * g}


def test_a_point_may_depend_on_the_gradient_before() -> None:
    eta, h = 0.3, 0.7
    assert recursion(Extragradient(eta=eta), 0.0, 0.0, curvature=h)[0, 0] == pytest.approx(1 - eta * h * (1 - eta * h))


def test_what_an_iteration_costs_is_told() -> None:
    assert explain("quadratic", "ring:4", "gt-hsgd").gradients_per_iteration == 2
    assert explain("quadratic", "ring:4", "d-sgd-1").gradients_per_iteration == 1
    result = train("quadratic", "ring:4", "gt-hsgd", iterations=2)
    assert "gradients per iteration: 2, on the same samples" in result.notes
