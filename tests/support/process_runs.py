"""What the processes of a test do: one small problem for every method, whole or in parts."""

from __future__ import annotations

import os
import signal
import warnings
from pathlib import Path
from typing import Any

import torch

from peerdescent import Result, algorithms, train
from peerdescent.algorithms import PRESETS
from peerdescent.distributed.launcher import workers
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.problems import Problem, quadratic, supervised
from peerdescent.training import loop

SHORT = 12
"""Iterations: enough for every exchange to be used many times."""


def network(agents: int = 10) -> Problem:
    """A little network on shards of its own, whose gradients can be stacked or taken agent by agent."""
    random = torch.Generator().manual_seed(0)
    x = torch.randn(40 * agents, 3, generator=random)
    model = torch.nn.Sequential(torch.nn.Linear(3, 11), torch.nn.Tanh(), torch.nn.Linear(11, 1))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(torch.randn(parameter.shape, generator=random) / 2)
    return supervised(model, torch.nn.functional.mse_loss, (x, x.prod(dim=1, keepdim=True)), agents)


def every_method(group: ProcessGroup | None) -> dict[str, Result]:
    """Every preset by agent-by-agent and by stacked gradients, in halves of the bits, and exchanging at times only."""
    results = {}
    problem, graph = network(), "er:10:0.4:seed=3"
    ways: dict[str, dict[str, Any]] = {
        "loop": {"gradients": "loop"},
        "stacked": {"gradients": "stacked"},
        "bf16": {"gradients": "loop", "message_dtype": "bf16"},
        "sometimes": {"gradients": "loop", "communication_period": 3},
        "plain": {"gradients": "loop", "kernel": "plain"},
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some presets say that they are off the theory here
        for name in PRESETS:
            for way, settings in ways.items():
                chosen = {"iterations": SHORT, "batch_size": 4, "eval_every": SHORT, "seed": 1, **settings}
                method = algorithms.make(name)
                results[f"{name} {way}"] = train(problem, graph, method, per_agent=False, group=group, **chosen)
    return results


def one_run(group: ProcessGroup | None, graph: str = "ring:5", **settings: Any) -> Result:
    """A quadratic problem, or the network if gradients are asked for agent by agent; `settings` go to `train`."""
    agents, dimension = int(graph.split(":")[1]), settings.pop("dimension", 7)
    looped = settings.get("gradients") == "loop"
    problem: Problem = network(agents) if looped else quadratic(agents, dimension, noise=1.0)
    method = settings.pop("method", "dsgpa-f-pb")
    chosen = {"iterations": 20, "batch_size": 4, "eval_every": 10, **settings}
    return train(problem, graph, method, group=group, **chosen)


def several(group: ProcessGroup, runs: list[dict[str, Any]]) -> list[Result]:
    """One run after the other."""
    return [one_run(group, **run) for run in runs]


def in_processes(count: int, runs: list[dict[str, Any]]) -> list[Result]:
    """The same runs in several processes."""
    with workers(count, several, runs) as group:
        return several(group, runs)


def differing(group: ProcessGroup, runs: list[dict[str, Any]]) -> Result:
    """Every process its own settings."""
    return one_run(group, **runs[group.rank])


def failing(group: ProcessGroup, out: Path) -> Result:
    """The second process has a bug."""
    if group.rank == 1:
        raise ZeroDivisionError("a bug of the second process")
    return one_run(group, out=out)


def dying_at_the_end(group: ProcessGroup, moment: str, run: dict[str, Any]) -> list[Result]:
    """Two runs; the second process dies in the first, where its last words are due, or its last rows."""
    if group.rank == 1:
        setattr(loop.Run, moment, lambda run: os.kill(os.getpid(), signal.SIGKILL))
    return [one_run(group, **run), one_run(group, **{**run, "graph": "complete:4"})]


def falling_silent(group: ProcessGroup, run: dict[str, Any]) -> Result:
    """The second process stops in the middle of the run, without ending: its agent 2 is struck in an unusual way."""
    if group.rank == 1:
        loop.inject = lambda strikes: os.kill(os.getpid(), signal.SIGSTOP)  # type: ignore[attr-defined]
    return one_run(group, **run, stall=["2@30:0"])
