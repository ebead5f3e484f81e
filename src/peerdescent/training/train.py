"""`train`: one model on the agents of a graph, in this process or in several."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from peerdescent import algorithms, graphs, problems
from peerdescent._util.schema import settings_of
from peerdescent._util.validation import check_for_machine, check_integer, described
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.faults import NO_FAULTS, Faults, as_faults
from peerdescent.distributed.launcher import launch
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.problems import Problem
from peerdescent.problems.scores import Metrics
from peerdescent.runs.folder import RunFolder, read_experiment
from peerdescent.training.callbacks import Callback
from peerdescent.training.loop import Run
from peerdescent.training.own_metrics import check_metrics
from peerdescent.training.plan import Plan, make_plan
from peerdescent.training.progress import shown
from peerdescent.training.result import Result
from peerdescent.training.resume import follow, record_in
from peerdescent.training.settings import Settings


def train(
    problem: Problem | str,
    graph: object,
    algorithm: Algorithm | str,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    x0: torch.Tensor | None = None,
    metrics: Metrics | None = None,
    callbacks: Sequence[Callback] = (),
    workers: int = 1,
    group: ProcessGroup | None = None,
    on_loss: str = "stop",
    kill: Sequence[str] = (),
    stall: Sequence[str] = (),
    progress: bool | None = None,
    **settings: Any,
) -> Result:
    """Train one model on the agents of a graph.

    Args:
        problem: what is minimised, or the name of a problem.
        graph: a Graph, a networkx graph or a text such as "ring:10".
        algorithm: a method, or the name of one.
        out: a folder for the records; None keeps nothing.
        resume: continue the run in `out`.
        overwrite: replace the run in `out`.
        x0: the agents' starting points, n×p or one row; None takes the problem's.
        metrics: your own by name: functions of (outputs, targets) over all test inputs, or of x where there is no
            model, that return a number. It is recorded at x̄, and as agent_NAME for agents that are evaluated.
        callbacks: called as the run goes on, see `Callback`; in several processes, in rank 0.
        workers: local processes that share the agents; a script needs `if __name__ == "__main__"` for that.
        group: the processes that share the agents, each of which calls `train` with the same arguments.
        on_loss: when a process is lost: "stop", "continue" without its agents, or "restart" from the last checkpoint.
        kill: faults to inject, AGENT@ITERATION: the agent's process kills itself before that iteration.
        stall: faults to inject, AGENT@ITERATION:SECONDS: it sleeps for so long.
        progress: show a progress bar; None does so in a notebook and at a prompt, not in a script.
        **settings: iterations, batch_size, seed and the other fields of `Settings`.

    Raises:
        InputError: something in the input is wrong; the message says what to do.
        DivergedError: the loss is no longer finite; its `result` holds what was recorded.
        PeerLostError: a process is lost, and the run could not go on without it.

    Warns:
        UserWarning: theory predicts that the method is unstable on this graph, or does not settle.

    >>> result = train("quadratic", "ring:4", "d-sgt-1", iterations=100)
    >>> result.x.shape
    torch.Size([4, 10])
    """
    own = check_metrics(metrics, pickled=group is None and workers != 1)
    plan = replace(plan_of(problem, graph, algorithm, x0, **settings), metrics=own)
    faults = as_faults(on_loss, kill, stall)
    _check(out, callbacks, group)
    _warn_if_unstable(plan, group)
    first = group is None or group.is_rank_zero
    with shown(progress if first else False, plan.name) as bar:
        return run_plan(plan, out, resume, overwrite, [*callbacks, *bar], workers, group, faults)


def _check(out: object, callbacks: object, group: object) -> None:
    """Refuse arguments of a wrong type before anything is written."""
    if out is not None and (not isinstance(out, str | os.PathLike) or "\0" in str(out)):
        raise InputError(f"out is {described(out)}: expected the path of a folder, or None.")
    if not isinstance(callbacks, list | tuple) or not all(isinstance(one, Callback) for one in callbacks):
        raise InputError(f"callbacks is {described(callbacks)}: expected a list of Callback objects.")
    if group is not None and not isinstance(group, ProcessGroup):
        raise InputError(f"group is {described(group)}: expected a ProcessGroup, or None.")


def plan_of(
    problem: Problem | str, graph: object, algorithm: Algorithm | str, x0: torch.Tensor | None = None, **settings: Any
) -> Plan:
    """The plan of a run that is described by objects, names and settings."""
    if isinstance(problem, Problem) and problem.batch_size is not None:
        settings = {"batch_size": problem.batch_size, **settings}
    chosen, graph = make_settings(settings), graphs.as_graph(graph)
    agents = graph.n
    if not isinstance(problem, Problem | str):
        raise InputError(f'problem is {described(problem)}: expected a Problem or a name such as "quadratic".')
    method = algorithms.make(algorithm) if isinstance(algorithm, str) else algorithms.as_algorithm(algorithm)
    names = (
        problem if isinstance(problem, str) else "",
        algorithms.canonical(algorithm) if isinstance(algorithm, str) else "",
    )
    make = partial(problems.make, problem, agents) if isinstance(problem, str) else problem
    return make_plan(make, graph, method, chosen, x0, *names)


def make_settings(given: dict[str, Any]) -> Settings:
    """Settings from keyword arguments; an unknown one is refused."""
    known = [setting.name for setting in settings_of(Settings)]
    for name in given:
        if name not in known:
            raise InputError(f"train has no argument {name!r}: it has {', '.join(known)}.")
    return Settings(**given)


def run_plan(
    plan: Plan,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    callbacks: Sequence[Callback] = (),
    workers: int = 1,
    group: ProcessGroup | None = None,
    faults: Faults = NO_FAULTS,
) -> Result:
    """Carry out a plan, in the group given, in this process, or in local processes that are started here."""
    for name, flag in {"resume": resume, "overwrite": overwrite}.items():
        if not isinstance(flag, bool):
            raise InputError(f"{name} is {described(flag)}: expected True or False.")
    Placement(plan.graph.n, check_integer("workers", workers, 1))
    faults.check(plan.graph.n, max(workers, group.size if group is not None else 1))
    if group is None:
        plan.check_memory(workers)
    folder = None if out is None else Path(out)
    if group is not None:
        return _run_here(group, plan, folder, resume, overwrite, faults, callbacks)

    def rank_zero(group: ProcessGroup, attempt: int) -> Result:
        return _run_attempt(group, attempt, plan, folder, resume, overwrite, faults, callbacks)

    return launch(rank_zero, _run_attempt, (plan, folder, resume, overwrite, faults), workers, faults)


def _run_attempt(
    group: ProcessGroup,
    attempt: int,
    plan: Plan,
    out: Path | None,
    resume: bool,
    overwrite: bool,
    faults: Faults,
    callbacks: Sequence[Callback] = (),
) -> Result:
    """What every process of a launch does: after a restart it resumes, and faults that happened do not repeat."""
    again = attempt > 0
    return _run_here(group, plan, out, resume or again, overwrite and not again, faults.after(attempt), callbacks)


def _run_here(
    group: ProcessGroup,
    plan: Plan,
    out: Path | None,
    resume: bool,
    overwrite: bool,
    faults: Faults,
    callbacks: Sequence[Callback],
) -> Result:
    if out is not None and resume:
        plan = _with_recorded_strategy(plan, out)
    with _limited_threads(plan.settings.threads):
        run = Run(plan, group, faults, callbacks)
        if out is None:
            return run.run()
        if not group.is_rank_zero:
            follow(run, out)
            return run.run()
        with closing(RunFolder(out, resume, overwrite)) as folder:
            record_in(run, folder)
            return run.run()


def _with_recorded_strategy(plan: Plan, out: Path) -> Plan:
    """What an earlier attempt measured or compiled is kept, for the same bits, and so is what it did not compile."""
    asked = plan.settings.gradients
    if asked not in ("auto", "measure") or not os.path.isfile(out / "experiment.toml"):
        return plan
    before = read_experiment(out).get("gradients", asked)
    if before == "auto":
        before = plan.problem.preferred_strategy()[0]
    return replace(plan, settings=plan.settings.replace(gradients=before))


def _warn_if_unstable(plan: Plan, group: ProcessGroup | None) -> None:
    if (group is None or group.is_rank_zero) and plan.predicted_unstable:
        warnings.warn(plan.prediction.sentence(plan.name), stacklevel=3)


@contextmanager
def _limited_threads(count: int | None) -> Iterator[None]:
    """Torch's thread count, set for the run and put back."""
    before = torch.get_num_threads()
    if count is not None:
        check_for_machine("threads", count)
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
