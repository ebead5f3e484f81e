"""The problems on real data sets, here on small files of the same formats: sizes, starts, partitions, training."""

import numpy as np
import pytest
import torch
from tests.support import tiny_mnist
from tests.support.tiny_mnist import put
from tests.support.tiny_sets import tiny_adult, tiny_cifar, tiny_plays
from torch import nn

from peerdescent import InputError, algorithms, problems, train
from peerdescent.data import Speech, Split, datasets
from peerdescent.problems import (
    CharacterTransformer,
    ResNet,
    char_transformer,
    cifar10_resnet,
    logistic_nonconvex,
    mlp,
    perceptron,
    pictures,
    texts,
)
from peerdescent.problems.texts import encoded

isolated_environment = tiny_mnist.isolated_environment  # a fixture of this file
WORDS = "It is a tale told by an idiot, full of sound and fury, signifying nothing. "


@pytest.fixture
def tiny(tmp_path, monkeypatch):
    """Small files in place of the data sets."""
    cifar, content, _ = tiny_cifar()
    made = [(cifar, content), tiny_adult(), tiny_plays(40)]
    for dataset, files in made:
        monkeypatch.setitem(datasets.DATASETS, dataset.name, dataset)
        put(tmp_path / "given", files)
    monkeypatch.setenv("PEERDESCENT_DATA", str(tmp_path / "given"))
    people = {"A": ("Whig", 9), "B": ("Whig", 7), "C": ("none", 5), "D": ("none", 3), "E": ("none", 1)}
    said = {name: [Speech(1800, name, party, WORDS * length)] for name, (party, length) in people.items()}
    monkeypatch.setattr(texts, "sotu", lambda: said)


# Networks


def test_the_networks_have_the_sizes_that_the_registry_says():
    for options in ({"blocks": 2}, {"width": 8}):
        assert problems.dimension("cifar10-resnet", 3, **options) == _count(ResNet(**options))
    for options in ({"width": 8, "heads": 2}, {"layers": 1, "context": 9}):
        assert problems.dimension("char-transformer", 3, **options) == _count(CharacterTransformer(**options))
    assert problems.dimension("mlp", 3, source="wine", hidden=7) == _count(perceptron([13, 7, 3]))
    assert problems.dimension("logistic-nonconvex", 3, source="adult") == 105


def _count(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())


def test_a_character_does_not_see_those_after_it():
    torch.manual_seed(0)
    model = CharacterTransformer(width=8, layers=2, heads=2, context=6)
    text = torch.randint(95, (1, 6))
    changed = text.clone()
    changed[0, 4] = (text[0, 4] + 1) % 95
    with torch.no_grad():
        before, after = model(text), model(changed)
    torch.testing.assert_close(before[0, :4], after[0, :4])
    assert not torch.allclose(before[0, 4], after[0, 4])


def test_the_residual_network_has_no_running_statistics_and_halves_the_picture_twice():
    model = ResNet(blocks=2, width=8)
    assert not list(model.buffers())
    assert model.stages(model.stem(torch.zeros(1, 3, 32, 32))).shape == (1, 32, 8, 8)
    convolutions = [m for m in model.modules() if isinstance(m, nn.Conv2d) and m.kernel_size == (3, 3)]
    assert len(convolutions) + 1 == 6 * 2 + 2


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ResNet(width=12), "width = 12: expected a multiple of 8"),
        (lambda: ResNet(blocks=0), "blocks is 0"),
        (lambda: CharacterTransformer(width=10, heads=4), "width = 10: expected a multiple of heads = 4"),
        (lambda: mlp(source="boston"), "source = 'boston': expected one of digits"),
        (lambda: mlp(agents=4, source="iris", evaluated=3), "evaluated = 3: expected 0, or at least one sample"),
        (lambda: mlp(agents=4, source="iris", partition="by:job"), "these data have no 'job' and no other groups"),
        (lambda: problems.make("mlp", 4, hidden=10**15), "hidden is|memory"),
        (lambda: problems.make("char-transformer", 4, width=10**15), "width is"),
        (lambda: char_transformer(source="bible"), "source = 'bible'"),
        (
            lambda: char_transformer(agents=3, speakers=6, context=16),
            "speakers = 6: expected at most 4, who say enough",
        ),
        (
            lambda: char_transformer(agents=5, partition="by:speaker", context=16),
            "there are only 4 groups for 5 agents",
        ),
        (lambda: cifar10_resnet(samples=50_001), "samples is 50001"),
    ],
)
@pytest.mark.usefixtures("tiny")
def test_wrong_options_are_one_sentence(call, message):
    with pytest.raises(InputError, match=message):
        call()


