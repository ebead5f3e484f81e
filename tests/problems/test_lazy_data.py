"""Datasets that are read as needed: the same run as with tensors, live augmentation, one seed one trajectory."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.datasets import FEATURES, Augmented, Plain, net, tensors
from torch import nn
from torch.utils.data import ConcatDataset, Subset, TensorDataset

from peerdescent import InputError, Result, train
from peerdescent.data import Minibatches
from peerdescent.problems import size_of, supervised

pytestmark = pytest.mark.usefixtures("own_cache")
LOSS = nn.functional.cross_entropy


def run(data: Any, settings: dict[str, Any] | None = None, **options: Any) -> Result:
    problem = supervised(net(), LOSS, data, **{"agents": 4, **options})
    return train(
        problem,
        "ring:4",
        "d-sgt-1",
        **{"iterations": 8, "batch_size": 4, "eval_every": 4, "kernel": "plain", **(settings or {})},
    )


@pytest.mark.parametrize("gradients", ["stacked", "loop"])
@pytest.mark.parametrize("partition", ["iid", "label", "dirichlet:0.5"])
def test_a_dataset_gives_the_run_of_its_tensors(partition: str, gradients: str) -> None:
    settings = {"gradients": gradients, "replacement": partition == "iid", "batch_size": 2}
    lazy = run(Plain(), settings, partition=partition, test=Plain())
    loaded = run(tensors(), settings, partition=partition, test=tensors())
    assert torch.equal(lazy.x, loaded.x)
    for one, other in zip(lazy.metrics, loaded.metrics, strict=True):
        assert one["accuracy"] == other["accuracy"]
        assert one["loss"] == pytest.approx(other["loss"], rel=1e-6)


def test_whole_shards_and_double_precision() -> None:
    settings = {"batch_size": 0, "dtype": "float64"}
    torch.testing.assert_close(run(Plain(), settings).x, run(tensors(), settings).x, rtol=1e-12, atol=1e-12)


def test_only_the_samples_of_the_batches_are_read() -> None:
    data = Plain(64)
    problem = supervised(net(), LOSS, data, agents=4)
    oracle = problem.oracle(3, 0, True, range(4), "loop")
    data.read.clear()
    points = problem.start(0)
    oracle(points, 5, torch.empty_like(points))
    assert len(data.read) == 12
    assert not hasattr(problem, "inputs")


def test_tensor_datasets_are_in_memory() -> None:
    inputs, labels = tensors()
    rows = list(range(0, 64, 2))
    data = Subset(Subset(TensorDataset(inputs, labels), range(64)), rows)
    problem = supervised(net(), LOSS, data, shards=[range(32)])
    assert torch.equal(problem.inputs, inputs[rows])
    assert torch.equal(problem.targets, labels[rows])


class Drawing(Augmented):
    """Keeps what it drew."""

    def __init__(self) -> None:
        super().__init__()
        self.drawn: list[torch.Tensor] = []

    def __getitem__(self, i: int) -> Any:
        sample = super().__getitem__(i)
        self.drawn.append(sample[0])
        return sample


def drawn(k: int, seed: int = 0, agents: range = range(4)) -> list[torch.Tensor]:
    """The augmented samples of an iteration, on shards of one sample each, so that only the draws differ."""
    data = Drawing()
    problem = supervised(net(), LOSS, data, shards=[[7]] * 4)
    oracle = problem.oracle(1, seed, True, agents, "loop")
    points = problem.start(0)[agents.start : agents.stop]
    data.drawn.clear()
    oracle(points, k, torch.empty_like(points))
    return data.drawn


def test_augmentation_is_live_and_a_function_of_seed_agent_and_iteration() -> None:
    reference = drawn(k=3)
    assert len({tuple(a.tolist()) for a in (*reference, *drawn(k=4), *drawn(k=3, seed=1))}) == 12
    assert all(map(torch.equal, reference, drawn(k=3)))
    assert all(map(torch.equal, reference[2:], drawn(k=3, agents=range(2, 4))))


def test_the_global_generators_are_as_before() -> None:
    torch.manual_seed(5)
    random.seed(5)
    np.random.seed(5)  # noqa: NPY002
    before = torch.get_rng_state(), random.getstate(), str(np.random.get_state(legacy=False))  # noqa: NPY002
    first = run(Augmented(), test=Augmented(), partition="label")
    assert torch.equal(torch.get_rng_state(), before[0])
    assert (random.getstate(), str(np.random.get_state(legacy=False))) == before[1:]  # noqa: NPY002
    torch.manual_seed(6)
    random.seed(6)
    np.random.seed(6)  # noqa: NPY002
    again = run(Augmented(), test=Augmented(), partition="label")
    assert torch.equal(first.x, again.x)
    assert [row["loss"] for row in first.metrics] == [row["loss"] for row in again.metrics]
    assert not torch.equal(first.x, run(tensors(), partition="label").x)


def test_draws_of_the_model_are_those_with_tensors() -> None:
    def dropped(data: Any) -> torch.Tensor:
        problem = supervised(nn.Sequential(nn.Dropout(0.5), net()), LOSS, data, agents=2)
        return train(problem, "ring:2", "d-sgd-1", iterations=5, batch_size=4, kernel="plain").x

    assert torch.equal(dropped(Plain()), dropped(tensors()))


def test_evaluations_always_draw_the_same() -> None:
    problem = supervised(net(), LOSS, Augmented(), agents=4)
    x = problem.start(0)[0]
    other = supervised(net(), LOSS, Augmented(), agents=4)
    torch.rand(3)
    assert problem.loss(x) == problem.loss(x) == other.loss(x)
    assert torch.equal(problem.gradient(x), other.gradient(x))


def test_a_resumed_run_has_the_same_bits(tmp_path: Path) -> None:
    whole = run(Augmented(), {"iterations": 9})
    run(Augmented(), {"iterations": 5, "out": tmp_path / "a"})
    resumed = run(Augmented(), {"iterations": 9, "out": tmp_path / "a", "resume": True})
    assert torch.equal(whole.x, resumed.x)


def test_large_evaluations_are_read_again_and_small_ones_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    data = Plain()
    problem = supervised(net(), LOSS, data, agents=4)
    x = problem.start(0)[0]
    expected = problem.loss(x)
    data.read.clear()
    assert problem.loss(x) == expected
    assert not data.read
    monkeypatch.setattr("peerdescent.data.lazy.KEPT_BYTES", 100)
    large = problem.to(torch.device("cpu"), torch.float32)
    assert large.loss(x) == large.loss(x) == expected
    assert len(data.read) == 128


def test_evaluated_is_the_loss_on_the_first_samples_of_each_agent() -> None:
    inputs, labels = tensors()
    shards = [range(10), range(20, 50)]
    for data in (Plain(), (inputs, labels)):
        problem = supervised(net(), LOSS, data, shards=shards, evaluated=6)
        x = problem.start(0)[0]
        own = torch.stack([LOSS(net()(inputs[s[:3]]), labels[s[:3]]) for s in shards])
        assert problem.loss(x) == pytest.approx(float(own.detach().mean()), rel=1e-6)
    with pytest.raises(InputError, match="evaluated = 1: expected at least one sample for each of 2 agents"):
        supervised(net(), LOSS, Plain(), shards=shards, evaluated=1)


class WithTargets(Plain):
    """Labels as torchvision's data sets have them; a sample must not be read for them."""

    def __init__(self) -> None:
        super().__init__()
        self.targets = self.classes.tolist()


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Subset(d, range(63, -1, -1)), lambda d: ConcatDataset([d, d])])
def test_labels_come_from_an_attribute_or_from_the_samples(wrap: Any) -> None:
    parts = []
    for data in (WithTargets(), Plain()):
        problem = supervised(net(), LOSS, wrap(data), agents=3, partition="label")
        parts.append([problem.data.rows(i) for i in range(3)])  # type: ignore[attr-defined]
        assert (len(data.read) < 10) == isinstance(data, WithTargets)
    assert parts[0] == parts[1]
    whole = wrap(Plain())
    labels = [whole[i][1] for rows in parts[0] for i in rows]
    assert labels == sorted(labels)
    assert sorted(i for rows in parts[0] for i in rows) == list(range(len(whole)))


