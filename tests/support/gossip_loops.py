"""Training loops with `optim.Gossip`, as jobs of workers, one process per agent.

Agent i minimizes ½‖A − C_i(k)‖² + ½‖b − c_i(k)‖² with targets that change with k, so that nothing cancels.
"""

from __future__ import annotations

import copy
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from tests.support import process_runs
from torch import nn

from peerdescent.data import Minibatches
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import PeerdescentError
from peerdescent.optim import Gossip, Outer, peers
from peerdescent.problems.supervised import Supervised

AGENTS, GRAPH, STEPS = 3, "path:3", 7
ATC, CTA = "adapt-then-combine", "combine-then-adapt"
OUTERS = {"none": None, "nesterov": Outer(lr=0.7, momentum=0.9), "heavy": Outer(0.5, 0.8, nesterov=False)}


class Model(nn.Module):
    """A matrix and a vector to train, and a large base that is not."""

    def __init__(self, agent: int) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.full((1000,), float(agent)), requires_grad=False)
        self.A = nn.Parameter(torch.linspace(-1, 1 + agent, 12, dtype=torch.float64).reshape(4, 3))
        self.b = nn.Parameter(torch.full((3,), agent - 1.0, dtype=torch.float64))

    def loss(self, agent: int, k: int) -> torch.Tensor:
        C = torch.cos(torch.arange(12.0, dtype=torch.float64) * (agent + 1) + k).reshape(4, 3)
        return 0.5 * ((self.A - C).square().sum() + (self.b - C[0] - agent).square().sum())

    def values(self) -> torch.Tensor:
        return torch.cat([self.A.detach().flatten(), self.b.detach()])


INNER: dict[str, Callable[[Model], torch.optim.Optimizer]] = {
    "sgd": lambda m: torch.optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, weight_decay=0.1, nesterov=True),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.1, weight_decay=0.1),
    "adamw": lambda m: torch.optim.AdamW(
        [{"params": [m.base, m.A]}, {"params": [m.b], "weight_decay": 0.0}], lr=0.1, weight_decay=0.1
    ),
}

NETWORK_INNER: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "gossip-sgd": lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9),
    "gossip-adam": lambda p: torch.optim.Adam(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1),
    "gossip-adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.1),
}


def step(model: Model, opts: list[Any], agent: int, k: int) -> None:
    for opt in opts:
        opt.zero_grad()
    model.loss(agent, k).backward()
    for opt in opts:
        opt.step()


def trained(rank: int, inner: str, outer: str = "none", **options: Any) -> dict[str, Any]:
    """Some steps."""
    model = Model(rank)
    opt = Gossip(INNER[inner](model), GRAPH, outer=OUTERS[outer], **options)
    for k in range(STEPS):
        step(model, [opt], rank, k)
    opt.wait()
    return {"x": model.values(), "bytes": opt.bytes_sent(), "base": float(model.base[0])}


def on_the_network(rank: int, inner: str, **options: Any) -> dict[str, Any]:
    """A small network on minibatches of the simulator."""
    problem = process_runs.network(AGENTS)
    assert isinstance(problem, Supervised)
    model = problem.model(problem.start(1)[rank])
    batches = Minibatches(problem.sizes, 4, 1, True, range(rank, rank + 1))
    inputs, targets = problem.shard(rank)
    opt = Gossip(NETWORK_INNER[inner](model.parameters()), GRAPH, **options)
    for k in range(STEPS):
        chosen = batches.batches(k)[0]
        opt.zero_grad()
        nn.functional.mse_loss(model(inputs[chosen]), targets[chosen]).backward()
        opt.step()
    opt.wait()
    return {"x": torch.cat([p.detach().flatten() for p in model.parameters()])}


def muon(rank: int) -> dict[str, Any]:
    """One optimizer for the matrix and another for the vector."""
    model = Model(rank)
    opts = [
        Gossip(torch.optim.Muon([model.A], lr=0.05), GRAPH, every=2),
        Gossip(torch.optim.AdamW([model.b], lr=0.1), GRAPH, every=3, order=CTA),
    ]
    for k in range(STEPS):
        step(model, opts, rank, k)
    for opt in opts:
        opt.wait()
    return {"x": model.values()}


def same_batches(rank: int, order: str, every: int) -> dict[str, Any]:
    """All agents start alike and see the same batches, in single precision; beside them one AdamW without agents."""
    models = []
    for _ in range(2):
        torch.manual_seed(0)
        models.append(nn.Sequential(nn.Linear(5, 7), nn.Tanh(), nn.Linear(7, 1)))
    opts = [torch.optim.AdamW(model.parameters(), lr=0.01) for model in models]
    gossip = Gossip(opts[0], "ring:3", every=every, order=order)
    random = torch.Generator().manual_seed(1)
    for _ in range(10):
        inputs = torch.randn(8, 5, generator=random)
        for model, opt in zip(models, (gossip, opts[1]), strict=True):
            opt.zero_grad()
            model(inputs).square().mean().backward()
            opt.step()
    gossip.wait()
    pairs = zip(models[0].parameters(), models[1].parameters(), strict=True)
    return {"equal": all(torch.equal(one, other) for one, other in pairs)}


