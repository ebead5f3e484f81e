"""Parameters in half precision, against literal transcriptions in NumPy: their state is in single precision."""

from __future__ import annotations

import copy
import io
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from peerdescent import InputError, optim

STEPS, LR, BETA = 5, np.float32(0.1), np.float32(0.8)
TARGET = torch.tensor([0.3, -1.7, 2.9])


class Half(nn.Module):
    """½‖x − c‖² in half precision: its gradient is the difference, rounded."""

    def __init__(self, dtype: torch.dtype = torch.bfloat16) -> None:
        super().__init__()
        self.x = nn.Parameter(torch.tensor([1.0, 0.1, -0.7]).to(dtype))

    def loss(self) -> torch.Tensor:
        return 0.5 * (self.x - TARGET.to(self.x.dtype)).square().sum()


def rounded(a: Any, dtype: torch.dtype = torch.bfloat16) -> Any:
    return torch.from_numpy(np.asarray(a, np.float32)).to(dtype).float().numpy()


def step(model: Half, opt: torch.optim.Optimizer) -> None:
    opt.zero_grad()
    model.loss().backward()
    opt.step()


def accelerated(x: Any, x_prev: Any, target: Any, dtype: torch.dtype, steps: int) -> tuple[Any, Any]:
    """D-ASG of one agent: y = (1+β)x − βx₋, x⁺ = y − ηg(y), with the gradient at y rounded."""
    for _ in range(steps):
        y = np.float32(1 + 0.8) * x - BETA * x_prev
        g = rounded(rounded(y, dtype) - target, dtype)
        x, x_prev = y - LR * g, x
    return x, x_prev


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_state_is_in_single_precision(dtype: torch.dtype) -> None:
    model = Half(dtype)
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.1)
    x = model.x.detach().float().numpy().copy()
    for _ in range(STEPS):
        g = rounded(rounded(x, dtype) - rounded(TARGET, dtype), dtype)
        x = x - LR * g
        step(model, opt)
        assert model.x.dtype == dtype
        np.testing.assert_array_equal(model.x.detach().float().numpy(), rounded(x, dtype))
    state = opt.state[model.x]["x"]
    assert state.dtype == torch.float32
    np.testing.assert_allclose(state.numpy(), x, rtol=3e-7)
    assert not np.array_equal(x, rounded(x, dtype))  # a state in half precision would have lost these bits


@pytest.mark.parametrize("kernel", ["compiled", "plain"])
def test_a_method_whose_gradient_is_wanted_elsewhere(kernel: str) -> None:
    model = Half()
    opt = optim.DASG(model.parameters(), "ring:1", lr=0.1, beta=0.8, kernel=kernel)
    start = model.x.detach().float().numpy().copy()
    for _ in range(STEPS):
        step(model, opt)
    x, x_prev = accelerated(start, start, rounded(TARGET), torch.bfloat16, STEPS)
    np.testing.assert_allclose(opt.state[model.x]["x"].numpy(), x, rtol=2e-6)
    np.testing.assert_allclose(opt.state[model.x]["x_prev"].numpy(), x_prev, rtol=2e-6)


def test_a_saved_state_keeps_its_bits() -> None:
    model = Half()
    opt = optim.DMSGD(model.parameters(), "ring:1", lr=0.1)
    for _ in range(STEPS):
        step(model, opt)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "opt": opt.state_dict()}, file)
    other = Half()
    again = optim.DMSGD(other.parameters(), "ring:1", lr=0.1)
    file.seek(0)
    saved = torch.load(file, weights_only=True)
    other.load_state_dict(saved["model"])
    again.load_state_dict(saved["opt"])
    for name in ("x", "u"):
        assert torch.equal(again.state[other.x][name], opt.state[model.x][name]), name
        assert again.state[other.x][name].dtype == torch.float32
    for _ in range(STEPS):
        step(model, opt)
        step(other, again)
    assert torch.equal(again.state[other.x]["x"], opt.state[model.x]["x"])


def test_restart_takes_values_that_changed_and_keeps_the_precision_of_others() -> None:
    model = Half()
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.1)
    for _ in range(STEPS):
        step(model, opt)
    exact = opt.state[model.x]["x"].clone()
    opt.restart()
    assert torch.equal(opt.state[model.x]["x"], exact)
    with torch.no_grad():
        model.x.fill_(0.5)
    opt.restart()
    assert opt.state[model.x]["x"].tolist() == [0.5, 0.5, 0.5]
    model.float()
    with pytest.raises(InputError, match="no longer shares memory"):
        step(model, opt)


def test_averaged_keeps_the_dtype_and_puts_everything_back() -> None:
    model = Half()
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.1)
    step(model, opt)
    before = copy.deepcopy(model.state_dict())
    with opt.averaged(model):
        assert model.x.dtype == torch.bfloat16
        assert torch.equal(model.x, before["x"])
    assert torch.equal(model.x, before["x"])
    step(model, opt)


def test_autocast_and_a_grad_scaler_train_single_precision_parameters() -> None:
    model, twin = (nn.Linear(3, 1, bias=False) for _ in range(2))
    twin.load_state_dict(model.state_dict())
    inputs = torch.tensor([[0.3, -1.7, 2.9], [1.0, 2.0, -3.0]])
    opt, scaler = optim.DSGD1(model.parameters(), "ring:1", lr=0.1), torch.amp.GradScaler("cpu", init_scale=256.0)
    reference, reference_scaler = (
        torch.optim.SGD(twin.parameters(), lr=0.1),
        torch.amp.GradScaler("cpu", init_scale=256.0),
    )
    for _ in range(STEPS):
        for one, o, s in ((model, opt, scaler), (twin, reference, reference_scaler)):
            o.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = one(inputs).square().mean()
            s.scale(loss).backward()
            s.step(o)
            s.update()
    torch.testing.assert_close(model.weight, twin.weight, rtol=1e-6, atol=1e-7)


def test_wrong_processes_are_refused_with_a_sentence() -> None:
    parameters = [nn.Parameter(torch.zeros(2))]
    with pytest.raises(InputError, match="process_group is 3: expected a ProcessGroup"):
        optim.DSGD1(parameters, "ring:1", process_group=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"mesh is 3: expected a torch.distributed DeviceMesh"):
        optim.DSGD1(parameters, "ring:1", mesh=3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="expected one floating-point dtype, on one device"):
        optim.DSGD1([nn.Parameter(torch.zeros(2, device="meta"))], "ring:1")
