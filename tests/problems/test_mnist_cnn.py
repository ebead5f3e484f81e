"""The convolutional problem, on random images instead of MNIST."""

import numpy as np
import pytest
import torch
from torch.func import functional_call

from peerdescent.data import Split
from peerdescent.errors import InputError
from peerdescent.problems import MnistCNN, convolutional_net, mnist_cnn

DOUBLE = (torch.device("cpu"), torch.float64)


@pytest.fixture(autouse=True)
def _random_images(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    images, labels = random.random((120, 28, 28), dtype=np.float32), random.integers(0, 10, 120)
    split = Split(images[:100], labels[:100], images[100:], labels[100:])
    monkeypatch.setattr(mnist_cnn, "mnist_full", lambda: split)


def test_the_code_reading_has_the_papers_size() -> None:
    assert MnistCNN(agents=5).dimension == 326_880
    assert convolutional_net("text")(torch.zeros(2, 1, 28, 28)).shape == (2, 10)


@pytest.mark.parametrize("reading", ["code", "text"])
def test_stacked_gradients_are_autograds(reading: str) -> None:
    problem = MnistCNN(agents=4, reading=reading).to(*DOUBLE)
    points = problem.start(0)
    stacked, looped = torch.empty_like(points), torch.empty_like(points)
    for strategy, out in (("stacked", stacked), ("loop", looped)):
        problem.oracle(5, 0, True, range(4), strategy)(points, 3, out)
    torch.testing.assert_close(stacked, looped, rtol=1e-9, atol=1e-12)


def test_each_row_is_the_gradient_of_its_own_agents_batch() -> None:
    problem = MnistCNN(agents=2).to(*DOUBLE)
    points, out = problem.start(0), torch.empty(2, problem.dimension, dtype=torch.float64)
    problem.oracle(None, 0, True, range(2))(points, 0, out)
    for i in range(2):
        row = points[i].clone().requires_grad_()
        inputs, labels = problem.shard(i)
        outputs = functional_call(convolutional_net().double(), problem.unflatten(row), (inputs,))
        (expected,) = torch.autograd.grad(torch.nn.functional.cross_entropy(outputs, labels), row)
        torch.testing.assert_close(out[i], expected, rtol=1e-9, atol=1e-12)


def test_starts_differ_by_agent_or_are_shared_and_biases_are_zero() -> None:
    own, shared = MnistCNN(agents=3).start(1), MnistCNN(agents=3, start="shared").start(1)
    assert not torch.equal(own[0], own[1])
    assert torch.equal(shared[0], shared[2])
    parts = MnistCNN(agents=3).unflatten(own[0])
    assert all(not part.any() for name, part in parts.items() if name.endswith("bias"))
    limit = (6 / (845 + 360)) ** 0.5
    assert 0.98 * limit < float(parts["dense1.weight"].abs().max()) <= limit
    assert 0.03 < float(parts["conv1.weight"].std()) < 0.2


def test_loss_is_measured_on_an_equal_number_of_every_agents_samples() -> None:
    some, every = MnistCNN(agents=4, evaluated=40), MnistCNN(agents=4, evaluated=0)
    x = some.start(0)[0]
    expected = [float(some.mean_loss(x, *(part[:10] for part in some.shard(i)))) for i in range(4)]
    assert some.loss(x) == pytest.approx(np.mean(expected), rel=1e-5)
    assert every.loss(x) == pytest.approx(
        np.mean([float(every.mean_loss(x, *every.shard(i))) for i in range(4)]), rel=1e-5
    )
    assert some.gradient(x).shape == (326_880,)


@pytest.mark.parametrize(("option", "value"), [("reading", "tea"), ("start", "warm")])
def test_unknown_options_are_refused(option: str, value: str) -> None:
    with pytest.raises(InputError, match=f"{option} = '{value}': expected one of"):
        MnistCNN(**{option: value})
