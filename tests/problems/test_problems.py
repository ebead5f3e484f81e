"""Every problem: gradients, losses, starts and noise are correct."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from peerdescent import InputError, problems, train
from peerdescent.problems import MnistNN, Problem, Quadratic, Ripples, logistic_nonconvex, quadratic, supervised

CPU = torch.device("cpu")


pytestmark = pytest.mark.usefixtures("own_cache")


def all_problems() -> dict[str, Problem]:
    data = torch.Generator().manual_seed(0)
    inputs, classes = torch.randn(90, 5, generator=data), torch.randint(3, (90,), generator=data)
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    return {
        "quadratic": quadratic(agents=3, dimension=6),
        "ripples": Ripples(agents=3, dimension=6, spread=1.0, noise=0.0),
        "logistic": logistic_nonconvex(agents=3, samples=60, dimension=5),
        "logistic uneven": logistic_nonconvex(agents=3, samples=60, dimension=5, sizes="uneven"),
        "digits": MnistNN(agents=3),
        "digits uneven": MnistNN(agents=3, partition="label", sizes="uneven"),
        "module": supervised(net, nn.functional.cross_entropy, (inputs, classes), agents=3),
        "module uneven": supervised(net, nn.functional.cross_entropy, (inputs, classes), agents=3, sizes="uneven"),
    }


PROBLEMS = list(all_problems())


def points(problem: Problem) -> torch.Tensor:
    """Generic points, different for each agent."""
    shape = (problem.agents, problem.dimension)
    return 0.3 * torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=problem.dtype)


def gradient_of(problem: Problem, batch_size: int | None, strategy: str) -> torch.Tensor:
    x = points(problem)
    out = torch.full_like(x, torch.nan)
    problem.oracle(batch_size, 5, True, range(problem.agents), strategy)(x, 7, out)
    return out


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("batch_size", [1, 4, None])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_stacked_gradients_equal_those_of_a_loop(name: str, batch_size: int | None, dtype: torch.dtype) -> None:
    problem = all_problems()[name].to(CPU, dtype)
    found = {strategy: gradient_of(problem, batch_size, strategy) for strategy in problem.strategies}
    tolerance = {"rtol": 1e-9, "atol": 1e-12} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-6}
    for gradient in found.values():
        torch.testing.assert_close(gradient, found["stacked"], **tolerance)
    assert set(found) == ({"stacked"} if name in ("quadratic", "ripples") else {"stacked", "loop"})


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_block_of_agents_has_the_same_gradients(name: str) -> None:
    problem = all_problems()[name]
    x = points(problem)
    full, part = torch.empty_like(x), torch.empty_like(x[1:])
    problem.oracle(4, 5, True, range(3))(x, 7, full)
    problem.oracle(4, 5, True, range(1, 3))(x[1:], 7, part)
    torch.testing.assert_close(part, full[1:])


@pytest.mark.parametrize("name", PROBLEMS)
def test_exact_gradients_average_to_that_of_f(name: str) -> None:
    problem = all_problems()[name].to(CPU, torch.float64)
    x = points(problem)[:1].expand(problem.agents, -1).contiguous()
    out = torch.empty_like(x)
    problem.oracle(None, 0, True, range(problem.agents))(x, 0, out)
    torch.testing.assert_close(out.mean(dim=0), problem.gradient(x[0]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_gradient_is_the_slope_of_the_loss(name: str) -> None:
    problem = all_problems()[name].to(CPU, torch.float64)
    x = points(problem)[0]
    gradient, step = problem.gradient(x), 1e-5
    generator = torch.Generator().manual_seed(2)
    for _ in range(5):
        direction = torch.randn(x.shape, generator=generator, dtype=x.dtype)
        direction /= direction.norm()
        slope = (problem.loss(x + step * direction) - problem.loss(x - step * direction)) / (2 * step)
        assert slope == pytest.approx(float(gradient @ direction), rel=1e-6, abs=1e-8)


def test_the_network_s_gradient_by_hand_is_that_of_autograd() -> None:
    problem = MnistNN(agents=2).to(CPU, torch.float64)
    x = problem.start(0)
    inputs, labels = (torch.stack([problem.shard(i)[part][:6] for i in range(2)]) for part in (0, 1))
    by_hand = torch.empty_like(x)
    problem.stacked_gradient(x, inputs, labels, by_hand)
    for i in range(2):
        first = x[i, : 50 * 401].view(50, 401).clone().requires_grad_()
        second = x[i, 50 * 401 :].view(10, 51).clone().requires_grad_()
        hidden = torch.sigmoid(inputs[i] @ first.T)
        y = torch.sigmoid(torch.cat([torch.ones(6, 1), hidden], dim=1).double() @ second.T)
        t = nn.functional.one_hot(labels[i], 10)
        risk = -(t * y.log() + (1 - t) * (1 - y).log()).sum(dim=1).mean()
        expected = torch.cat([g.flatten() for g in torch.autograd.grad(risk, (first, second))])
        torch.testing.assert_close(by_hand[i], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if "uneven" in name])
def test_agents_have_the_same_weight_whatever_their_shards(name: str) -> None:
    problem = all_problems()[name].to(CPU, torch.float64)
    assert isinstance(problem, problems.Sampled)
    assert len(set(problem.sizes)) > 1
    x = points(problem)[0]
    own = [float(problem.mean_loss(x, *problem.shard(i))) for i in range(problem.agents)]
    assert problem.loss(x) == pytest.approx(np.mean(own), rel=1e-12)
    assert problem.loss(x) != pytest.approx(np.average(own, weights=problem.sizes), rel=1e-6)


def test_the_quadratic_s_optimum() -> None:
    problem = quadratic(agents=5, dimension=7, condition=100)
    best = problem.optimum()
    double = problem.to(CPU, torch.float64)
    assert float(double.gradient(best).norm()) < 1e-10
    result = train(problem, "complete:5", "c-sgd", iterations=4000, dtype="float64")
    torch.testing.assert_close(result.x_mean, best, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "given",
    [Quadratic(A=np.ones((4, 50)), c=np.zeros((4, 50)), noise=3.0), Ripples(agents=4, dimension=50, noise=3.0)],
    ids=["quadratic", "ripples"],
)
def test_the_noise_is_as_stated(given: Problem) -> None:
    problem = given.to(CPU, torch.float64)
    oracle = problem.oracle(9, seed=0, replacement=True, agents=range(4))
    zero, out, drawn = torch.zeros(4, 50, dtype=torch.float64), torch.empty(4, 50, dtype=torch.float64), []
    for k in range(200):
        oracle(zero, k, out)
        drawn.append(out.clone())
    noise = torch.stack(drawn)  # 40,000 numbers: the estimates are good to about one per cent
    assert float(noise.std()) == pytest.approx(3 / 9**0.5, rel=0.02)
    assert abs(float(noise.mean())) < 0.02
    flat = noise.transpose(0, 1).reshape(4, -1)
    assert float((torch.corrcoef(flat) - torch.eye(4)).abs().max()) < 0.05  # independent between agents
    lag = float((noise[1:] * noise[:-1]).mean())
    assert abs(lag) < 0.02  # and between iterations
    oracle(zero, 150, out)
    assert torch.equal(out, drawn[150])  # a pure function of k


def test_ripples_are_heterogeneous_skewed_and_nonconvex() -> None:
    problem = Ripples(agents=200, dimension=50, spread=2.0).to(CPU, torch.float64)
    assert float(problem.c.mean(dim=0).abs().max()) < 1e-12
    assert float(problem.c.std()) == pytest.approx(2.0, rel=0.05)
    assert float((problem.c / problem.c.std()).pow(3).mean()) > 1  # the exponential's is 2
    assert torch.equal(problem.start(3), problem.start(3)[:1].expand(200, -1))
    assert torch.equal(Ripples(agents=5, spread=0.0).c, torch.zeros(5, 20, dtype=torch.float64))
    point = torch.zeros(50, dtype=torch.float64)
    slopes = [problem.gradient(point + shift)[0] for shift in (0.0, 1e-6, np.pi / 2, np.pi / 2 + 1e-6)]
    curvatures = (float(slopes[1] - slopes[0]) / 1e-6, float(slopes[3] - slopes[2]) / 1e-6)
    assert curvatures == pytest.approx((problem.smoothness, -1.0), abs=1e-4)


@pytest.mark.parametrize("options", [{"agents": 0}, {"dimension": 0}, {"spread": -1.0}, {"noise": float("nan")}])
def test_ripples_refuse_impossible_options(options: dict[str, float]) -> None:
    with pytest.raises(InputError, match="ripples"):
        Ripples(**options)  # type: ignore[arg-type]


def test_the_network_s_starts() -> None:
    normal, uniform, glorot = (MnistNN(agents=3, start=kind).start(4) for kind in ("normal", "uniform", "glorot"))
    assert normal.shape == uniform.shape == glorot.shape == (3, 20560)
    assert float(normal.std()) == pytest.approx(1, rel=0.02)
    assert not torch.equal(normal[0], normal[1])
    assert torch.equal(uniform[0], uniform[2])
    first, second = uniform[0, : 50 * 401], uniform[0, 50 * 401 :]
    for part, fan_in in ((first, 401), (second, 51)):
        assert 0.95 < float(part.abs().max()) * fan_in**0.5 <= 1
    first, second = glorot[:, : 50 * 401].view(3, 50, 401), glorot[:, 50 * 401 :].view(3, 10, 51)
    assert not torch.equal(glorot[0], glorot[1])
    for part, limit in ((first, (6 / 450) ** 0.5), (second, (6 / 60) ** 0.5)):
        assert torch.equal(part[:, :, 0], torch.zeros_like(part[:, :, 0]))  # biases
        assert 0.95 * limit < float(part.abs().max()) <= limit
    assert not torch.equal(MnistNN(agents=3).start(5), normal)
    with pytest.raises(InputError, match="start"):
        MnistNN(agents=3, start="bogus")
