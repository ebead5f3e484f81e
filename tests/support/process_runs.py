"""What the processes of a test do: one small problem for every method, in one process or in several."""

from __future__ import annotations

import contextlib
import os
import signal
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from peerdescent import Result, algorithms, train
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.graphs import parse
from peerdescent.problems import Problem, quadratic, supervised
from peerdescent.training import loop

SHORT = 12
"""Iterations: enough for every exchange to be used many times."""


def network(agents: int = 10) -> Problem:
    """A small neural network on its own shards, with stacked gradients or a loop over agents."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(40 * agents, 3, generator=random)
    model = torch.nn.Sequential(torch.nn.Linear(3, 11), torch.nn.Tanh(), torch.nn.Linear(11, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) / 2)
    return supervised(model, torch.nn.functional.mse_loss, (x, x.prod(dim=1, keepdim=True)), agents)


def every_method(group: ProcessGroup | None, names: Sequence[str]) -> dict[str, Result]:
    """Presets with loop and stacked gradients, bfloat16 messages, a communication period, and the plain kernel."""
    results = {}
    problem, graph = network(), "er:10:0.4:seed=3"
    variants: dict[str, dict[str, Any]] = {
        "loop": {"gradients": "loop"},
        "stacked": {"gradients": "stacked"},
        "bf16": {"gradients": "loop", "message_dtype": "bf16"},
        "periodic": {"gradients": "loop", "communication_period": "3,2@7", "average_every": 5},
        "plain": {"gradients": "loop", "kernel": "plain"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some presets warn that the theory does not cover them
        for name in names:
            for variant, settings in variants.items():
                chosen = {
                    "iterations": SHORT,
                    "batch_size": 4,
                    "eval_every": SHORT,
                    "seed": 1,
                    "compress": "none",
                    **settings,
                }
                method = algorithms.make(name)
                results[f"{name} {variant}"] = train(problem, graph, method, per_agent=False, group=group, **chosen)
    return results


def one_run(group: ProcessGroup | None, graph: str = "ring:5", **settings: Any) -> Result:
    """A quadratic problem, or the network with gradients="loop"; `settings` go to `train`."""
    agents, dimension = parse(graph).n, settings.pop("dimension", 7)
    looped = settings.get("gradients") == "loop"
    problem: Problem = network(agents) if looped else quadratic(agents, dimension, noise=1.0)
    method = settings.pop("method", "dsgpa-f-pb")
    chosen = {"iterations": 20, "batch_size": 4, "eval_every": 10, **settings}
    return train(problem, graph, method, group=group, **chosen)


def several(group: ProcessGroup, runs: list[dict[str, Any]]) -> list[Result]:
    """Several runs, one after the other."""
    return [one_run(group, **run) for run in runs]


def in_processes(count: int, runs: list[dict[str, Any]]) -> list[Result]:
    """The same runs in several processes."""
    with workers(count, several, runs) as group:
        return several(group, runs)


def differing(group: ProcessGroup, runs: list[dict[str, Any]]) -> Result:
    """Each process with its own settings."""
    return one_run(group, **runs[group.rank])


def failing(group: ProcessGroup, out: Path) -> Result:
    """Rank 1 has a bug."""
    if group.rank == 1:
        raise ZeroDivisionError("a bug of rank 1")
    return one_run(group, out=out)


def dying_at_the_end(group: ProcessGroup, moment: str, run: dict[str, Any]) -> list[Result]:
    """Two runs; rank 1 dies in the first one, at the final barrier or before it sends its last rows."""
    if group.rank == 1:
        setattr(loop.Run, moment, lambda run: os.kill(os.getpid(), signal.SIGKILL))
    return [one_run(group, **run), one_run(group, **{**run, "graph": "complete:4"})]


def stopping(group: ProcessGroup, run: dict[str, Any]) -> Result:
    """Rank 1 is stopped in the middle of the run, by SIGSTOP instead of the injected fault of its agent 2."""
    if group.rank == 1:
        loop.inject = lambda faults: os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[attr-defined]
    return one_run(group, **run, stall=["2@30:0"])


def listening() -> dict[str, str]:
    """The addresses, as Linux writes them, at which this process accepts TCP connections, by socket."""
    inodes, found = set(), {}
    for descriptor in Path("/proc/self/fd").glob("*"):
        with contextlib.suppress(OSError):  # it has just been closed
            inodes.add(os.readlink(descriptor).removeprefix("socket:[").removesuffix("]"))
    for table in Path("/proc/self/net").glob("tcp*"):
        for line in table.read_text().splitlines()[1:]:
            _, address, _, state, _, _, _, _, _, inode, *_ = line.split()
            if state == "0A" and inode in inodes:
                found[inode] = address.partition(":")[0]
    return found


def report_worker(group: ProcessGroup, tensors: list[torch.Tensor]) -> list[dict[str, Any]]:
    """What each process sees of its environment, in rank order."""
    here = {
        "environment": os.environ.get("PEERDESCENT_TEST"),
        "folder": os.getcwd(),
        "threads": torch.get_num_threads(),
        "interrupt": signal.getsignal(signal.SIGINT) is signal.SIG_IGN,
        "random": [float(torch.rand(1)), float(np.random.rand())],  # noqa: NPY002
        "listening": listening(),
        "tensors": float(sum(tensor.sum() for tensor in tensors)),
    }
    return group.gather_object(here)


def run_from_scratch(out: Path) -> Result:
    """A run of some tenths of a second that goes on from what the folder holds."""
    problem = quadratic(agents=6, dimension=200, noise=1.0)
    chosen: dict[str, Any] = {"iterations": 1000, "batch_size": 4, "eval_every": 250, "per_agent": False}
    return train(problem, "ring:6", "dsgpa-f-pb", out=out, resume=True, **chosen)


def lose_first_attempt(group: ProcessGroup, attempt: int, folder: Path) -> int:
    """Rank 1 dies in the first attempt; returns the attempt that succeeds."""
    if group.rank == 1 and attempt == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    (folder / f"{attempt}-{group.rank}").touch()
    group.barrier()
    return attempt


def largest_error(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """A metric that other processes find by its name."""
    return float((outputs - targets).abs().max())


def failing_metric(outputs: torch.Tensor, targets: torch.Tensor) -> float:
    """A metric that fails in every process."""
    raise ValueError("no number today")