def saved(rank: int, order: str, outer: str) -> dict[str, Any]:
    """An uninterrupted run, and one that is saved within a round, rebuilt and continued."""

    def make() -> tuple[Model, Gossip]:
        model = Model(rank)
        return model, Gossip(INNER["adamw"](model), GRAPH, every=3, order=order, outer=OUTERS[outer])

    whole, opt = make()
    for k in range(STEPS):
        step(whole, [opt], rank, k)
    first, opt = make()
    for k in range(5):
        step(first, [opt], rank, k)
    opt.wait()
    kept = {"model": first.state_dict(), "opt": opt.state_dict()}
    second, opt = make()
    second.load_state_dict(kept["model"])
    opt.load_state_dict(kept["opt"])
    for k in range(5, STEPS):
        step(second, [opt], rank, k)
    opt.wait()
    return {"whole": whole.values(), "continued": second.values()}


def saved_compressed(rank: int, order: str, graph: str) -> dict[str, Any]:
    """The same with compressed messages, saved while one may be in flight; and the state of one without them."""

    def make(**options: Any) -> tuple[Model, Gossip]:
        model = Model(rank)
        return model, Gossip(INNER["adamw"](model), graph, order=order, **options)

    chosen: dict[str, Any] = {"compress": "qsgd:3", "consensus_step": 0.5, "seed": 4}
    whole, opt = make(**chosen)
    for k in range(STEPS):
        step(whole, [opt], rank, k)
    opt.wait()
    first, opt = make(**chosen)
    for k in range(5):
        step(first, [opt], rank, k)
    kept = copy.deepcopy({"model": first.state_dict(), "opt": opt.state_dict()})
    opt.wait()
    second, opt = make(**chosen)
    second.load_state_dict(kept["model"])
    opt.load_state_dict(kept["opt"])
    for k in range(5, STEPS):
        step(second, [opt], rank, k)
    opt.wait()
    _, other = make()
    try:
        other.load_state_dict(kept["opt"])
    except PeerdescentError as error:
        sentence = str(error)
    other.wait()
    return {"whole": whole.values(), "continued": second.values(), "sentence": sentence}


def joined(rank: int) -> dict[str, Any]:
    """Two steps in rank 0, four in rank 1, six in rank 2, then the mean of all for good."""
    model = Model(rank)
    opt = Gossip(INNER["adamw"](model), GRAPH)
    with opt.join():
        for k in range(2 + 2 * rank):
            step(model, [opt], rank, k)
    before, steps = model.values(), opt.steps
    with opt.averaged():
        within = model.values()
    after = model.values()
    opt.average()
    return {"before": before, "within": within, "after": after, "for good": model.values(), "steps": steps}


def scaled(rank: int) -> dict[str, Any]:
    """A GradScaler whose gradient overflows in rank 1 at one step; an LR scheduler."""
    model = Model(rank)
    opt = Gossip(INNER["adamw"](model), GRAPH)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    for k in range(STEPS):
        opt.zero_grad()
        scaler.scale(model.loss(rank, k) * (torch.inf if (rank, k) == (1, 2) else 1.0)).backward()
        scaler.step(opt)
        scaler.update()
        scheduler.step()
    return {"x": model.values(), "scale": scaler.get_scale(), "lr": opt.inner.param_groups[0]["lr"]}


def changed(rank: int) -> dict[str, Any]:
    """New parameters between two steps, while messages are in flight."""
    model = Model(rank)
    opt = Gossip(INNER["sgd"](model), GRAPH, order=CTA)
    with torch.no_grad():
        model.b.fill_(5.0 * rank)
    opt.restart()
    step(model, [opt], rank, 0)
    opt.wait()
    return {"x": model.values()}


def unlike(rank: int) -> dict[str, Any]:
    """Rank 1 exchanges less often."""
    Gossip(INNER["sgd"](Model(rank)), GRAPH, every=1 + rank % 2)
    return {}


def alone_in_average(rank: int) -> dict[str, Any]:
    """Only rank 0 averages."""
    model = Model(rank)
    opt = Gossip(INNER["sgd"](model), GRAPH)
    for k in range(3):
        step(model, [opt], rank, k)
        if rank == 0 and k == 1:
            opt.average()
    opt.wait()
    return {}


def plain(found: dict[str, Any]) -> dict[str, Any]:
    return {name: v.tolist() if isinstance(v, torch.Tensor) else v for name, v in found.items()}


def in_workers(group: ProcessGroup, jobs: list[tuple[str, dict[str, Any]]]) -> list[list[Any]]:
    """What each job returns in every process, or the sentence that it ends with there."""
    peers.INTERVAL = 0.1
    results = []
    for job, arguments in jobs:
        peers._known.clear()  # the previous job may have ended its connections
        try:
            found = plain(globals()[job](group.rank, **arguments))
        except PeerdescentError as error:
            found = f"{type(error).__name__}: {error}"
        results.append(group.gather_object(found))
        group.barrier()
    return results


def main() -> None:
    """For torchrun: train with an outer step, and write what that gives."""
    torch.distributed.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = torch.distributed.get_rank()
    found = plain(trained(rank, "adamw", "nesterov", every=2, average_every=3))
    (Path(sys.argv[1]) / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