class Regression(Plain):
    def __getitem__(self, i: int) -> Any:
        return super().__getitem__(i)[0], 0.5


def test_a_partition_by_label_needs_labels() -> None:
    with pytest.raises(InputError, match="target of sample 0 of Regression is not one whole number: use 'iid'"):
        supervised(net(1), nn.functional.mse_loss, Regression(), agents=2, partition="label")


class OwnGenerator(Plain):
    def __init__(self) -> None:
        super().__init__()
        self.generator = np.random.default_rng(0)

    def __getitem__(self, i: int) -> Any:
        return super().__getitem__(i)[0] + self.generator.standard_normal(), 0


def test_a_generator_that_no_seed_controls_is_refused() -> None:
    with pytest.raises(InputError, match="OwnGenerator gives other samples when it is read again with equal seeds"):
        supervised(net(), LOSS, OwnGenerator(), agents=2)


class Broken(Plain):
    """Whatever goes wrong later than in the first samples."""

    def __init__(self, wrong: Any) -> None:
        super().__init__()
        self.wrong = wrong

    def __getitem__(self, i: int) -> Any:
        sample = super().__getitem__(i)
        if i < 60:
            return sample
        if isinstance(self.wrong, Exception):
            raise self.wrong
        return self.wrong


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (OSError("gone"), "data: the Dataset Broken cannot be read: OSError: gone"),
        ((torch.ones(FEATURES + 1), 0), r"sample 6\d has shape \(5,\) and sample .* DataLoader with a collate_fn"),
        (((torch.ones(FEATURES), torch.ones(1)), 0), "a tuple of 2 and sample"),
        ((torch.full((FEATURES,), torch.nan), 0), "contain NaN"),
        ((torch.full((FEATURES,), 1e300, dtype=torch.float64), 0), "contain infinite numbers"),
        ((torch.ones(FEATURES), 0, 1), "a sample of Broken has 3 parts"),
        ({"x": 1}, "a sample of Broken has no inputs and targets, it is a dict"),
    ],
)
def test_what_goes_wrong_during_the_run_is_one_sentence(wrong: Any, words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        run(Broken(wrong), {"batch_size": 0})
    assert "\n" not in str(raised.value)


def test_lost_agents_leave_the_others_their_samples_and_draws() -> None:
    whole = supervised(net(), LOSS, Augmented(), agents=4).to(torch.device("cpu"), torch.float32)
    part = whole.subset([1, 3])
    points = whole.start(0)
    every, own = torch.empty_like(points), torch.empty_like(points[:2])
    whole.oracle(4, 0, True, range(4), "loop")(points, 2, every)
    part.oracle(4, 0, True, range(2), "loop")(points[:2], 2, own)
    torch.testing.assert_close(own, every[[1, 3]], rtol=1e-6, atol=1e-7)


def test_sizes_and_the_estimate_of_memory() -> None:
    lazy, loaded = (supervised(net(), LOSS, data, agents=4) for data in (Plain(), tensors()))
    assert size_of(lazy) == size_of(loaded)
    assert lazy.sizes == loaded.sizes


def test_independent_of_the_library_a_step_is_a_step() -> None:
    """One agent, plain SGD by hand on the samples that Minibatches names."""
    problem = supervised(net(), LOSS, Plain(), agents=1)
    result = train(problem, "complete:1", "d-sgd-1", iterations=3, batch_size=5, seed=2, kernel="plain")
    model, (inputs, labels) = net(), tensors()
    eta = float(result.algorithm.eta)  # type: ignore[attr-defined]
    chosen = Minibatches([64], 5, seed=2)
    shard = problem.data.rows(0)  # type: ignore[attr-defined]
    for k in range(3):
        rows = [shard[i] for i in chosen.batches(k)[0]]
        loss = LOSS(model(inputs[rows]), labels[rows])
        for p, g in zip(model.parameters(), torch.autograd.grad(loss, list(model.parameters())), strict=True):
            p.data -= eta * g
    expected = torch.cat([p.detach().flatten() for p in model.parameters()])
    torch.testing.assert_close(result.x[0], expected, rtol=1e-5, atol=1e-6)


def test_every_sample_counts_in_an_evaluation_of_uneven_shards() -> None:
    inputs, labels = tensors(60)
    problem = supervised(net(), LOSS, Plain(60), shards=[range(50), range(50, 60)])
    expected = (LOSS(net()(inputs[:50]), labels[:50]) + LOSS(net()(inputs[50:]), labels[50:])) / 2
    assert problem.loss(problem.start(0)[0]) == pytest.approx(float(expected.detach()), rel=1e-6)
