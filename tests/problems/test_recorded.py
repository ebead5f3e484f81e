"""Gradients replayed from a recording have the bits of the original, and what cannot be recorded is not."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch import nn

from peerdescent import train
from peerdescent.problems import Supervised, recorded, supervised

pytestmark = pytest.mark.usefixtures("own_cache")
CPU = torch.device("cpu")
Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Residual(nn.Module):
    """A buffer, a frozen and an unused parameter, a shared one, and indexing by integers."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.norm, self.unused = nn.Linear(6, 6), nn.LayerNorm(6), nn.Linear(2, 2)
        self.frozen = nn.Parameter(torch.rand(6), requires_grad=False)
        self.register_buffer("order", torch.tensor([2, 0, 1]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.norm(self.frozen * torch.tanh(self.shared(x)) + x)
        shuffled: torch.Tensor = self.shared(y)[:, :3][:, self.order]
        return shuffled


class Branching(nn.Module):
    """Its branch depends on the minibatch."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = self.layer(x)
        return y if float(x.sum()) > 0 else -2 * y


def masked(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """How many outputs it averages depends on the minibatch."""
    return outputs[outputs > 0].mean() + nn.functional.cross_entropy(outputs, targets)


def dense() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.GELU(), nn.Linear(8, 3))


def pooled() -> nn.Module:
    grown = nn.Unflatten(1, (1, 2, 3)), nn.Upsample(scale_factor=11), nn.Conv2d(1, 8, 3)
    return nn.Sequential(*grown, nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 10 * 15, 3))


def of(module: nn.Module, loss: Loss = nn.functional.cross_entropy, dtype: torch.dtype = torch.float32) -> Supervised:
    random = torch.Generator().manual_seed(1)
    data = torch.randn(60, 6, generator=random), torch.randint(3, (60,), generator=random)
    problem = supervised(module, loss, data, agents=3).to(CPU, dtype)
    assert isinstance(problem, Supervised)
    return problem


def trajectory(problem: Supervised, strategy: str, iterations: int = 8) -> torch.Tensor:
    oracle, x = problem.oracle(5, 0, True, range(3), strategy), problem.start(0)
    out, gradients = torch.empty_like(x), []
    for k in range(iterations):
        oracle(x, k, out)
        gradients.append(out.clone())
        x -= 0.1 * out
    return torch.stack(gradients)


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recorded, "CALLS", 3)


@pytest.mark.parametrize("strategy", ["stacked", "loop"])
@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.e2e)])
@pytest.mark.parametrize("make", [dense, Residual, pooled])
def test_a_replay_has_the_bits_of_the_original(
    make: Callable[[], nn.Module], dtype: torch.dtype, strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = make()
    original = trajectory(of(module, dtype=dtype), strategy)
    monkeypatch.setattr(recorded, "CALLS", 3)
    problem = of(module, dtype=dtype)
    calls: list[int] = []
    module_in_use = problem._module
    module_in_use.register_forward_hook(lambda *_: calls.append(1))
    assert torch.equal(trajectory(problem, strategy), original)
    before = len(calls)
    assert torch.equal(trajectory(problem, strategy), original)
    assert len(calls) == before, "the module was called, so nothing was replayed"


@pytest.mark.parametrize(
    ("module", "loss"), [(Branching(), nn.functional.cross_entropy), (nn.Linear(6, 3), masked)], ids=["branch", "shape"]
)
def test_what_depends_on_the_numbers_is_not_replayed(
    module: nn.Module, loss: Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = trajectory(of(module, loss), "loop", 12)
    monkeypatch.setattr(recorded, "CALLS", 3)
    assert torch.equal(trajectory(of(module, loss), "loop", 12), original)


@pytest.mark.usefixtures("soon")
def test_random_numbers_are_drawn_anew() -> None:
    module = nn.Sequential(nn.Linear(6, 8), nn.Dropout(), nn.Linear(8, 3))
    result = trajectory(of(module), "loop", 12)
    still = nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.0), nn.Linear(8, 3))
    assert len(result.flatten(1).unique(dim=0)) == len(result)
    still.load_state_dict(module.state_dict())
    assert not torch.equal(trajectory(of(still), "loop", 12), result)


@pytest.mark.usefixtures("soon")
def test_shards_of_many_sizes_do_not_spend_their_time_recording() -> None:
    data = torch.randn(150, 2), torch.randn(150, 1)
    shards = [list(range(10 * i, 10 * i + i % 10 + 1)) for i in range(15)]
    problem = Supervised(nn.Linear(2, 1), nn.functional.mse_loss, *data, shards)  # type: ignore[arg-type]
    train(problem, "ring:15", "d-sgd-1", iterations=6, batch_size=0)
    assert 0 < len(problem._recordings._recorded) <= recorded.MOST


@pytest.mark.usefixtures("soon")
def test_recordings_do_not_travel_to_other_processes() -> None:
    problem = of(dense())
    expected = trajectory(problem, "stacked")
    for twin in (pickle.loads(pickle.dumps(problem)), copy.deepcopy(problem)):
        assert not twin._recordings._recorded
        assert torch.equal(trajectory(twin, "stacked"), expected)


@pytest.mark.parametrize(
    "options", [([2, 2], [2, 2]), ([3, 3], [2, 2], [1, 1]), ([2, 3], [1, 2], [0, 1], [2, 1], True)]
)
def test_max_pooling_with_channels_last_is_max_pooling(options: tuple[list[int], ...]) -> None:
    images = torch.randn(3, 8, 9, 10, generator=torch.Generator().manual_seed(0)).relu()  # many equal maxima
    images[1, 2, 3, 4] = torch.nan
    expected = torch.ops.aten.max_pool2d_with_indices.default(images, *options)
    found = recorded.max_pool(images, *options)
    torch.testing.assert_close(found[0], expected[0], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(found[1], expected[1])
    assert all(part.is_contiguous() for part in found)


def test_large_pools_use_it() -> None:
    problem = of(pooled())
    inputs, targets = problem.shard(0)
    graph = recorded.record(problem._one_agents_gradients, (problem.start(0)[0], inputs, targets)).graph
    assert recorded.max_pool in [node.target for node in graph.nodes]


@pytest.mark.parametrize("options", [(2,), (3, 2, 1), (2, 1)])
def test_a_pool_before_relu_has_the_same_bits(options: tuple[int, ...]) -> None:
    torch.manual_seed(0)
    images = torch.randn(12, 2, 9, 9).round(decimals=1)  # many equal maxima
    images[0, :, :5, :5] = 0.0
    model = nn.Sequential(nn.Conv2d(2, 2, 1), nn.ReLU(), nn.MaxPool2d(*options), nn.Flatten(), nn.LazyLinear(1))
    model(images)
    model[0].bias.data.fill_(-0.5)  # windows without a positive entry
    problem = supervised(model, nn.functional.mse_loss, (images, torch.randn(12, 1)), agents=2)
    given = problem.start(0)[0], *problem.shard(0)
    replayed = recorded.record(problem._one_agents_gradients, given)
    pool = next(node for node in replayed.graph.nodes if "max_pool2d_with_indices" in str(node.target))
    assert pool.args[0].target is torch.ops.aten.convolution.default
    for found, expected in zip(replayed(*given), problem._one_agents_gradients(*given), strict=True):
        assert torch.equal(found, expected)
