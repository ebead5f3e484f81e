"""The methods as optimizers, in training loops as users write them, one agent per process."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import training_loops
from tests.support.chosen_methods import EVERY_METHOD, SOME
from tests.support.process_runs import network
from torch import nn
from torch.nn.utils import vector_to_parameters

from peerdescent import InputError, algorithms, graphs, optim, train
from peerdescent.algorithms import PRESETS
from peerdescent.distributed.launcher import workers

pytestmark = pytest.mark.xdist_group("optim")  # its processes and fixtures are started once


def in_processes(job: Callable[..., dict[str, torch.Tensor]], *arguments: Any) -> dict[str, torch.Tensor]:
    """All agents' vectors after a job, one agent per process."""
    with workers(training_loops.AGENTS, job, *arguments) as group:
        return job(group, *arguments)


@functools.cache
def in_one_start(names: tuple[str, ...]) -> dict[str, torch.Tensor]:
    return in_processes(training_loops.every_method, names)


def every_method(name: str) -> dict[str, torch.Tensor]:
    """The runs of a method, made with those of others, so that processes start once."""
    return in_one_start(SOME if name in SOME else tuple(each for each in PRESETS if each not in SOME))


def simulated(method: algorithms.Algorithm, **settings: Any) -> torch.Tensor:
    """The same run by the simulator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = {
            "iterations": training_loops.STEPS,
            "batch_size": training_loops.BATCH,
            "seed": training_loops.SEED,
            **settings,
        }
        return train(network(training_loops.AGENTS), training_loops.GRAPH, method, gradients="loop", **chosen).x


@pytest.mark.parametrize("name", EVERY_METHOD)
def test_every_method_equals_the_simulator_on_the_same_minibatches(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        method = algorithms.make(name)
    assert torch.equal(every_method(name)[f"{name} loop"], simulated(method))
    assert torch.equal(every_method(name)[f"{name} periodic"], simulated(method, communication_period="4,3@5,1@9"))
    torch.testing.assert_close(every_method(name)[f"{name} plain"], simulated(method), rtol=1e-3, atol=5e-5)
    averaged = simulated(method, communication_period=2, average_every=5)
    torch.testing.assert_close(every_method(name)[f"{name} averaged"], averaged, rtol=1e-3, atol=5e-5)


OPTIMIZERS = {
    "dsgpa-f": lambda p: optim.DSGPA(p, "ring:1", lr=0.03, alpha=5, beta=20),
    "dm-sgd": lambda p: optim.DMSGD(p, "ring:1"),
    "d-sgd-1": lambda p: optim.DSGD1(p, "ring:1"),
    "d-sgd-2": lambda p: optim.DSGD2(p, "ring:1"),
    "d2": lambda p: optim.D2(p, "ring:1"),
    "d-sgt-1": lambda p: optim.DSGT1(p, "ring:1"),
    "d-sgt-2": lambda p: optim.DSGT2(p, "ring:1"),
    "gt-hsgd": lambda p: optim.GTHSGD(p, "ring:1"),
    "gt-nsgdm": lambda p: optim.GTNSGDm(p, "ring:1"),
    "sclip-ef": lambda p: optim.SClipEF(p, "ring:1"),
    "powered-tracking": lambda p: optim.PoweredTracking(p, "ring:1"),
    "d-asg": lambda p: optim.DASG(p, "ring:1"),
    "sgp": lambda p: optim.SGP(p, "directed-ring:1"),
    "push-diging": lambda p: optim.PushDIGing(p, "directed-ring:1"),
    "c-sgd": lambda p: optim.CSGD(p, "ring:1"),
    "k-gt": lambda p: optim.KGT(p, "ring:1"),
    "led": lambda p: optim.LED(p, "ring:1"),
    "proxskip": lambda p: optim.ProxSkip(p, "ring:1"),
    "choco-sgd": lambda p: optim.ChocoSGD(p, "ring:1"),
    "beer": lambda p: optim.BEER(p, "ring:1"),
    "motef": lambda p: optim.MoTEF(p, "ring:1"),
    "extra": lambda p: optim.EXTRA(p, "ring:1"),
    "exact-diffusion": lambda p: optim.ExactDiffusion(p, "ring:1"),
    "nids": lambda p: optim.NIDS(p, "ring:1"),
    "edm": lambda p: optim.EDM(p, "ring:1"),
    "aug-dgm": lambda p: optim.AugDGM(p, "ring:1"),
    "momentum-tracking": lambda p: optim.MomentumTracking(p, "ring:1"),
    "qg-dsgdm": lambda p: optim.QGDSGDm(p, "ring:1"),
    "d-adam": lambda p: optim.DAdam(p, "ring:1"),
    "clipped-d-sgd": lambda p: optim.ClippedDSGD(p, "ring:1"),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_each_optimizer_is_its_preset(name: str) -> None:
    opt = OPTIMIZERS[name](nn.Linear(2, 1).parameters())
    assert opt.algorithm == algorithms.make(name)
    others = {algorithms.find(preset).kind for preset in PRESETS if not preset.startswith("gossip")}  # Gossip(...)
    assert {algorithms.find(preset).kind for preset in OPTIMIZERS} == others


@pytest.mark.parametrize("name", [name for name in optim.__all__ if hasattr(algorithms, name)])
def test_an_optimizer_has_the_defaults_of_its_algorithm(name: str) -> None:
    algorithm = getattr(algorithms, name)
    arguments = inspect.signature(getattr(optim, name).__init__).parameters
    expected = {f.name: inspect.Parameter.empty if f.default is MISSING else f.default for f in fields(algorithm)}
    rate = "eta" if "eta" in expected else "alpha"
    given = {rate if key == "lr" else key: argument.default for key, argument in arguments.items()}
    assert {key: given[key] for key in expected if key != "transform"} == {
        key: value for key, value in expected.items() if key != "transform"
    }


def test_a_scheduler_changes_the_step_at_once() -> None:
    found = in_processes(training_loops.scheduled)["x"]
    steps = [0.04] * 5 + [0.02] * 5
    problem = network(training_loops.AGENTS)
    L = torch.tensor(graphs.parse(training_loops.GRAPH).laplacian("metropolis").toarray(), dtype=torch.float32)
    x = problem.start(training_loops.SEED)
    v, g = torch.zeros_like(x), torch.empty_like(x)
    oracle = problem.oracle(training_loops.BATCH, training_loops.SEED, True, range(training_loops.AGENTS), "loop")
    for k, eta in enumerate(steps):
        oracle(x, k, g)
        v = v + eta * 3 * (L @ x)
        x = x - eta * (5 * (L @ x) + 3 * v + g)
    torch.testing.assert_close(found, x, rtol=1e-4, atol=1e-5)


def test_parameter_groups_have_their_own_hyperparameters() -> None:
    found = in_processes(training_loops.grouped)["x"]
    problem = network(training_loops.AGENTS)
    W = torch.tensor(graphs.parse(training_loops.GRAPH).mixing("metropolis").toarray(), dtype=torch.float32)
    start = problem.start(training_loops.SEED)[:, :33]  # the first layer's weights, which only mix
    expected = torch.linalg.matrix_power(W, training_loops.STEPS) @ start
    torch.testing.assert_close(found[:, :33], expected, rtol=1e-4, atol=1e-5)
    assert not torch.allclose(
        found[:, 33:], torch.linalg.matrix_power(W, training_loops.STEPS) @ problem.start(1)[:, 33:]
    )


@pytest.mark.parametrize(
    "name",
    ["dsgpa-t-pb-exact", *(pytest.param(name, marks=pytest.mark.e2e) for name in ("dm-sgd", "d-asg", "d-sgt-2"))],
)
def test_a_saved_run_continues_bitwise(name: str, tmp_path: Path) -> None:
    found = in_processes(training_loops.saved, tmp_path, name)
    assert torch.equal(found["whole"], found["continued"])


def test_averaged_gives_the_mean_of_parameters_and_buffers_and_restores_them() -> None:
    found = in_processes(training_loops.averaged)
    torch.testing.assert_close(found["within"], found["before"].mean(dim=0).expand_as(found["before"]))
    assert torch.equal(found["after"], found["before"])
    statistics = slice(25 - 5, 30)
    assert not torch.equal(found["before"][0, statistics], found["before"][1, statistics])  # buffers are never sent
    assert not torch.equal(found["later"], found["after"])


def test_a_shared_start_and_a_closure() -> None:
    found = in_processes(training_loops.shared_start)
    assert torch.equal(found["start"], found["start"][:1].expand_as(found["start"]))
    assert torch.isfinite(found["loss"]).all()


def test_a_single_agent_is_sgd() -> None:
    models = [nn.Linear(3, 1), nn.Linear(3, 1)]
    models[1].load_state_dict(models[0].state_dict())
    opts = [optim.DSGD1(models[0].parameters(), "ring:1", lr=0.1), torch.optim.SGD(models[1].parameters(), lr=0.1)]
    for k in range(5):
        for model, opt in zip(models, opts, strict=True):
            opt.zero_grad()
            model(torch.full((2, 3), 1.0 + k)).square().mean().backward()
            opt.step()
    torch.testing.assert_close(models[0].weight, models[1].weight)


def test_coupled_weight_decay_is_that_of_torch() -> None:
    """A single agent is SGD; a parameter group may have its own decay, and a scheduler may change the rate."""
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    models[1].load_state_dict(models[0].state_dict())
    groups = [[{"params": [m.weight]}, {"params": [m.bias], "weight_decay": 0.5}] for m in models]
    ours = optim.DSGD1(groups[0], "complete:1", lr=0.1, weight_decay=0.2)
    theirs = torch.optim.SGD(groups[1], lr=0.1, weight_decay=0.2)
    for k in range(5):
        for model, optimizer in zip(models, (ours, theirs), strict=True):
            optimizer.zero_grad()
            model(torch.full((1, 3), 1.0 + k)).square().sum().backward()
            optimizer.step()
            for group in optimizer.param_groups:
                group["lr"] *= 0.8
    for one, other in zip(models[0].parameters(), models[1].parameters(), strict=True):
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize(("make", "rate"), [(optim.DMSGD, 0.1), (optim.DSGD2, 0.1)])
def test_decoupled_weight_decay_shrinks_x_alone(make: Any, rate: float) -> None:
    """Without gradients nothing but the decay moves x, and momentum does not see it."""
    parameter = nn.Parameter(torch.tensor([1.0, -2.0], dtype=torch.float64))
    optimizer = make([parameter], "complete:1", lr=rate, weight_decay=0.5, decay="decoupled")
    for _ in range(3):
        parameter.grad = torch.zeros(2, dtype=torch.float64)
        optimizer.step()
    expected = torch.tensor([1.0, -2.0], dtype=torch.float64) * (1 - rate * 0.5) ** 3
    torch.testing.assert_close(parameter.detach(), expected, rtol=1e-12, atol=0)


def test_wrong_weight_decay_is_refused() -> None:
    with pytest.raises(InputError, match="weight_decay = -1"):
        optim.DSGD1([nn.Parameter(torch.ones(1))], "complete:1", weight_decay=-1)
    with pytest.raises(InputError, match="weight_decay = 'much'"):
        optim.DSGD1([{"params": [nn.Parameter(torch.ones(1))], "weight_decay": "much"}], "complete:1")
    with pytest.raises(InputError, match="decay = 'odd'"):
        optim.DSGD1([nn.Parameter(torch.ones(1))], "complete:1", decay="odd")


def test_a_parameter_without_gradient_does_not_change() -> None:
    used, unused = nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3))
    opt = optim.DSGD1([used, unused], "ring:1", lr=0.5)
    for _ in range(2):
        opt.zero_grad()
        used.sum().backward()
        opt.step()
    assert torch.equal(used.data, torch.zeros(2))
    assert torch.equal(unused.data, torch.ones(3))


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda p: optim.DSGD1(p, "ring:3"), "3 agents and there is 1 process"),
        (lambda p: optim.DSGD1(p, "ring:1", lr=-1.0), "eta = -1.0"),
        (lambda p: optim.DSGD1(p, "ring:1", start="best"), "independent, shared"),
        (lambda p: optim.DSGD1(p, "ring:1", message_dtype="int4"), "same, bf16"),
        (lambda p: optim.DSGD1(p, "ring:1", communication_period=0), "communication_period"),
        (lambda p: optim.DSGD1(p, "ring:1", laplaccian="unit"), "laplaccian"),
        (
            lambda p: optim.DSGD1([*p, nn.Parameter(torch.ones(1, dtype=torch.float64))], "ring:1"),
            "one floating-point dtype",
        ),
        (lambda p: optim.DSGD1([nn.Parameter(torch.ones(1, device="meta"))], "ring:1"), "on one device"),
    ],
)
def test_wrong_input_is_one_sentence(make: Callable[[Any], object], words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make(list(nn.Linear(2, 1).parameters()))
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_groups_cannot_be_added_later() -> None:
    opt = optim.DSGD1(nn.Linear(2, 1).parameters(), "ring:1")
    with pytest.raises(InputError, match="new optimizer"):
        opt.add_param_group({"params": [nn.Parameter(torch.ones(1))]})


def replaced_by_double(model: nn.Module) -> None:
    model.double()


def replaced_by_a_vector(model: nn.Module) -> None:
    vector_to_parameters(torch.zeros(3), model.parameters())


def replaced_data(model: nn.Module) -> None:
    model.bias.data = model.bias.data.clone()


@pytest.mark.parametrize(
    ("replace", "name"),
    [(replaced_by_double, "parameter 0"), (replaced_by_a_vector, "parameter 0"), (replaced_data, "parameter 1")],
)
def test_replaced_parameters_are_noticed(replace: Callable[[nn.Module], None], name: str) -> None:
    model = nn.Linear(2, 1)
    opt = optim.DSGD1(model.parameters(), "ring:1")
    replace(model)
    model(torch.ones(1, 2, dtype=model.weight.dtype)).sum().backward()
    for act in (opt.step, opt.averaged().__enter__):
        with pytest.raises(InputError, match=f"{name} no longer shares memory .* restart"):
            act()


@pytest.mark.parametrize("make", [optim.DSGD1, optim.DASG])
def test_restart_goes_on_from_replaced_parameters(make: Any) -> None:
    model = nn.Linear(2, 1)
    opt = make(model.parameters(), "ring:1", lr=0.5)
    replaced_by_a_vector(model)
    opt.restart()
    assert all(torch.equal(x, torch.zeros_like(x)) for x in opt._buckets[0].solution())
    before = [p.detach().clone() for p in model.parameters()]
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
    assert not any(torch.equal(p, old) for p, old in zip(model.parameters(), before, strict=True))
    model.double()
    with pytest.raises(InputError, match=r"parameter 0 is now \(1, 2\) of torch.float64 .* build a new optimizer"):
        opt.restart()


def test_a_replaced_parameter_is_named_if_its_name_is_known() -> None:
    model = nn.Linear(2, 1)
    try:
        opt = optim.DSGD1(model.named_parameters(), "ring:1")
    except TypeError:
        pytest.skip("optimizers of this torch version take no names")
    replaced_data(model)
    with pytest.raises(InputError, match="parameter bias no longer"):
        opt.step()


def test_frozen_parameters_are_left_alone() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    model[0].requires_grad_(False)
    before = model[0].weight.data_ptr()
    groups = [{"params": model[0].parameters()}, {"params": model[1].parameters(), "lr": 0.5}]
    opt = optim.DMSGD(groups, "ring:1", beta=0.5)
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
    assert model[0].weight.data_ptr() == before
    assert set(opt.state) == set(model[1].parameters())
    opt.load_state_dict(opt.state_dict())
    bias = model[1].bias.item()
    opt.zero_grad()
    opt.step()  # only momentum
    assert model[1].bias.item() == pytest.approx(bias - 0.25)
    model[0].bias.requires_grad_()
    with pytest.raises(InputError, match=r"parameter 1 was frozen .* build a new optimizer"):
        opt.step()


def test_a_parameter_that_is_frozen_later_has_no_gradient() -> None:
    model = nn.Linear(2, 1)
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.5)
    model.weight.requires_grad_(False)
    weight, bias = model.weight.clone(), model.bias.item()
    model(torch.ones(1, 2)).sum().backward()
    opt.step()
    assert torch.equal(model.weight, weight)
    assert model.bias.item() == pytest.approx(bias - 0.5)


def test_nothing_to_train_is_refused() -> None:
    with pytest.raises(InputError, match="no parameter requires a gradient"):
        optim.DSGD1(nn.Linear(2, 1).requires_grad_(False).parameters(), "ring:1")


@pytest.mark.parametrize("explicit", [False, True])
def test_a_scaler_skips_a_step_that_overflows(explicit: bool) -> None:
    model = nn.Linear(2, 1)
    scaler = torch.amp.GradScaler("cpu", init_scale=16.0)
    before = model.bias.item()
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.5)
        for factor in (1.0, torch.inf, 1.0):
            opt.zero_grad()
            scaler.scale(model(torch.ones(1, 2)).sum() * factor).backward()
            if explicit:
                scaler.unscale_(opt)
            scaler.step(opt)
            scaler.update()
    assert not shown
    assert model.bias.item() == pytest.approx(before - 1.0)
    assert scaler.get_scale() == 8.0
    assert opt.param_groups[0]["step"] == 2


def test_gradients_accumulate() -> None:
    model = nn.Linear(2, 1)
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.5)
    before = model.bias.item()
    for set_to_none in (True, False):
        opt.zero_grad(set_to_none)
        for _ in range(2):
            model(torch.ones(1, 2)).sum().backward()
        opt.step()
    assert model.bias.item() == pytest.approx(before - 2.0)


def test_join_of_a_single_agent_changes_nothing() -> None:
    model = nn.Linear(2, 1)
    opt = optim.DSGD1(model.parameters(), "ring:1", lr=0.5)
    before = model.bias.item()
    with opt.join():
        model(torch.ones(1, 2)).sum().backward()
        opt.step()
        with pytest.raises(InputError, match="inside join"), opt.join():
            pass
    assert model.bias.item() == pytest.approx(before - 0.5)
