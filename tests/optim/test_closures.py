"""A method with several gradients per step: the optimizer calls the closure again, on the same batch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from peerdescent import InputError, optim


def batch(k: int) -> tuple[torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(k)
    inputs = torch.randn(4, 3, generator=random, dtype=torch.float64)
    return inputs, inputs.sum(dim=1, keepdim=True) + torch.randn(4, 1, generator=random, dtype=torch.float64)


def gradient(x: np.ndarray, k: int) -> np.ndarray:
    """Of the mean squared error of a linear model, weights first."""
    inputs, targets = (part.numpy() for part in batch(k))
    wrong = 2 * (inputs @ x[:3] + x[3] - targets[:, 0]) / 4
    return np.append(wrong @ inputs, wrong.sum())


@pytest.mark.parametrize("kernel", ["plain", "compiled"])
@pytest.mark.parametrize("decay", [{}, {"weight_decay": 0.2}, {"weight_decay": 0.2, "decay": "decoupled"}], ids=str)
@pytest.mark.parametrize("clears", [True, False])
def test_one_agent_with_a_closure(kernel: str, decay: dict[str, Any], clears: bool) -> None:
    """v = g(x) + (1−β)(v₋ − g(x₋)), x⁺ = x − ηv, in two parameter groups; the parameters are at x afterwards."""
    model = nn.Linear(3, 1, dtype=torch.float64)
    x = np.append(model.weight.detach().numpy()[0], model.bias.item())
    groups = [{"params": [model.weight]}, {"params": [model.bias]}]
    opt = optim.GTHSGD(groups, "ring:1", lr=0.05, beta=0.3, kernel=kernel, **decay)
    before, v, calls = x, np.zeros(4), []
    coupled = decay.get("weight_decay", 0.0) if "decay" not in decay else 0.0
    for k in range(8):

        def closure(k: int = k) -> float:
            if clears or not len(calls) % 2:
                opt.zero_grad()
            inputs, targets = batch(k)
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            calls.append(float(loss.detach()))
            return calls[-1]

        loss = opt.step(closure)
        assert loss == calls[-2]
        assert len(calls) == 2 * (k + 1)
        old = gradient(before, k) + coupled * before
        v = gradient(x, k) + coupled * x + ((1 - 0.3) * (v - old) if k else 0.0)
        before, x = x, x - 0.05 * v - (0.05 * 0.2 * x if "decay" in decay else 0.0)
        found = np.append(model.weight.detach().numpy()[0], model.bias.item())
        np.testing.assert_allclose(found, x, rtol=1e-10)


def test_without_a_closure_it_says_what_to_do() -> None:
    model = nn.Linear(2, 1)
    opt = optim.GTHSGD(model.parameters(), "ring:1")
    model(torch.ones(1, 2)).sum().backward()
    with pytest.raises(InputError, match=r"^GTHSGD needs 2 gradients per step, .* call step\(closure\) .*\.$"):
        opt.step()


def test_half_precision_parameters_come_back() -> None:
    model = nn.Linear(2, 1).bfloat16()
    opt = optim.GTHSGD(model.parameters(), "ring:1", lr=0.1)
    places = [p.data_ptr() for p in model.parameters()]

    def closure() -> float:
        opt.zero_grad()
        loss = model(torch.ones(1, 2, dtype=torch.bfloat16)).square().sum()
        loss.backward()
        return float(loss.detach())

    losses = [opt.step(closure) for _ in range(20)]
    assert losses[-1] < 0.1 * losses[0] + 1e-3
    assert [p.data_ptr() for p in model.parameters()] == places
