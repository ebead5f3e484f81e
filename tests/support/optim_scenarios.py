"""Training loops in which processes do not do the same, as jobs of workers and as a script for torchrun.

Agent i minimizes ½‖a − c_i‖² + ½‖b − c_i‖², so that its gradient is known without any library.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from peerdescent import optim
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import PeerdescentError
from peerdescent.optim import peers

AGENTS, GRAPH, COLUMNS = 3, "path:3", 4
LR, ALPHA, BETA = 0.05, 2.0, 1.5
STEPS, BAD_STEP = 6, 2


def target(rank: int) -> torch.Tensor:
    """c_i."""
    return torch.arange(COLUMNS, dtype=torch.float64) * (rank + 1) - rank


class Model(nn.Module):
    """Two vectors to train, and a base that is not."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.base = nn.Parameter(torch.full((10_000,), float(rank), dtype=torch.float32), requires_grad=False)
        self.a = nn.Parameter(torch.full((COLUMNS,), rank + 1.0, dtype=torch.float64))
        self.b = nn.Parameter(torch.full((COLUMNS,), rank - 1.0, dtype=torch.float64))

    def loss(self, rank: int) -> torch.Tensor:
        return 0.5 * ((self.a - target(rank)).square().sum() + (self.b - target(rank)).square().sum())

    def values(self) -> list[float]:
        return torch.cat([self.a.detach(), self.b.detach()]).tolist()


def make(model: nn.Module, method: str = "dsgpa", **options: Any) -> optim.Decentralized:
    """DSGPA sends x before the gradient is known, D² sends a message that needs it."""
    if method == "d2":
        return optim.D2(model.parameters(), GRAPH, lr=LR, **options)
    return optim.DSGPA(model.parameters(), GRAPH, LR, ALPHA, BETA, **options)


def train_one(model: Model, opt: optim.Decentralized, rank: int) -> None:
    opt.zero_grad()
    model.loss(rank).backward()
    opt.step()


def scaled(rank: int) -> dict[str, Any]:
    """A GradScaler whose gradient overflows in rank 1 at one step."""
    model = Model(rank)
    opt, scaler, scales = make(model), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2), []
    scheduler = torch.optim.lr_scheduler.ConstantLR(opt, factor=1.0)  # schedulers replace opt.step
    for k in range(STEPS):
        opt.zero_grad()
        scaler.scale(model.loss(rank) * (torch.inf if (rank, k) == (1, BAD_STEP) else 1.0)).backward()
        if k % 2:
            scaler.unscale_(opt)
        scaler.step(opt)
        scaler.update()
        scheduler.step()
        scales.append(scaler.get_scale())
    opt.wait()
    return {"x": model.values(), "scales": scales, "step": opt.param_groups[0]["step"]}


def joined(rank: int, method: str) -> dict[str, Any]:
    """Three steps in rank 0, five in rank 1, seven in rank 2, with a step size that changes."""
    model = Model(rank)
    opt = make(model, method)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)
    with opt.join():
        for _ in range(3 + 2 * rank):
            train_one(model, opt, rank)
            scheduler.step()
    with opt.averaged():
        mean = model.values()
    opt.wait()
    state = torch.cat([opt.state[p]["v"] for p in (model.a, model.b)]).tolist()
    return {"x": model.values(), "v": state, "mean": mean, "step": opt.param_groups[0]["step"]}


def joined_with_a_scaler(rank: int) -> dict[str, Any]:
    """Two steps in rank 0, four in the others, of which the third overflows in rank 2."""
    model = Model(rank)
    opt, scaler = make(model), torch.amp.GradScaler("cpu", init_scale=8.0)
    with opt.join():
        for k in range(2 if rank == 0 else 4):
            opt.zero_grad()
            scaler.scale(model.loss(rank) * (torch.inf if (rank, k) == (2, 2) else 1.0)).backward()
            scaler.step(opt)
            scaler.update()
    opt.wait()
    return {"x": model.values(), "scale": scaler.get_scale()}


def frozen(rank: int, message_dtype: str = "same", period: int = 1) -> dict[str, Any]:
    """A base that is not trained, and two optimizers in one process."""
    model, other = Model(rank), Model(rank)
    opt = make(model, message_dtype=message_dtype, communication_period=period)
    make(other, "d2")
    for _ in range(STEPS):
        train_one(model, opt, rank)
    opt.wait()
    with opt.averaged(model):
        base = float(model.base.mean())
    found = {"x": model.values(), "bytes": opt.bytes_sent(), "base": float(model.base.mean()), "averaged base": base}
    return found | {"state": [name for name, p in model.named_parameters() if p in opt.state]}


def left_out(rank: int) -> dict[str, Any]:
    """Rank 1 leaves out a batch, and steps all the same."""
    model = Model(rank)
    opt = make(model)
    for k in range(STEPS):
        opt.zero_grad()
        if (rank, k) != (1, BAD_STEP):
            model.loss(rank).backward()
        opt.step()
    opt.wait()
    return {"x": model.values()}


def uneven(rank: int, method: str, end: str = "wait") -> dict[str, Any]:
    """Rank 2 makes fewer steps than the others, and then waits, averages, ends, or enters a barrier."""
    model = Model(rank)
    opt = make(model, method)
    for k in range(8):
        if (rank, k) == (2, 5):
            break
        train_one(model, opt, rank)
    if rank == 2 and end == "exit":
        return {"ended": True}
    if rank == 2 and end == "averaged":
        with opt.averaged():
            pass
    if end == "barrier":
        dist.barrier()
    opt.wait()
    return {"ended": True}


