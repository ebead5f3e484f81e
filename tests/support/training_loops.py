"""The training loops of the optimizer tests, as users write them, one process per agent."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from tests.support.process_runs import network
from torch import nn

from peerdescent import algorithms, optim
from peerdescent.data import Minibatches
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.problems.supervised import Supervised
from peerdescent.tracing.recording import gradients_wanted

AGENTS, STEPS, BATCH, SEED = 4, 12, 4, 1
GRAPH = "path:4"


class Loop:
    """One agent with its shard of the test problem, its model and an optimizer."""

    def __init__(self, agent: int, make: Any) -> None:
        problem = network(AGENTS)
        assert isinstance(problem, Supervised)
        self.problem, self.agent = problem, agent
        self.model = problem.model(problem.start(SEED)[agent])
        self.batches = Minibatches(problem.sizes, BATCH, SEED, True, range(agent, agent + 1))
        self.opt: optim.Decentralized = make(self.model.parameters())

    def loss(self, k: int) -> torch.Tensor:
        rows = self.batches.batches(k)[0]
        inputs, targets = self.problem.shard(self.agent)
        return nn.functional.mse_loss(self.model(inputs[rows]), targets[rows])

    def closure(self, k: int) -> float:
        self.opt.zero_grad()
        loss = self.loss(k)
        loss.backward()
        return float(loss)

    def run(self, first: int, last: int) -> None:
        for k in range(first, last):
            if gradients_wanted(self.opt.algorithm) > 1:
                self.opt.step(partial(self.closure, k))
                continue
            self.opt.zero_grad()
            self.loss(k).backward()
            self.opt.step()

    def x(self) -> torch.Tensor:
        """The agent's solution as a vector."""
        self.opt.wait()
        return torch.cat([piece.flatten() for bucket in self.opt._buckets for piece in bucket.solution()]).clone()


def collected(group: ProcessGroup, rows: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """All agents' vectors, stacked, at rank 0."""
    found = {}
    for name, row in rows.items():
        every = [torch.empty_like(row) for _ in range(group.size)]
        torch.distributed.all_gather(every, row)
        found[name] = torch.stack(every)
    return found


def every_method(group: ProcessGroup, names: Sequence[str]) -> dict[str, torch.Tensor]:
    """Presets as optimizers, with both kernels, with a schedule of periods, and with global averages."""
    rows = {}
    variants: dict[str, dict[str, Any]] = {
        "loop": {},
        "plain": {"kernel": "plain"},
        "periodic": {"communication_period": "4,3@5,1@9"},
        "averaged": {"communication_period": 2, "average_every": 5},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            for variant, options in variants.items():
                loop = Loop(
                    group.rank,
                    lambda p, name=name, options=options: optim.Decentralized(
                        p, GRAPH, algorithms.make(name), **options
                    ),
                )
                loop.run(0, STEPS)
                rows[f"{name} {variant}"] = loop.x()
    return collected(group, rows)


def scheduled(group: ProcessGroup) -> dict[str, torch.Tensor]:
    """An LR scheduler halves the step after five iterations."""
    loop = Loop(group.rank, lambda p: optim.DSGPA(p, GRAPH, lr=0.04, alpha=5, beta=3))
    scheduler = torch.optim.lr_scheduler.MultiStepLR(loop.opt, [5], gamma=0.5)
    for k in range(10):
        loop.run(k, k + 1)
        scheduler.step()
    return collected(group, {"x": loop.x()})


def grouped(group: ProcessGroup) -> dict[str, torch.Tensor]:
    """Two parameter groups with different steps, one of them zero: its parameters still mix."""

    def make(parameters: Any) -> optim.Decentralized:
        first, *rest = parameters
        return optim.DSGD1([{"params": [first], "lr": 0.0}, {"params": rest}], GRAPH, lr=0.05)

    loop = Loop(group.rank, make)
    loop.run(0, STEPS)
    return collected(group, {"x": loop.x()})


def saved(group: ProcessGroup, folder: Path, name: str) -> dict[str, torch.Tensor]:
    """An uninterrupted run, and one that is saved, rebuilt and continued."""

    def make(parameters: Any) -> optim.Decentralized:
        return optim.Decentralized(parameters, GRAPH, algorithms.make(name))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = Loop(group.rank, make)
        whole.run(0, STEPS)
        first = Loop(group.rank, make)
        first.run(0, 5)
        file = folder / f"{group.rank}.pt"
        torch.save({"model": first.model.state_dict(), "opt": first.opt.state_dict()}, file)
        first.opt.wait()
        second = Loop(group.rank, make)
        content = torch.load(file, weights_only=True)
        second.model.load_state_dict(content["model"])
        second.opt.load_state_dict(content["opt"])
        second.run(5, STEPS)
    return collected(group, {"whole": whole.x(), "continued": second.x()})


def compressed(group: ProcessGroup, folder: Path, name: str, compress: str, graph: str) -> dict[str, torch.Tensor]:
    """Compressed messages: an uninterrupted run, one that is saved and continued, and the bytes sent."""

    def make(parameters: Any) -> optim.Decentralized:
        chosen: dict[str, Any] = {"compress": compress, "consensus_step": 0.3, "seed": SEED}
        return optim.Decentralized(parameters, graph, algorithms.make(name), **chosen)

    whole = Loop(group.rank, make)
    whole.run(0, STEPS)
    first = Loop(group.rank, make)
    first.run(0, 5)
    torch.save({"model": first.model.state_dict(), "opt": first.opt.state_dict()}, file := folder / f"{group.rank}.pt")
    first.opt.wait()
    second = Loop(group.rank, make)
    content = torch.load(file, weights_only=True)
    second.model.load_state_dict(content["model"])
    second.opt.load_state_dict(content["opt"])
    second.run(5, STEPS)
    rows = {"whole": whole.x(), "continued": second.x()}
    return collected(group, {**rows, "bytes": torch.tensor([whole.opt.bytes_sent()])})


class Normed(nn.Module):
    """A network with running statistics."""

    def __init__(self, agent: int) -> None:
        super().__init__()
        torch.manual_seed(agent)
        self.layers = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 1))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs)


