"""Metrics of the user's own, the test loss, and what every agent scores."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from peerdescent import InputError, train
from peerdescent.problems import Supervised, logistic_nonconvex, supervised

pytestmark = pytest.mark.usefixtures("own_cache")
TOKENS, WORDS = 7, 5


def regression(agents: int = 3, samples: int = 30, sizes: str = "even", test: bool = True) -> Supervised:
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(samples + 11, 3, generator=generator)
    targets = inputs @ torch.tensor([[1.0], [-2.0], [0.5]]) + 1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Linear(3, 1)
    held = (inputs[samples:], targets[samples:]) if test else None
    data = (inputs[:samples], targets[:samples])
    return supervised(model, nn.functional.mse_loss, data, agents, test=held, sizes=sizes, start="independent")


def max_error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return (outputs - targets).abs().max()


def test_a_metric_sees_all_test_outputs_at_the_mean_and_at_every_agent(tmp_path: Path) -> None:
    problem = regression()
    result = train(problem, "ring:3", "d-sgd-1", iterations=20, metrics={"max_error": max_error}, out=tmp_path / "a")
    inputs, targets = (part.numpy() for part in problem.test)  # type: ignore[union-attr]

    def errors(x: torch.Tensor) -> Any:
        weights = x.numpy()
        return inputs @ weights[:3, None] + weights[3] - targets

    last = result.metrics[-1]
    assert last["max_error"] == pytest.approx(np.abs(errors(result.x_mean)).max(), rel=1e-5)
    assert last["agent_max_error"] == pytest.approx([np.abs(errors(x)).max() for x in result.x], rel=1e-5)
    assert last["test_loss"] == pytest.approx((errors(result.x_mean) ** 2).mean(), rel=1e-5)
    assert last["agent_test_loss"] == pytest.approx([(errors(x) ** 2).mean() for x in result.x], rel=1e-5)
    assert last["accuracy"] is None
    line = json.loads((tmp_path / "a" / "metrics.jsonl").read_text().splitlines()[-1])
    assert line["max_error"] == last["max_error"]
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["max_error"] == last["max_error"]
    assert len(result.metrics["max_error"]) == len(result.metrics)


def test_metrics_change_nothing_else() -> None:
    plain, measured = (
        train(regression(), "ring:3", "d-sgd-1", iterations=10, metrics=m) for m in (None, {"e": max_error})
    )
    assert torch.equal(plain.x, measured.x)
    assert plain.metrics["loss"] == measured.metrics["loss"]


def test_the_test_loss_of_tokens_is_that_of_the_whole_test_set() -> None:
    generator = torch.Generator().manual_seed(0)
    data = [torch.randint(WORDS, (700, TOKENS), generator=generator) for _ in range(2)]
    test = (data[0][:600], data[1][:600])  # more than one chunk of an evaluation
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Embedding(WORDS, 4), nn.Linear(4, WORDS))

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    def perplexity(outputs: torch.Tensor, targets: torch.Tensor) -> float:
        assert outputs.shape == (600, TOKENS, WORDS)
        return float(loss(outputs, targets).exp())

    problem = supervised(model, loss, (data[0], data[1]), 2, test=test)
    result = train(problem, "path:2", "d-sgd-1", iterations=3, metrics={"perplexity": perplexity})
    module = result.model()
    with torch.no_grad():
        expected = float(loss(module(test[0]), test[1]))
    assert result.metrics[-1]["test_loss"] == pytest.approx(expected, rel=1e-5)
    assert result.metrics[-1]["perplexity"] == pytest.approx(np.exp(expected), rel=1e-5)
    assert result.metrics[-1]["accuracy"] is None


def test_problems_without_a_model_give_x() -> None:
    result = train("ripples", "ring:3", "d-sgd-1", iterations=3, metrics={"size": lambda x: x.abs().max()})
    assert result.metrics[-1]["size"] == float(result.x_mean.abs().max())
    assert result.metrics[-1]["agent_size"] == [float(x.abs().max()) for x in result.x]
    assert "test_loss" not in result.metrics[-1]


def test_logistic_regression_has_a_test_loss() -> None:
    problem = logistic_nonconvex(agents=3, samples=60)
    result = train(problem, "ring:3", "d-sgd-1", iterations=5)
    a, b = (part.double().numpy() for part in problem.test)  # type: ignore[union-attr]
    x = result.x_mean.double().numpy()
    expected = np.log1p(np.exp(-b * (a @ x))).mean() + 0.01 * (x**2 / (1 + x**2)).sum()
    assert result.metrics[-1]["test_loss"] == pytest.approx(expected, rel=1e-5)


def fails(outputs: Any, targets: Any) -> float:
    raise KeyError("no such class")


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ({"loss": max_error}, "'loss' has the name of a column"),
        ({"agent_loss": max_error}, "begins with agent_"),
        ({"ema_f1": max_error}, "begins with agent_ or ema_"),
        ({"": max_error}, "expected a text"),
        ({3: max_error}, "expected a text"),
        ({"a": 3}, "the metric 'a' is 3: expected a function"),
        ([max_error], "expected functions by name"),
        ({"broken": fails}, "the metric 'broken' fails: KeyError: 'no such class'"),
        ({"one": lambda x: 1.0}, r"the metric 'one' fails: TypeError.*function of \(outputs, targets\)"),
        ({"text": lambda o, t: "good"}, "the metric 'text' returns 'good': expected a number"),
        ({"rows": lambda o, t: o}, "the metric 'rows' returns .*: expected a number"),
        ({"none": lambda o, t: None}, "the metric 'none' returns None: expected a number"),
    ],
)
def test_what_is_no_metric_is_refused_in_a_sentence(metrics: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        train(regression(), "ring:3", "d-sgd-1", iterations=1, metrics=metrics)
    assert "\n" not in str(caught.value)


def test_a_metric_needs_test_data_and_processes_need_a_named_function() -> None:
    with pytest.raises(InputError, match="'e' needs test data"):
        train(regression(test=False), "ring:3", "d-sgd-1", iterations=1, metrics={"e": max_error})
    with pytest.raises(InputError, match="the metric 'e' cannot be sent to other processes"):
        train(regression(), "ring:3", "d-sgd-1", iterations=1, metrics={"e": lambda o, t: 0}, workers=2)


@pytest.mark.parametrize("sizes", ["even", "uneven"])
def test_agents_are_judged_by_a_bounded_sample_of_all_shards(sizes: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peerdescent.training.evaluation.AGENT_SAMPLES", 12)
    problem = regression(agents=4, samples=80, sizes=sizes)
    result = train(problem, "ring:4", "d-sgd-1", iterations=2)
    shards = [problem.shard(i) for i in range(4)]
    inputs, targets = (np.concatenate([shard[part][:3].numpy() for shard in shards]) for part in (0, 1))
    expected = [((inputs @ x[:3, None] + x[3] - targets) ** 2).mean() for x in result.x.numpy()]
    assert result.metrics[-1]["agent_loss"] == pytest.approx(expected, rel=1e-5)
    assert result.metrics[-1]["loss"] == problem.loss(result.x_mean)  # all samples


def test_many_more_agents_do_not_mean_more_samples_for_each() -> None:
    problem = regression(agents=40, samples=400)
    judged = problem.for_agents(8)
    (_, (inputs, _)), *more = judged.data.parts(judged.evaluated)
    assert torch.equal(inputs, torch.cat([problem.shard(i)[0][:1] for i in range(0, 40, 5)]))
    assert not more


def test_the_time_of_evaluations_is_counted_apart(tmp_path: Path) -> None:
    problem, settings = regression(), {"eval_every": 5, "out": tmp_path / "a"}
    first = train(problem, "ring:3", "d-sgd-1", iterations=10, **settings).metrics  # type: ignore[arg-type]
    more = train(problem, "ring:3", "d-sgd-1", iterations=20, resume=True, **settings).metrics  # type: ignore[arg-type]
    spent = more["evaluation_seconds"]
    assert all(b > a > 0 for a, b in pairwise(spent))
    assert spent[:3] == first["evaluation_seconds"]
