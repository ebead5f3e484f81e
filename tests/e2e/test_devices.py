"""Runs on a second device, and the ways in which rows of a device travel, against the same runs on the CPU."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import second_device
from tests.support.commands import without_seconds
from tests.support.process_runs import network
from tests.support.quadratic_model import Model, steps
from torch import nn

from peerdescent import InputError, Result, graphs, load, optim, problems, train
from peerdescent.algorithms import make
from peerdescent.algorithms.state import initial_state
from peerdescent.data import stream
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import BlockNetwork, make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem

pytestmark = pytest.mark.e2e
AGENTS, COLUMNS, STEPS = 6, 5, 5
METHODS = ("dsgpa-f-pb", "d-sgt-2", "c-sgd", "d-asg")


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    built = second_device.build(tmp_path_factory.mktemp("device"))
    second_device.register(built)
    with torch.autograd.set_multithreading_enabled(False):  # its threads may be older than the device
        yield built


def with_dropout(agents: int) -> Problem:
    random = torch.Generator().manual_seed(0)
    data = torch.randn(60, 3, generator=random), torch.randint(0, 2, (60,), generator=random)
    model = nn.Sequential(nn.Linear(3, 5), nn.Dropout(0.5), nn.Linear(5, 2))
    return problems.supervised(model, nn.functional.cross_entropy, data, agents, test=data, start="independent")


CASES: dict[str, tuple[Callable[[int], Problem], dict[str, Any]]] = {
    "loop": (network, {"gradients": "loop"}),
    "stacked": (network, {"gradients": "stacked"}),
    "exact": (network, {"batch_size": 0}),
    "dropout": (with_dropout, {}),
    "quadratic": (lambda n: problems.make("quadratic", n), {}),
    "ripples": (lambda n: problems.make("ripples", n), {}),
    "logistic": (lambda n: problems.make("logistic-nonconvex", n), {"dtype": "float64"}),
}


def run(case: str, device: str, **settings: Any) -> Result:
    make_problem, more = CASES[case]
    problem = make_problem(4)
    chosen = {"iterations": 6, "batch_size": 4, "kernel": "plain", "device": device, **more, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return train(problem, f"ring:{problem.agents}", "dsgpa-f-pb", **chosen)


@pytest.mark.parametrize("case", CASES)
def test_a_run_on_another_device_is_the_run_on_the_cpu(library: Path, case: str) -> None:
    expected, found = run(case, "cpu"), run(case, "second:1")
    assert found.x.device == torch.device("second", 1)
    assert torch.equal(found.x.cpu(), expected.x)
    assert without_seconds(list(found.metrics)) == without_seconds(list(expected.metrics))


def test_large_graphs_need_no_sparse_products(library: Path) -> None:
    weights = MixingWeights.build(graphs.parse("torus:9:9"), "metropolis", "metropolis", make("d-sgd-1"))
    a = torch.from_numpy(stream(0, "a").standard_normal((81, 3)))
    expected, found = (
        make_network(weights, torch.float64, torch.device(device)).mix(a.to(device)).cpu()
        for device in ("cpu", "second")
    )
    torch.testing.assert_close(found, expected, rtol=1e-13, atol=1e-14)


def test_a_run_on_another_device_resumes_and_loads(library: Path, tmp_path: Path) -> None:
    whole = run("loop", "second", iterations=9)
    run("loop", "second", iterations=4, eval_every=1, out=tmp_path / "run")
    resumed = run("loop", "second", iterations=9, eval_every=1, out=tmp_path / "run", resume=True)
    assert torch.equal(resumed.x.cpu(), whole.x.cpu())
    loaded = load(tmp_path / "run", problem=network(4))
    assert loaded.x.device.type == "second"
    assert torch.equal(loaded.x.cpu(), whole.x.cpu())


def test_auto_says_why_it_does_not_compile(library: Path) -> None:
    found = run("loop", "second", kernel="auto")
    assert found.kernel.startswith("plain (torch.compile fails on second")
    with pytest.raises(InputError, match="kernel = 'compiled' is not available here: tensors are on second"):
        run("loop", "second", kernel="compiled")


def on_devices(group: ProcessGroup, library: Path, shared: bool, devices: list[str]) -> list[Any]:
    """x of a run on each device, and where its rows are in every process."""
    second_device.register(library)
    if not shared:
        group.shared_folder = None
    found: list[Any] = []
    for device in devices:
        result = train(
            network(5), "ring:5", "d-sgt-2", iterations=8, batch_size=4, kernel="plain", device=device, group=group
        )
        found += [result.x.cpu(), group.gather_object(str(result.x.device)), result.interprocess_bytes]
    group.barrier()
    return found


@pytest.mark.parametrize("shared", [True, False])
def test_each_process_takes_its_own_device(library: Path, shared: bool) -> None:
    devices = ["cpu", "second", "second:3"]
    with workers(2, on_devices, library, shared, devices) as group:
        x, _, sent, *others = on_devices(group, library, shared, devices)
    assert torch.equal(others[0], x)
    assert torch.equal(others[3], x)
    assert others[1] == ["second:0", "second:1"]
    assert others[4] == ["second:3", "second:3"]
    assert others[2] == others[5] == sent > 0


def moved(group: ProcessGroup, transports: list[str]) -> dict[str, list[torch.Tensor]]:
    """The states of a few methods after some steps, by transport, at rank 0 those of all agents."""
    found: dict[str, list[torch.Tensor]] = {}
    group.shared_folder = None
    for transport in transports:
        for name in METHODS:
            for kernel, message_dtype in (("plain", "same"), ("plain", "bf16"), ("auto", "same")):
                method, graph = make(name), graphs.parse("er:6:0.5:seed=2")
                weights = MixingWeights.build(graph, "metropolis", "metropolis", method)
                net = make_network(weights, torch.float32, torch.device("cpu"), message_dtype, group)
                assert isinstance(net, BlockNetwork)
                net.transport = transport  # type: ignore[assignment]
                block = net.neighbours.own
                start = stream(0, "start").standard_normal((AGENTS, COLUMNS))[block.start : block.stop]
                state = initial_state(method, torch.from_numpy(start).float())
                update = make_update(method, state, net, kernel)
                for k in range(STEPS):
                    update.gradient.copy_(torch.sin(update.begin(k) + k))
                    update.finish(k)
                states = [group.gather(array, Placement(AGENTS, group.size)) for array in update.state.values()]
                found.setdefault(transport, []).extend(states)
    group.barrier()
    return found


def test_every_transport_gives_the_same_states() -> None:
    transports = ["auto", "staged", "batched"]
    with workers(3, moved, transports) as group:
        found = moved(group, transports)
    for transport in transports[1:]:
        assert len(found[transport]) == len(found["auto"])
        for here, there in zip(found[transport], found["auto"], strict=True):
            assert torch.equal(here, there), transport


def on_device(group: ProcessGroup, library: Path) -> list[Any]:
    second_device.register(library)
    found = []
    for device in ("cpu", f"second:{group.rank}"):
        model = Model(group.rank, device)
        opt = optim.DSGPA(
            model.parameters(),
            "path:3",
            lr=0.05,
            alpha=2.0,
            beta=1.5,
            gamma=0.7,
            start="shared",
            kernel="plain",
            message_dtype="bf16",
        )
        steps(model, opt, STEPS)
        with opt.averaged(model):
            mean = model.values()
        saved = {"model": model.state_dict(), "opt": opt.state_dict()}
        model.load_state_dict(saved["model"])
        opt.load_state_dict(saved["opt"])
        with opt.join():
            steps(model, opt, 2 + group.rank)
        opt.wait()
        found.append([model.values(), mean, opt.bytes_sent(), str(model.a.device)])
    gathered = group.gather_object(found)
    group.barrier()
    return gathered


def test_parameters_on_another_device_take_the_same_steps(library: Path) -> None:
    with workers(3, on_device, library) as group:
        found = on_device(group, library)
    for rank, (cpu, other) in enumerate(found):
        assert other[:3] == cpu[:3]
        assert other[3] == f"second:{rank}"
        assert cpu[1][8:11] == [0.0] * 3  # rank 0 has shared what is frozen, too