def averaged(group: ProcessGroup) -> dict[str, torch.Tensor]:
    """Parameters and running statistics before, within and after `averaged`, and after another step."""
    model = Normed(group.rank)
    opt = optim.DMSGD(model.parameters(), GRAPH, lr=0.05)
    random = torch.Generator().manual_seed(group.rank)

    def step() -> None:
        opt.zero_grad()
        model(torch.randn(16, 3, generator=random)).square().mean().backward()
        opt.step()

    def values() -> torch.Tensor:
        return torch.cat([t.detach().flatten().float() for t in model.state_dict().values() if t.is_floating_point()])

    for _ in range(5):
        step()
    rows = {"before": values()}
    with opt.averaged(model):
        rows["within"] = values()
    rows["after"] = values()
    step()
    opt.wait()
    rows["later"] = values()
    return collected(group, rows)


def shared_start(group: ProcessGroup) -> dict[str, torch.Tensor]:
    """Different models that start from rank 0's parameters, and one closure."""
    model = Normed(group.rank)
    opt = optim.D2(model.parameters(), GRAPH, lr=0.01, start="shared")
    start = torch.cat([p.detach().flatten() for p in model.parameters()]).clone()

    def closure() -> float:
        opt.zero_grad()
        loss = model(torch.ones(4, 3) + torch.arange(4)[:, None]).square().mean()
        loss.backward()
        return loss

    loss = opt.step(closure)
    opt.wait()
    return collected(group, {"start": start, "loss": torch.as_tensor(loss).detach().reshape(1)})


def over_time(
    group: ProcessGroup, graphs: Sequence[str], names: Sequence[str], options: dict[str, Any] | None = None
) -> dict[str, torch.Tensor]:
    """Methods on graphs that change from step to step, or otherwise; and the bytes that each agent has sent."""
    rows, chosen = {}, {"compress": "none", **(options or {})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for graph in graphs:
            for name in names:
                loop = Loop(
                    group.rank,
                    lambda p, graph=graph, name=name: optim.Decentralized(p, graph, algorithms.make(name), **chosen),
                )
                loop.run(0, STEPS)
                rows[f"{name} {graph}"] = loop.x()
                rows[f"{name} {graph} bytes"] = torch.tensor([loop.opt.bytes_sent()])
    return collected(group, rows)