# Starts and random numbers


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("name", ["mlp", "cifar10-resnet", "char-transformer"])
def test_starts_are_a_function_of_the_seed_alone(name):
    torch.manual_seed(1)
    problem, state = problems.make(name, 2), torch.get_rng_state()
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    again = problems.make(name, 2)
    assert torch.equal(problem.start(5), again.start(5))
    assert torch.equal(problem.start(5)[0], problem.start(5)[1])
    assert not torch.equal(problem.start(5), problem.start(6))
    own = problems.make(name, 2, start="independent").start(5)
    assert not torch.equal(own[0], own[1])


# Data


def test_the_fifth_for_testing_does_not_enter_the_scale():
    problem = mlp(agents=4, source="wine")
    inputs = problem.inputs
    np.testing.assert_allclose(inputs.mean(dim=0), torch.zeros(13), atol=1e-5)
    np.testing.assert_allclose(inputs.std(dim=0, correction=0), torch.ones(13), atol=1e-5)
    assert (len(inputs), len(problem.test[1])) == (143, 35)


@pytest.mark.usefixtures("tiny")
def test_people_are_split_by_occupation():
    problem = logistic_nonconvex(agents=3, source="adult", partition="by:occupation")
    assert problem.sizes == [16, 16, 8]
    assert len(problem.test[1]) == 2
    assert problem.dimension == problem.inputs.shape[1]
    assert problem.inputs[:, 0].tolist() == [1.0] * 40
    column = [problem.shard(i)[0].unique(dim=0) for i in range(3)]
    assert len(column) == 3
    assert mlp(agents=3, source="adult", partition="by:occupation").sizes == [16, 16, 8]


@pytest.mark.usefixtures("tiny")
def test_every_agent_reads_one_speaker():
    problem = char_transformer(agents=3, partition="by:speaker", context=16, evaluated=0)
    lengths = [int(0.9 * n * len(WORDS)) for n in (9, 7, 5)]
    assert problem.sizes == [len(range(0, length - 16, 16)) for length in lengths]
    inputs, following = problem.shard(0)
    assert torch.equal(inputs[:, 1:], following[:, :-1])
    passages = {"".join(chr(32 + c) for c in row) for row in inputs.tolist()}
    assert all(passage in WORDS * 9 for passage in passages)
    assert char_transformer(agents=2, partition="by:party", speakers=4, context=16).sizes[0] > 0


@pytest.mark.usefixtures("tiny")
def test_every_agent_reads_one_role():
    problem = char_transformer(agents=1, source="shakespeare", partition="by:role", context=8)
    assert problem.agents == 1
    assert char_transformer(agents=1, source="shakespeare", partition="by:play", context=8).sizes == problem.sizes


def test_unknown_characters_are_read_as_a_space():
    assert encoded("Aé\tz").tolist() == [33, 0, 0, 90]


# Training


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize(
    ("problem", "options"),
    [
        ("mlp", {"hidden": 16}),
        ("mlp", {"source": "diabetes", "hidden": 8}),
        ("mlp", {"source": "adult", "hidden": 8}),
        ("logistic-nonconvex", {"source": "adult"}),
        ("cifar10-resnet", {"width": 8, "samples": 9}),
        ("char-transformer", {"context": 8, "width": 8, "heads": 2, "layers": 1}),
    ],
    ids=lambda value: value if isinstance(value, str) else value.get("source", ""),
)
def test_the_loss_goes_down(problem, options):
    made = problems.make(problem, 3, **options)
    result = train(
        made, "ring:3", algorithms.make("d-sgd-1", eta=0.1), iterations=20, batch_size=4, eval_every=20, per_agent=False
    )
    losses = result.metrics["loss"]
    assert losses[-1] < losses[0]
    assert np.isfinite(result.metrics["test_loss"][-1])


def test_fashion_mnist_is_a_perceptron_on_pictures(monkeypatch):
    random = np.random.default_rng(0)
    images, labels = random.random((40, 28, 28), dtype=np.float32), random.integers(0, 10, 40)
    monkeypatch.setattr(pictures, "fashion_mnist", lambda: Split(images[:30], labels[:30], images[30:], labels[30:]))
    problem = mlp(agents=3, source="fashion-mnist", hidden=12)
    assert (problem.dimension, problem.sizes) == (785 * 12 + 13 * 10, [10, 10, 10])
    assert problem.accuracy(problem.start(0)[0]) is not None


def test_the_data_set_of_a_problem_is_known_before_it_is_made():
    assert problems.dataset("mnist-cnn") == "mnist"
    assert problems.dataset("char-transformer", source="shakespeare") == "shakespeare"
    assert problems.dataset("logistic-nonconvex") is None
    assert problems.dataset("mlp") == "digits"
