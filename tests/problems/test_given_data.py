"""DataLoaders, one data set for each agent, given shards, and modules with several inputs."""

from __future__ import annotations

import warnings
from collections import namedtuple
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from tests.support.datasets import Counting, MaskedMean, Plain, Sequences, net, padded, tensors
from torch import nn
from torch.utils.data import (
    DataLoader,
    Dataset,
    SequentialSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
)

from peerdescent import InputError, Result, train
from peerdescent.data import Minibatches
from peerdescent.problems import supervised

pytestmark = pytest.mark.usefixtures("own_cache")
LOSS = nn.functional.cross_entropy


def run(problem: Any, **settings: Any) -> Result:
    return train(problem, f"ring:{problem.agents}", "d-sgd-1", **{"iterations": 4, "kernel": "plain", **settings})


def shuffled(data: Any, **options: Any) -> DataLoader[Any]:
    return DataLoader(data, **{"shuffle": True, **options})


# DataLoaders


@pytest.mark.parametrize("data", [TensorDataset(*tensors()), Plain()], ids=["tensors", "lazy"])
def test_a_loader_gives_its_data_set_and_batch_size(data: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = run(supervised(net(), LOSS, shuffled(data, batch_size=7), agents=2))
        plain = run(supervised(net(), LOSS, data, agents=2), batch_size=7)
    assert torch.equal(loaded.x, plain.x)
    assert loaded.settings.batch_size == 7


def test_another_batch_size_wins_with_a_warning() -> None:
    problem = supervised(net(), LOSS, shuffled(Plain(), batch_size=9), agents=2)
    with pytest.warns(UserWarning, match="batch_size=9, but the run uses batches of 5"):
        assert run(problem, batch_size=5).settings.batch_size == 5


def test_a_collate_fn_pads_sequences_as_a_loop_by_hand() -> None:
    """One agent, plain SGD on batches of unequal lengths."""
    model = MaskedMean()
    problem = supervised(model, LOSS, shuffled(Sequences(), batch_size=3, collate_fn=padded), agents=1)
    assert problem.preferred_strategy() == ("loop", "batches of a collate_fn may differ in shape")
    result = train(problem, "complete:1", "d-sgd-1", iterations=5, kernel="plain")
    layer, data = nn.Linear(1, 2), Sequences()
    layer.load_state_dict(model.layer.state_dict())
    eta, chosen = float(result.algorithm.eta), Minibatches([20], 3, 0)  # type: ignore[attr-defined]
    shard = problem.data.rows(0)  # type: ignore[attr-defined]
    for k in range(5):
        samples = [data[shard[i]] for i in chosen.batches(k)[0]]
        means = torch.stack([inputs.mean()[None] for inputs, _ in samples])
        loss = LOSS(layer(means), torch.tensor([label for _, label in samples]))
        gradients = torch.autograd.grad(loss, list(layer.parameters()))
        for p, g in zip(layer.parameters(), gradients, strict=True):
            p.data -= eta * g
    expected = torch.cat([p.detach().flatten() for p in layer.parameters()])
    torch.testing.assert_close(result.x[0], expected, rtol=1e-5, atol=1e-6)


def test_stacked_gradients_of_unequal_batches_are_refused() -> None:
    problem = supervised(MaskedMean(), LOSS, shuffled(Sequences(), batch_size=1, collate_fn=padded), agents=4)
    with pytest.raises(InputError, match=r"the batches of two agents differ .*; use gradients=loop or auto"):
        run(problem, iterations=20, gradients="stacked")


def test_a_loader_as_test_data_keeps_its_batches() -> None:
    sizes: list[int] = []

    def watched(samples: list[Any]) -> Any:
        sizes.append(len(samples))
        return torch.utils.data.default_collate(samples)

    for drop_last, expected in ((False, [25, 25, 14]), (True, [25, 25])):
        test = DataLoader(Plain(), batch_size=25, collate_fn=watched, drop_last=drop_last)
        problem = supervised(net(), LOSS, tensors(), agents=2, test=test)
        sizes.clear()
        inputs, labels = (part[: sum(expected)] for part in tensors())
        right = float((net()(inputs).argmax(1) == labels).double().mean())
        assert problem.accuracy(problem.start(0)[0]) == pytest.approx(right, rel=1e-12)
        assert sizes == expected


def test_options_without_effect_are_named() -> None:
    loader = DataLoader(Plain(), num_workers=2, worker_init_fn=print, generator=torch.Generator())
    with pytest.warns(UserWarning, match="without effect: shuffle=False, num_workers=2, worker_init_fn, generator"):
        supervised(net(), LOSS, loader, agents=2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        supervised(net(), LOSS, tensors(), agents=2, test=DataLoader(Plain()))


SAMPLERS: dict[str, dict[str, Any]] = {
    "SubsetRandomSampler": {"sampler": SubsetRandomSampler([1, 2])},
    "WeightedRandomSampler": {"sampler": WeightedRandomSampler([1.0] * 64, 64)},
    "batch_sampler": {"batch_sampler": torch.utils.data.BatchSampler(SequentialSampler(Plain()), 4, False)},
    "batch_size=None": {"batch_size": None},
}


@pytest.mark.parametrize("word", SAMPLERS)
def test_samplers_that_choose_samples_are_refused(word: str) -> None:
    with pytest.raises(InputError, match=f"data is a DataLoader with .*{word}"):
        supervised(net(), LOSS, DataLoader(Plain(), **SAMPLERS[word]), agents=2)


def failing(samples: list[Any]) -> Any:
    raise KeyError("pixel_values")


@pytest.mark.parametrize(
    ("collate", "words"),
    [
        (failing, "a batch of the collate_fn failing cannot be read: KeyError: 'pixel_values'"),
        (lambda samples: {"x": 1}, "a batch of the collate_fn <lambda> has no inputs and targets, it is a dict"),
        (lambda samples: (["text"], 0), r"data\[0\] is \['text'\], which cannot become a tensor"),
    ],
)
def test_a_wrong_collate_fn_is_one_sentence(collate: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        supervised(net(), LOSS, shuffled(Plain(), collate_fn=collate), agents=2)


# One data set for each agent, and given shards


def parts_of(kind: str) -> list[Any]:
    inputs, labels = tensors()
    cuts = [slice(0, 20), slice(20, 44), slice(44, 64)]
    if kind == "tensors":
        return [(inputs[cut], labels[cut]) for cut in cuts]
    if kind == "arrays":
        return [(inputs[cut].numpy(), labels[cut].numpy()) for cut in cuts]
    whole: Dataset[Any] = TensorDataset(inputs, labels) if kind == "subsets" else Plain()
    subsets = [Subset(whole, range(64)[cut]) for cut in cuts]
    if kind == "mixed":
        return [subsets[0], (inputs[cuts[1]], labels[cuts[1]]), subsets[2]]
    return [shuffled(part, batch_size=20) for part in subsets] if kind == "loaders" else list(subsets)


@pytest.mark.parametrize("kind", ["tensors", "arrays", "subsets", "lazy", "mixed", "loaders"])
def test_one_data_set_for_each_agent_is_given_shards(kind: str) -> None:
    shards = [range(20), np.arange(20, 44), list(range(44, 64))]
    expected = run(supervised(net(), LOSS, tensors(), shards=shards), batch_size=20)
    problem = supervised(net(), LOSS, parts_of(kind), test=parts_of(kind))
    assert problem.sizes == [20, 24, 20]
    result = run(problem, batch_size=20)
    assert torch.equal(result.x, expected.x)
    inputs, labels = tensors()
    right = float((result.model()(inputs).argmax(1) == labels).double().mean())  # type: ignore[misc]
    assert result.metrics[-1]["accuracy"] == pytest.approx(right)


@hypothesis_settings(max_examples=40)
@given(st.lists(st.lists(st.integers(-2, 66), max_size=5), max_size=4), st.booleans())
def test_given_shards(shards: list[list[int]], lazy: bool) -> None:
    """Any lists of numbers of samples, also with repetitions; otherwise one sentence."""
    data: Any = Plain() if lazy else tensors()
    good = bool(shards) and all(shards) and all(0 <= i < 64 for shard in shards for i in shard)
    if not good:
        with pytest.raises(InputError, match="shards"):
            supervised(net(), LOSS, data, shards=shards)
        return
    problem = supervised(net(), LOSS, data, shards=shards)
    assert problem.sizes == list(map(len, shards))
    inputs, labels = tensors()
    for agent, shard in enumerate(shards):
        few = problem.data.few(agent, len(shard))
        assert torch.equal(few[0], inputs[shard])
        assert torch.equal(few[1], labels[shard])


@pytest.mark.parametrize(
    ("data", "options", "words"),
    [
        (tensors(), {"shards": [[0], [1]], "agents": 3}, "agents = 3, but there are 2 shards"),
        (tensors(), {"shards": [[0], [1]], "partition": "iid"}, "shards says .*, so partition would have no effect"),
        (tensors(), {"shards": "text"}, "shards is 'text'"),
        (tensors(), {"shards": [[0.5]]}, "expected one list of sample indices per agent"),
        (tensors(), {"shards": {0: [1]}}, "shards is {0: "),
        ([Plain(), Plain()], {"agents": 3}, "agents = 3, but there are 2 data sets"),
        ([Plain(), Plain()], {"seed": 1}, "data has one data set for each agent, so seed would have no effect"),
        ([Plain(), Plain()], {"shards": [[0], [1]]}, "so shards would have no effect"),
        ([Plain(), Counting()], {}, "data has streams .* and other data sets"),
        ([shuffled(Plain(), batch_size=b) for b in (3, 4)], {}, "batch sizes 3, 4"),
        (
            [tensors(), (torch.ones(3, 9), torch.ones(3))],
            {},
            r"data\[1\] and data\[0\] have samples of different shapes",
        ),
        ([Plain(), TensorDataset(torch.ones(2, 4))], {}, r"data\[1\] is a TensorDataset of 1 tensors"),
    ],
)
def test_wrong_lists_and_shards(data: Any, options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words) as raised:
        supervised(net(), LOSS, data, **options)
    assert "\n" not in str(raised.value)


# Modules with several inputs


class Embedding(nn.Module):
    """Tokens and weights in, two numbers out."""

    def __init__(self) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.table, self.layer = nn.Embedding(6, 4), nn.Linear(4, 2)

    def forward(self, ids: torch.Tensor, weights: torch.Tensor) -> Any:
        assert ids.dtype == torch.int64
        mean = (self.table(ids) * weights[..., None]).mean(dim=-2)
        return Outputs(self.layer(mean), mean)


Outputs = namedtuple("Outputs", "logits mean")


def loss_of(outputs: Outputs, targets: Any) -> torch.Tensor:
    """Targets are a dict: the loss gets it as it is."""
    return LOSS(outputs.logits, targets["label"]) + (outputs.mean.sum(-1) - targets["sum"][0]).square().mean()


IDS = torch.randint(6, (24, 3), generator=torch.Generator().manual_seed(0))
WEIGHTS = torch.rand(24, 3, generator=torch.Generator().manual_seed(1))
TARGETS = {"label": torch.arange(24) % 2, "sum": (torch.linspace(0, 1, 24),)}


class Tokens(Dataset[Any]):
    """Samples with several inputs, as a dict or as a tuple."""

    def __init__(self, named: bool) -> None:
        self.named = named

    def __len__(self) -> int:
        return 24

    def __getitem__(self, i: int) -> Any:
        targets = {"label": TARGETS["label"][i], "sum": (TARGETS["sum"][0][i],)}
        if self.named:
            return {"weights": WEIGHTS[i], "ids": IDS[i].numpy()}, targets
        return (IDS[i], WEIGHTS[i]), targets


FORMS: dict[str, Any] = {
    "tuple of tensors": ((IDS, WEIGHTS), TARGETS),
    "dict of tensors": ({"ids": IDS, "weights": WEIGHTS}, TARGETS),
    "dict of arrays": ({"ids": IDS.numpy(), "weights": WEIGHTS.numpy()}, TARGETS),
    "Dataset of tuples": Tokens(named=False),
    "Dataset of dicts": Tokens(named=True),
    "loader": shuffled(Tokens(named=True), batch_size=5),
}


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("gradients", ["loop", "stacked"])
@pytest.mark.parametrize("form", FORMS)
def test_several_inputs_as_in_a_loop_by_hand(form: str, gradients: str, dtype: str) -> None:
    shards = [list(range(0, 12)), list(range(12, 24))]
    problem = supervised(Embedding(), loss_of, FORMS[form], shards=shards, test=FORMS[form])
    result = run(problem, batch_size=5, gradients=gradients, dtype=dtype)
    precision = torch.float64 if dtype == "float64" else torch.float32
    eta, chosen = float(result.algorithm.eta), Minibatches([12, 12], 5, 0)  # type: ignore[attr-defined]
    models = [Embedding().to(precision) for _ in range(2)]
    for k in range(4):
        gradients_of = []
        for i, model in enumerate(models):
            rows = torch.tensor([shards[i][j] for j in chosen.batches(k)[i]])
            targets = {"label": TARGETS["label"][rows], "sum": (TARGETS["sum"][0][rows].to(precision),)}
            value = loss_of(model(IDS[rows], WEIGHTS[rows].to(precision)), targets)
            gradients_of.append(torch.autograd.grad(value, list(model.parameters())))
        mixed = [(a.detach() + b.detach()) / 2 for a, b in zip(*(m.parameters() for m in models), strict=True)]
        for model, own in zip(models, gradients_of, strict=True):
            for p, mean, g in zip(model.parameters(), mixed, own, strict=True):
                p.data = mean - eta * g
    expected = torch.stack([torch.cat([p.detach().flatten() for p in model.parameters()]) for model in models])
    torch.testing.assert_close(result.x, expected, rtol=1e-5, atol=1e-6)
    value = loss_of(
        models[0](IDS[:12], WEIGHTS[:12].to(precision)),
        {"label": TARGETS["label"][:12], "sum": (TARGETS["sum"][0][:12].to(precision),)},
    )
    assert torch.isfinite(value)
    assert result.metrics[-1]["accuracy"] is None


def test_numbers_in_a_list_are_one_input() -> None:
    class Lists(Dataset[Any]):
        def __len__(self) -> int:
            return 4

        def __getitem__(self, i: int) -> Any:
            return [float(i), 1.0, 2.0, 3.0], i % 3

    problem = supervised(net(), LOSS, Lists(), agents=2)
    inputs, labels = problem.data.few(0, 2)
    assert inputs.shape == (2, 4)
    assert labels.dtype == torch.int64


@pytest.mark.parametrize("option", ["partition", "sizes", "seed", "agents"])
def test_an_array_in_place_of_an_option_is_refused(option: str) -> None:
    data: Any = torch.randn(12, 3), torch.arange(12) % 2
    options: Any = {option: np.array([1, 2])}
    with pytest.raises(InputError, match=option):
        supervised(nn.Linear(3, 2), nn.functional.cross_entropy, data, **options)
