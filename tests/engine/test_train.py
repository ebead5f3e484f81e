"""Training from outside: what decides a result, what does not, and what a problem promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.conftest import without_seconds
from torch import nn
from torch.utils.data import TensorDataset

import peerdescent
from peerdescent import InputError, Result, problems, train
from peerdescent.engine import gradients
from peerdescent.problems import MnistNN, Problem, Quadratic, Supervised, logistic_nonconvex, quadratic, supervised

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of our own, so that what was measured elsewhere plays no part."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def noisy(method: str = "dsgpa-f-pb", **settings: Any) -> Result:
    """A short run in which everything random takes part."""
    problem = quadratic(agents=4, dimension=6, noise=0.5)
    return train(problem, "ring:4", method, **{"iterations": 60, "batch_size": 4, "eval_every": 20, **settings})


def digits(**settings: Any) -> Result:
    return train(MnistNN(agents=3), "path:3", "dsgpa-t-pb", **{"iterations": 40, "batch_size": 8, **settings})


def same(a: Result, b: Result) -> bool:
    """Bitwise equality, not closeness."""
    return a.x.dtype == b.x.dtype and a.x.numpy().tobytes() == b.x.numpy().tobytes()


# What decides a result


@pytest.mark.parametrize("run", [noisy, digits])
def test_the_seed_decides(run: Any) -> None:
    one, two, other = run(seed=1), run(seed=1), run(seed=2)
    assert same(one, two)
    assert without_seconds(one.metrics.rows) == without_seconds(two.metrics.rows)
    assert not same(one, other)


def test_evaluations_do_not_decide() -> None:
    often, seldom = noisy(eval_every=10, iterations=300), noisy(eval_every=1000, iterations=300)
    assert same(often, seldom)
    assert often.metrics["iteration"] == list(range(0, 301, 10))
    assert seldom.metrics["iteration"] == [0, 300]
    assert often.metrics[-1]["loss"] == seldom.metrics[-1]["loss"]


def test_measuring_every_agent_does_not_decide() -> None:
    with_agents, without = noisy(per_agent=True), noisy(per_agent=False)
    assert same(with_agents, without)
    assert len(with_agents.metrics[-1]["agent_loss"]) == 4
    assert "agent_loss" not in without.metrics[-1]


@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_threads_do_not_decide(kernel: str) -> None:
    wide = quadratic(agents=4, dimension=300, noise=0.5)  # so wide that both threads have columns
    one, two = (
        train(wide, "ring:4", "dsgpa-f-pb", iterations=30, batch_size=4, threads=threads, kernel=kernel)
        for threads in (1, 2)
    )
    assert same(one, two)


def test_threads_are_put_back() -> None:
    before = torch.get_num_threads()
    noisy(threads=before + 1)
    assert torch.get_num_threads() == before


def test_double_precision() -> None:
    single, double = noisy(dtype="float32", batch_size=None), noisy(dtype="float64", batch_size=None)
    assert (single.x.dtype, double.x.dtype) == (torch.float32, torch.float64)
    torch.testing.assert_close(single.x.double(), double.x, rtol=1e-4, atol=1e-5)
    assert single.metrics[-1]["bytes_sent"] * 2 == double.metrics[-1]["bytes_sent"]


# Arguments


def test_a_start_of_ones_own() -> None:
    matrix = torch.arange(24.0).view(4, 6)
    assert torch.equal(noisy(iterations=0, x0=matrix).x, matrix)
    assert torch.equal(noisy(iterations=0, x0=matrix[0]).x, matrix[:1].expand(4, 6))
    before = matrix.clone()
    noisy(x0=matrix)
    assert torch.equal(matrix, before)
    with pytest.raises(InputError, match=r"x0 has shape \(5, 6\)"):
        noisy(x0=torch.zeros(5, 6))


def test_agents_and_graph_must_agree() -> None:
    with pytest.raises(InputError, match="4 agents and the graph 5"):
        train(quadratic(agents=4), "ring:5", "d-sgd-1")


@pytest.mark.parametrize(
    "settings",
    [{"bogus": 1}, {"iterations": 1.5}, {"batch_size": 0}, {"dtype": "half"}, {"kernel": "x"}, {"gradients": "loop"}],
)
def test_wrong_arguments_are_refused(settings: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=next(iter(settings))):
        noisy(**settings, out=tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_names_will_do() -> None:
    result = train("quadratic", "ring:3", "d-sgd-1", iterations=2)
    assert result.x.shape == (3, 10)


# Results


def test_the_averaged_model() -> None:
    result = digits(iterations=200, seed=3)
    module = result.model()
    parameters = torch.cat([p.detach().flatten() for p in module.parameters()])
    assert torch.equal(parameters, result.x.mean(dim=0))
    images, labels = result.problem.test  # type: ignore[attr-defined]
    right = (module(images[:, 1:]).argmax(dim=1) == labels).double().mean()
    assert result.metrics[-1]["accuracy"] == pytest.approx(float(right), abs=1e-12)
    assert 0.2 < float(right) < 1


def test_no_model_is_said() -> None:
    with pytest.raises(InputError, match="x_mean"):
        noisy().model()


def test_metrics_as_a_table() -> None:
    result = noisy()
    table = result.metrics.to_pandas()
    assert list(table["iteration"]) == [0, 20, 40, 60]
    assert table["loss"].iloc[-1] == result.metrics[-1]["loss"] == result.problem.loss(result.x_mean)
    spread = (result.x.double() - result.x.double().mean(0)).square().sum() / 4
    assert table["consensus_error"].iloc[-1] == pytest.approx(float(spread))
    gradient = result.problem.gradient(result.x_mean)
    assert table["gradient_norm"].iloc[-1] == pytest.approx(float(gradient.norm()), rel=1e-5)
    assert table["agent_loss"].iloc[-1] == [result.problem.loss(row) for row in result.x]
    assert (table["seconds"].diff().dropna() > 0).all()


def test_a_repair_is_noted() -> None:
    result = train("quadratic", "hypercube:3", "d2", iterations=2)
    quiet = train("quadratic", "hypercube:3", "d-sgd-1", iterations=2)
    assert quiet.notes == []
    (note,) = result.notes
    assert "(I+W)/2" in note


# Problems


def all_problems() -> dict[str, Problem]:
    data = torch.Generator().manual_seed(0)
    inputs, classes = torch.randn(90, 5, generator=data), torch.randint(3, (90,), generator=data)
    net = nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 3))
    return {
        "quadratic": quadratic(agents=3, dimension=6),
        "logistic": logistic_nonconvex(agents=3, samples=60, dimension=5),
        "logistic uneven": logistic_nonconvex(agents=3, samples=60, dimension=5, sizes="uneven"),
        "digits": MnistNN(agents=3),
        "digits uneven": MnistNN(agents=3, partition="label", sizes="uneven"),
        "module": supervised(net, nn.functional.cross_entropy, (inputs, classes), agents=3),
        "module uneven": supervised(net, nn.functional.cross_entropy, (inputs, classes), agents=3, sizes="uneven"),
    }


PROBLEMS = list(all_problems())


def points(problem: Problem) -> torch.Tensor:
    """Points where nothing is special, different for each agent."""
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
    assert set(found) == ({"stacked"} if name == "quadratic" else {"stacked", "loop"})


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_block_of_agents_has_the_same_gradients(name: str) -> None:
    problem = all_problems()[name]
    x = points(problem)
    whole, part = torch.empty_like(x), torch.empty_like(x[1:])
    problem.oracle(4, 5, True, range(3))(x, 7, whole)
    problem.oracle(4, 5, True, range(1, 3))(x[1:], 7, part)
    torch.testing.assert_close(part, whole[1:])


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
def test_agents_count_the_same_whatever_they_own(name: str) -> None:
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


def test_the_quadratic_s_noise_is_as_stated() -> None:
    problem = Quadratic(A=np.ones((4, 50)), c=np.zeros((4, 50)), noise=3.0).to(CPU, torch.float64)
    oracle = problem.oracle(9, seed=0, replacement=True, agents=range(4))
    zero, out, drawn = torch.zeros(4, 50, dtype=torch.float64), torch.empty(4, 50, dtype=torch.float64), []
    for k in range(200):
        oracle(zero, k, out)
        drawn.append(out.clone())
    noise = torch.stack(drawn)  # 40,000 numbers: the estimates are good to about one per cent
    assert float(noise.std()) == pytest.approx(3 / 9**0.5, rel=0.02)
    assert abs(float(noise.mean())) < 0.02
    flat = noise.transpose(0, 1).reshape(4, -1)
    assert float((torch.corrcoef(flat) - torch.eye(4)).abs().max()) < 0.05  # agents do not share it
    lag = float((noise[1:] * noise[:-1]).mean())
    assert abs(lag) < 0.02  # nor do iterations
    oracle(zero, 150, out)
    assert torch.equal(out, drawn[150])  # a pure function of k, in whatever order


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


# Modules of one's own


def two_moons() -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes that a small network separates."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    inputs = torch.randn(200, 2, generator=generator) + 3.0 * labels[:, None]
    return inputs, labels


def small_net() -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))


@pytest.mark.parametrize("as_dataset", [False, True])
@pytest.mark.parametrize("sizes", ["even", "uneven"])
def test_classification(as_dataset: bool, sizes: str) -> None:
    data: Any = TensorDataset(*two_moons()) if as_dataset else two_moons()
    problem = supervised(
        small_net(), nn.functional.cross_entropy, data, agents=4, test=data, sizes=sizes, partition="label"
    )
    assert (len(set(problem.sizes)) == 1) == (sizes == "even")
    result = train(problem, "ring:4", "d-sgt-1", iterations=400, batch_size=10)
    assert result.metrics[-1]["accuracy"] > 0.95 > result.metrics[0]["accuracy"]
    inputs, labels = two_moons()
    assert result.metrics[-1]["accuracy"] == float((result.model()(inputs).argmax(1) == labels).double().mean())


def test_regression() -> None:
    inputs = torch.randn(120, 3, generator=torch.Generator().manual_seed(0))
    truth = torch.tensor([[1.0], [-2.0], [0.5]])
    data = (inputs, inputs @ truth + 1)
    problem = supervised(nn.Linear(3, 1), nn.functional.mse_loss, data, agents=3, test=data)
    result = train(problem, "path:3", "d-sgt-2", iterations=3000, batch_size=10)
    assert result.metrics[-1]["accuracy"] is None
    model = result.model()
    assert isinstance(model, nn.Linear)
    torch.testing.assert_close(model.weight.detach(), truth.T, rtol=0, atol=0.02)
    with pytest.raises(InputError, match="label"):
        supervised(nn.Linear(3, 1), nn.functional.mse_loss, data, agents=3, partition="label")


def test_shared_and_independent_starts() -> None:
    net, data = small_net(), two_moons()
    own = torch.cat([p.detach().flatten() for p in net.parameters()])
    shared = supervised(net, nn.functional.cross_entropy, data, agents=3)
    assert torch.equal(shared.start(0), own.expand(3, -1))
    before = torch.get_rng_state()
    independent = supervised(net, nn.functional.cross_entropy, data, agents=3, start="independent")
    drawn = independent.start(0)
    assert torch.equal(torch.get_rng_state(), before)  # nobody else's randomness is used up
    assert len({tuple(row.tolist()) for row in drawn}) == 3
    assert torch.equal(drawn, independent.start(0))
    assert not torch.equal(drawn, independent.start(1))
    assert torch.equal(torch.cat([p.detach().flatten() for p in net.parameters()]), own)
    with pytest.raises(InputError, match="start"):
        supervised(net, nn.functional.cross_entropy, data, agents=3, start="bogus")


def test_training_leaves_the_module_alone() -> None:
    net = small_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    train(supervised(net, nn.functional.cross_entropy, two_moons(), agents=2), "ring:2", "d-sgd-1", iterations=20)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


class Unstackable(nn.Module):
    """Its path depends on numbers, which vmap cannot follow."""

    def __init__(self, obstinate: bool = True) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.obstinate = obstinate

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y if not self.obstinate or float(y.detach().sum()) > 0 else 2 * y


def stubborn(obstinate: bool = True, **settings: Any) -> Result:
    problem = supervised(Unstackable(obstinate), nn.functional.cross_entropy, two_moons(), agents=2)
    return train(problem, "ring:2", "d-sgd-1", **{"iterations": 10, "batch_size": 5, **settings})


def test_a_module_that_cannot_be_stacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path))
    for _ in range(2):  # also when the answer is remembered
        result = stubborn()
        assert result.gradients.startswith("loop (stacked is impossible: ")
        assert len(result.gradients) > len("loop (stacked is impossible: )") + 10
    assert torch.isfinite(result.x).all()


def test_a_module_that_has_changed_behind_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path))
    monkeypatch.setattr(gradients, "_measure", _stacked_wins)
    assert stubborn(obstinate=False).gradients.startswith("stacked")
    monkeypatch.undo()
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path))
    assert stubborn(obstinate=True).gradients.startswith("loop")


def _stacked_wins(problem: Problem, points: torch.Tensor, batch_size: int | None, strategy: str, **_: Any) -> float:
    return {"stacked": 1.0, "loop": 2.0}[strategy]


def test_the_choice_of_gradients_is_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path))
    first, second = digits(iterations=1), digits(iterations=1)
    assert "faster" in first.gradients
    assert second.gradients == f"{first.gradients.split()[0]} (measured before)"
    assert digits(iterations=1, gradients="loop").gradients == "loop (as asked)"


def test_a_module_whose_data_do_not_fit_is_refused() -> None:
    problem = supervised(nn.Linear(3, 2), nn.functional.cross_entropy, two_moons(), agents=2)
    with pytest.raises(InputError, match="cannot be computed"):
        train(problem, "ring:2", "d-sgd-1", iterations=2)


def test_running_statistics_are_refused() -> None:
    net = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    with pytest.raises(InputError, match=r"layer '1' keeps running statistics.*GroupNorm"):
        supervised(net, nn.functional.cross_entropy, two_moons(), agents=2)
    harmless = nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4, track_running_stats=False), nn.Linear(4, 2))
    problem = supervised(harmless, nn.functional.cross_entropy, two_moons(), agents=2)
    assert torch.isfinite(train(problem, "ring:2", "d-sgd-1", iterations=5, batch_size=10).x).all()


@pytest.mark.parametrize(
    "data",
    [
        (torch.ones(3, 2), torch.ones(2)),
        (torch.ones(0, 2), torch.ones(0)),
        (torch.ones(3),),
        TensorDataset(torch.ones(0, 2), torch.ones(0)),
    ],
)
def test_bad_data_are_refused(data: Any) -> None:
    with pytest.raises(InputError, match="data: expected"):
        supervised(nn.Linear(2, 1), nn.functional.mse_loss, data, agents=1)


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="no parameters"):
        Supervised(nn.Tanh(), nn.functional.mse_loss, torch.ones(2, 1), torch.ones(2, 1), [np.arange(2)])


def test_the_package_offers_what_it_names() -> None:
    for name in peerdescent.__all__:
        assert hasattr(peerdescent, name)


def test_frozen_parameters_stay_and_unused_ones_do_no_harm() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(4)))
    data = torch.randn(40, 2), torch.randn(40, 1)
    problem = supervised(model, nn.functional.mse_loss, data, agents=4)
    assert problem.dimension == 4 + 4
    for gradients_ in ("stacked", "loop"):
        trained = train(problem, "ring:4", "d-sgd-1", iterations=10, batch_size=4, gradients=gradients_).model()
        assert torch.equal(trained[0].weight, model[0].weight)
        assert torch.equal(trained.unused, model.unused)
        assert not torch.equal(trained[2].weight, model[2].weight)


def test_dropout_is_refused() -> None:
    with pytest.raises(InputError, match="draws at random"):
        supervised(
            nn.Sequential(nn.Dropout(0.5), nn.Linear(2, 1)),
            nn.functional.mse_loss,
            (torch.ones(80, 2), torch.ones(80, 1)),
        )


def test_numpy_numbers_are_welcome(tmp_path: Path) -> None:
    result = train("quadratic", "ring:3", "d-sgd-1", iterations=np.int64(3), seed=np.int64(2), out=tmp_path / "a")
    assert type(result.settings.seed) is int


def test_a_measured_choice_is_written_down_and_kept_on_resume(tmp_path: Path) -> None:
    problem = logistic_nonconvex(agents=3, samples=60)
    first = train(problem, "ring:3", "d-sgd-1", iterations=3, batch_size=4, out=tmp_path / "a")
    written = (tmp_path / "a" / "experiment.toml").read_text()
    chosen = first.gradients.split()[0]
    assert f'gradients = "{chosen}"' in written
    other = written.replace(f'gradients = "{chosen}"', f'gradients = "{"loop" if chosen == "stacked" else "stacked"}"')
    (tmp_path / "a" / "experiment.toml").write_text(other)
    again = train(problem, "ring:3", "d-sgd-1", iterations=6, batch_size=4, out=tmp_path / "a", resume=True)
    assert again.gradients.split()[0] != chosen


def test_a_power_is_not_taken_twice() -> None:
    with pytest.raises(InputError, match="has a power of its own"):
        peerdescent.algorithms.make("dsgpa-f-pb", powerball=0.7)
    assert peerdescent.algorithms.make("dsgpa-f", powerball=0.7).gamma == 1.0
