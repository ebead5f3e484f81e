"""`train`: one model among the agents of a graph, in this process or in several."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from peerdescent import graphs, problems
from peerdescent._util.validation import check_integer
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.faults import as_faults, with_restarts
from peerdescent.distributed.launcher import workers as start_workers
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.problems import Problem
from peerdescent.runs.folder import RunFolder
from peerdescent.training.fingerprint import as_before, describe, limited_threads, make_algorithm, make_settings
from peerdescent.training.loop import Progress, Run
from peerdescent.training.result import Result


def train(
    problem: Problem | str,
    graph: object,
    algorithm: Algorithm | str,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    x0: torch.Tensor | None = None,
    progress: Progress | None = None,
    experiment: dict[str, Any] | None = None,
    workers: int = 1,
    group: ProcessGroup | None = None,
    on_loss: str = "stop",
    kill: Sequence[str] = (),
    stall: Sequence[str] = (),
    **settings: Any,
) -> Result:
    """Train one model among the agents of a graph.

    Args:
        problem: what is minimised, or the name of a problem.
        graph: a Graph, a networkx graph or a text such as "ring:10".
        algorithm: a method, or the name of one.
        out: a folder for the records; None keeps nothing.
        resume: go on where the run in `out` stopped.
        overwrite: replace the run in `out`.
        x0: the agents' starting points, n×p or one row; None takes the problem's.
        progress: called with (iteration, row or None) as the run goes on.
        experiment: what to write down as having been run; made from the arguments unless given.
        workers: local processes that share the agents, started here. The problem is pickled for them, and a script
            that asks for more than one must guard its main part with `if __name__ == "__main__"`.
        group: the processes that share the agents, in each of which `train` is called alike; None for this one alone.
        on_loss: when a process is lost: "stop", "continue" with the agents that are left, or "restart" all workers
            from the last checkpoint (under torchrun, `--max-restarts` does that).
        kill: faults to make, AGENT@ITERATION: the process that hosts the agent kills itself before that iteration.
        stall: faults to make, AGENT@ITERATION:SECONDS: it sleeps for so long.
        **settings: iterations, batch_size, seed and the other fields of `Settings`.

    Raises:
        InputError: something in the input is wrong; the message says what to do.
        DivergedError: the loss is no longer finite; its `result` holds what was recorded.
        PeerLostError: a process is lost, and the run could not go on without it.

    >>> from peerdescent.algorithms import DSGPA
    >>> from peerdescent.problems import Quadratic
    >>> problem = Quadratic(A=[[1.0]] * 3, c=[[0.0], [0.0], [1.0]])
    >>> method = DSGPA(eta=0.1, alpha=1, beta=1, gamma=0.7, power_on="direction")
    >>> result = train(problem, "complete:3", method, iterations=2000, dtype="float64")
    >>> round(float(result.x_mean), 3)
    0.333
    """
    chosen, graph, method = make_settings(settings), graphs.as_graph(graph), make_algorithm(algorithm)
    Placement(graph.n, check_integer("workers", workers, 1))
    faults = as_faults(on_loss, kill, stall)
    faults.check(graph.n, max(workers, group.size if group is not None else 1))
    if workers > 1:
        same = {"out": out, "x0": x0, "experiment": experiment, "on_loss": on_loss, **settings}

        def attempt(number: int) -> Result:
            left = faults.after(number)
            again = {"resume": resume or number > 0, "overwrite": overwrite and not number}
            chosen = {**same, **again, "kill": left.kill, "stall": left.stall}
            with start_workers(workers, _train_too, problem, graph, method, chosen) as started:
                return train(problem, graph, method, progress=progress, group=started, **chosen)

        return with_restarts(faults, attempt)
    problem = problems.make(problem, graph.n) if isinstance(problem, str) else problem
    if problem.agents != graph.n:
        raise InputError(f"the problem has {problem.agents} agents and the graph {graph.n}: they must be the same.")
    if out is not None and resume:
        chosen = as_before(chosen, Path(out))
    with limited_threads(chosen.threads):
        run = Run(problem, graph, method, chosen, x0, group or ProcessGroup.single(), faults)
        if out is None:
            return run.go(progress)
        if not run.group.is_rank_zero:
            run.follow(Path(out))
            return run.go(None)
        with closing(RunFolder(out, resume, overwrite)) as folder:
            run.record_in(folder, experiment or describe(problem, graph, method, chosen))
            return run.go(progress)


def _train_too(
    group: ProcessGroup, problem: Problem | str, graph: Graph, algorithm: Algorithm, same: dict[str, Any]
) -> None:
    train(problem, graph, algorithm, group=group, **same)


def check(problem: Problem, graph: Graph, algorithm: Algorithm, **settings: Any) -> str:
    """Build what a run needs and run nothing: wrong input is found before anything is written.

    Returns the way in which it would compute gradients, "stacked" or "loop".
    """
    chosen = make_settings(settings)
    with limited_threads(chosen.threads):
        return Run(problem, graph, algorithm, chosen, None, ProcessGroup.single()).strategy
