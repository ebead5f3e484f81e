"""Any module with a loss and data as a problem."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from peerdescent import InputError, train
from peerdescent.problems import Supervised, supervised

CPU = torch.device("cpu")


pytestmark = pytest.mark.usefixtures("own_cache")


def two_moons() -> tuple[torch.Tensor, torch.Tensor]:
    """Two classes that a small network separates."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(200) % 2
    inputs = torch.randn(200, 2, generator=generator) + 3.0 * labels[:, None]
    return inputs, labels


def small_net() -> nn.Sequential:
    with torch.random.fork_rng(devices=[]):
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
    assert torch.equal(torch.get_rng_state(), before)  # the global generator is unchanged
    assert len({tuple(row.tolist()) for row in drawn}) == 3
    assert torch.equal(drawn, independent.start(0))
    assert not torch.equal(drawn, independent.start(1))
    assert torch.equal(torch.cat([p.detach().flatten() for p in net.parameters()]), own)
    with pytest.raises(InputError, match="start"):
        supervised(net, nn.functional.cross_entropy, data, agents=3, start="bogus")


def test_training_does_not_change_the_module() -> None:
    net = small_net()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    train(supervised(net, nn.functional.cross_entropy, two_moons(), agents=2), "ring:2", "d-sgd-1", iterations=20)
    assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())


def test_a_module_whose_data_do_not_fit_is_refused() -> None:
    problem = supervised(nn.Linear(3, 2), nn.functional.cross_entropy, two_moons(), agents=2)
    with pytest.raises(InputError, match=r"the gradient of supervised cannot be computed: .*shapes"):
        train(problem, "ring:2", "d-sgd-1", iterations=2)


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
    with pytest.raises(InputError, match=r"data.*: expected \(inputs, targets\)"):
        supervised(nn.Linear(2, 1), nn.functional.mse_loss, data, agents=1)


def test_a_module_without_parameters_is_refused() -> None:
    with pytest.raises(InputError, match="no parameters"):
        Supervised(nn.Tanh(), nn.functional.mse_loss, torch.ones(2, 1), torch.ones(2, 1), [np.arange(2)])


def test_frozen_parameters_stay_fixed_and_unused_ones_are_allowed() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))
    model[0].requires_grad_(False)
    model.register_parameter("unused", nn.Parameter(torch.ones(4)))
    data = torch.randn(40, 2), torch.randn(40, 1)
    problem = supervised(model, nn.functional.mse_loss, data, agents=4)
    assert problem.dimension == 4 + 4
    for strategy in ("stacked", "loop"):
        trained = train(problem, "ring:4", "d-sgd-1", iterations=10, batch_size=4, gradients=strategy).model()
        assert torch.equal(trained[0].weight, model[0].weight)
        assert torch.equal(trained.unused, model.unused)
        assert not torch.equal(trained[2].weight, model[2].weight)
