"""NaN and infinity in data and starting points are named, and not taken for divergence."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import peerdescent
from peerdescent import DivergedError, InputError
from peerdescent.problems import Quadratic, Supervised, supervised

NAN, INF = float("nan"), float("inf")


def data() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.ones(12, 2), torch.ones(12, 1)


def linear(inputs: torch.Tensor, targets: torch.Tensor, **options: Any) -> Supervised:
    return supervised(nn.Linear(2, 1), nn.functional.mse_loss, (inputs, targets), agents=3, **options)


@pytest.mark.parametrize(("value", "word"), [(NAN, "NaN"), (INF, "infinite numbers"), (-INF, "infinite numbers")])
@pytest.mark.parametrize("part", ["inputs", "targets"])
def test_data_are_named_by_their_agent(value: float, word: str, part: str) -> None:
    problem = linear(*data())
    getattr(problem, part)[9, 0] = value  # the second of agent 2's four samples
    with pytest.raises(InputError, match=rf"the data of agent 2 contain {word} \(sample 1 of its shard\)"):
        peerdescent.train(problem, "ring:3", "d-sgd-1", iterations=3)


def test_test_data_too() -> None:
    inputs, targets = data()
    inputs[5, 1] = NAN
    with pytest.raises(InputError, match=r"the test data contain NaN \(sample 5\)"):
        peerdescent.train(linear(*data(), test=(inputs, targets)), "ring:3", "d-sgd-1", iterations=3)


def test_what_overflows_in_the_precision_of_the_run() -> None:
    inputs, targets = (part.double() for part in data())
    targets[0] = 1e100
    problem = linear(inputs, targets)
    with pytest.raises(InputError, match=r"the data of agent [012] contain infinite numbers"):
        peerdescent.train(problem, "ring:3", "d-sgd-1", iterations=1, dtype="float32")
    assert peerdescent.train(problem, "ring:3", "d-sgd-1", iterations=1, dtype="float64").x.isfinite().all()


@pytest.mark.parametrize(("value", "word"), [(NAN, "NaN"), (INF, "infinite numbers")])
def test_starting_points_are_named(value: float, word: str) -> None:
    problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    x0 = torch.zeros(3, 1)
    x0[1] = value
    with pytest.raises(InputError, match=rf"x0 contains {word} \(first for agent 1\)"):
        peerdescent.train(problem, "ring:3", "d-sgd-1", x0=x0, iterations=3)
    model = nn.Linear(2, 1)
    with torch.no_grad():
        model.bias.fill_(value)
    broken = supervised(model, nn.functional.mse_loss, data(), agents=3)
    with pytest.raises(InputError, match=f"the starting points of supervised contain {word}"):
        peerdescent.train(broken, "ring:3", "d-sgd-1", iterations=3)


def test_a_loss_that_is_not_finite_at_the_start_is_not_blamed_on_the_steps() -> None:
    problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    with pytest.raises(DivergedError, match="the loss of quadratic is not finite at the starting points") as error:
        peerdescent.train(problem, "ring:3", "d-sgd-1", x0=torch.full((3, 1), 1e30), iterations=3)
    assert "steps" not in str(error.value)


def test_labels_and_finite_data_pass() -> None:
    inputs, labels = torch.ones(12, 2), torch.arange(12) % 2
    problem = supervised(
        nn.Linear(2, 2), nn.functional.cross_entropy, (inputs, labels), agents=3, test=(inputs, labels)
    )
    assert peerdescent.train(problem, "ring:3", "d-sgd-1", iterations=1).x.shape == (3, 6)
