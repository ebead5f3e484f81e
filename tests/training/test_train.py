"""Training from outside: what decides a result, what does not, and what a problem promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.commands import without_seconds

import peerdescent
from peerdescent import InputError, Result, train
from peerdescent.problems import MnistNN, logistic_nonconvex, quadratic
from peerdescent.training import gradients

CPU = torch.device("cpu")


pytestmark = pytest.mark.usefixtures("own_cache")


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
    single, double = noisy(dtype="float32", batch_size=0), noisy(dtype="float64", batch_size=0)
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
    [{"bogus": 1}, {"iterations": 1.5}, {"batch_size": -1}, {"dtype": "half"}, {"kernel": "x"}, {"gradients": "loop"}],
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


def test_the_package_offers_what_it_names() -> None:
    for name in peerdescent.__all__:
        assert hasattr(peerdescent, name)


@pytest.mark.parametrize(("agents", "chosen", "listed"), [(64, {}, 64), (65, {}, 0), (65, {"per_agent": True}, 65)])
def test_many_agents_are_evaluated_on_request_only(agents: int, chosen: dict[str, bool], listed: int) -> None:
    result = train("ripples", f"ring:{agents}", "d-sgd-1", iterations=1, **chosen)  # type: ignore[arg-type]
    assert len(result.metrics[-1].get("agent_loss", [])) == listed


def test_numpy_numbers_are_welcome(tmp_path: Path) -> None:
    result = train("quadratic", "ring:3", "d-sgd-1", iterations=np.int64(3), seed=np.int64(2), out=tmp_path / "a")
    assert type(result.settings.seed) is int


def test_a_measured_choice_is_written_down_and_kept_on_resume(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = logistic_nonconvex(agents=3, samples=60)
    chosen: dict[str, Any] = {"batch_size": 4, "gradients": "measure", "out": tmp_path / "a"}
    monkeypatch.setattr(gradients, "_measure", lambda problem, x, size, strategy: 1.0 + (strategy == "stacked"))
    first = train(problem, "ring:3", "d-sgd-1", iterations=3, **chosen)
    assert first.gradients.startswith("loop (measured")
    assert 'gradients = "loop"' in (tmp_path / "a" / "experiment.toml").read_text()
    monkeypatch.setattr(gradients, "_measure", lambda problem, x, size, strategy: 1.0 + (strategy == "loop"))
    again = train(problem, "ring:3", "d-sgd-1", iterations=6, **chosen, resume=True)
    assert again.gradients == "loop (as asked)"


def test_a_power_is_not_taken_twice() -> None:
    with pytest.raises(InputError, match="has a power of its own"):
        peerdescent.algorithms.make("dsgpa-f-pb", powerball=0.7)
    with pytest.raises(InputError, match="gamma"):
        peerdescent.algorithms.make("dsgpa-f", powerball=0.7, gamma=np.array([1, 2]))
    assert peerdescent.algorithms.make("dsgpa-f", powerball=0.7).gamma == 1.0


def test_no_clock_chooses_the_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same seed gives the same bits, however fast this machine is at the moment."""
    monkeypatch.setattr(gradients, "_measure", lambda *_: pytest.fail("the clock was asked"))
    problem = logistic_nonconvex(agents=3, samples=60)
    one, two = (train(problem, "ring:3", "d-sgd-1", iterations=5, batch_size=4) for _ in range(2))
    assert one.gradients == two.gradients
    assert torch.equal(one.x, two.x)
    assert digits(iterations=1).gradients == "stacked (written by hand)"
    assert digits(iterations=1, gradients="loop").gradients == "loop (as asked)"