def uneven_scaled(rank: int) -> dict[str, Any]:
    """Rank 2 makes one scaled step less, and then waits."""
    model = Model(rank)
    opt, scaler = make(model), torch.amp.GradScaler("cpu")
    for _ in range(3 if rank == 2 else 4):
        opt.zero_grad()
        scaler.scale(model.loss(rank)).backward()
        scaler.step(opt)
        scaler.update()
    opt.wait()
    return {"ended": True}


def other_buffers(rank: int) -> dict[str, Any]:
    """Rank 1 averages another model."""
    model = Model(rank)
    opt = make(model)
    with opt.averaged(nn.BatchNorm1d(2 if rank == 1 else 3)):
        pass
    return {"ended": True}


def one_step_less(rank: int) -> dict[str, Any]:
    """Rank 2 makes one step less: its last message was sent already, so that nobody has to wait for it."""
    model = Model(rank)
    opt = make(model)
    for _ in range(4 if rank == 2 else 5):
        train_one(model, opt, rank)
    opt.wait()
    return {"ended": True}


def alone_in_averaged(rank: int) -> dict[str, Any]:
    """Rank 0 evaluates the mean model on its own."""
    model = Model(rank)
    opt = make(model)
    for k in range(8):
        train_one(model, opt, rank)
        if rank == 0 and k == 3:
            with opt.averaged():
                pass
    opt.wait()
    return {"ended": True}


def some_scaled(rank: int) -> dict[str, Any]:
    """Only rank 0 uses a GradScaler."""
    model = Model(rank)
    opt, scaler = make(model), torch.amp.GradScaler("cpu", enabled=rank == 0)
    for _ in range(4):
        opt.zero_grad()
        scaler.scale(model.loss(rank)).backward()
        scaler.step(opt)
        scaler.update()
    return {"ended": True}


def unlike_trainable(rank: int) -> dict[str, Any]:
    """Rank 1 trains one vector less."""
    model = Model(rank)
    model.b.requires_grad_(rank != 1)
    make(model)
    return {"ended": True}


def killed(rank: int, victim: str) -> dict[str, Any]:
    """One process dies in the middle."""
    model = Model(rank)
    opt = make(model)
    for k in range(8):
        if (rank, k) == (int(victim), 4):
            os.kill(os.getpid(), signal.SIGKILL)
        train_one(model, opt, rank)
    opt.wait()
    return {"ended": True}


def slow(rank: int, seconds: str) -> dict[str, Any]:
    """Rank 1 takes long for a batch, and rank 2 before the mean."""
    model = Model(rank)
    opt = make(model)
    for k in range(STEPS):
        if (rank, k) == (1, 3):
            time.sleep(float(seconds))
        train_one(model, opt, rank)
    if rank == 2:
        time.sleep(float(seconds) / 5)
    with opt.averaged():
        mean = model.values()
    opt.wait()
    return {"x": model.values(), "mean": mean}


def long_barrier(rank: int) -> dict[str, Any]:
    """A barrier that lasts, and a slow batch right after it."""
    model = Model(rank)
    opt = make(model)
    for _ in range(2):
        time.sleep(8.0 if rank == 0 else 0.0)
        dist.barrier()
        time.sleep(8.0 if rank == 1 else 0.0)
        train_one(model, opt, rank)
    opt.wait()
    return {"x": model.values()}


def exit_during_a_look(rank: int) -> dict[str, Any]:
    """The process ends while the thread that looks after long calls uses the store."""
    peers.INTERVAL = 0.0
    opt = make(Model(rank))
    opt.wait()
    assert opt._peers is not None
    opt._peers._since = time.monotonic()  # as if a call took long
    time.sleep(0.2)
    return {"ended": True}


def released(rank: int) -> dict[str, Any]:
    """How often gloo still holds a tensor when a call has ended."""
    opt, held = make(Model(rank)), 0
    assert opt._peers is not None
    for _ in range(300):
        tensor = torch.ones(6)
        opt._peers.all_reduce(tensor)
        held += tensor._use_count() > 1  # type: ignore[attr-defined]
        opt._peers.broadcast(tensor)
        held += tensor._use_count() > 1  # type: ignore[attr-defined]
    opt.wait()
    return {"held": held}


def in_workers(group: ProcessGroup, jobs: list[tuple[Any, ...]]) -> dict[str, list[Any]]:
    """What each job returns in every process, or the sentence that it ends with there."""
    peers.INTERVAL = 0.1
    results = {}
    for job, *arguments in jobs:
        peers._known.clear()  # the previous job may have ended its connections
        try:
            found = globals()[job](group.rank, *arguments)
        except PeerdescentError as error:
            found = f"{type(error).__name__}: {error}"
        results[" ".join(map(str, (job, *arguments)))] = group.gather_object(found)
        group.barrier()
    return results


def main() -> None:
    """For torchrun: run a job and write what it returns."""
    folder, job, *arguments = sys.argv[1:]
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank = dist.get_rank()
    found = globals()[job](rank, *arguments)
    (Path(folder) / f"{rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    main()
