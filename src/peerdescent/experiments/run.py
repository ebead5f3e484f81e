"""Experiments executed: one run folder per method, one comparison above them."""

from __future__ import annotations

import contextlib
import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from peerdescent import loggers
from peerdescent._util import extras, toml
from peerdescent._util.files import write_atomically
from peerdescent._util.validation import check_integer
from peerdescent._version import __version__
from peerdescent.distributed.faults import Faults, as_faults
from peerdescent.distributed.launcher import launch
from peerdescent.distributed.placement import Placement
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.torchrun import restarts_of_torchrun
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments.resolve import describe, prepare, resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.report.layout import MATCHED, WeightedGraph
from peerdescent.report.summary import summary_table
from peerdescent.report.tables import Table
from peerdescent.runs.contents import COMPARISON, prepare_folder
from peerdescent.runs.fingerprint import identity
from peerdescent.runs.folder import write_environment
from peerdescent.runs.log_files import logs_in
from peerdescent.training.callbacks import Callback
from peerdescent.training.loop import Run
from peerdescent.training.plan import Plan
from peerdescent.training.result import Result
from peerdescent.training.train import run_plan

CallbacksFor = Callable[[str], Sequence[Callback]]
"""The callbacks for a method, by its name."""


@dataclass(frozen=True)
class RunOptions:
    """Where the records go, in how many processes, and what happens when one is lost."""

    out: Path | None = None
    resume: bool = False
    overwrite: bool = False
    workers: int = 1
    """Local processes that share the agents."""
    on_loss: str = "stop"
    kill: tuple[str, ...] = ()
    stall: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    """Loggers that write into the run folder besides the records."""

    @property
    def faults(self) -> Faults:
        """What happens when a process is lost, and which faults to inject."""
        return as_faults(self.on_loss, self.kill, self.stall)

    def after(self, restarts: int) -> RunOptions:
        """The same after some restarts: it resumes, and faults that happened do not repeat."""
        if not restarts:
            return self
        return replace(self, resume=True, overwrite=False, kill=self.faults.after(restarts).kill)

    def folder(self, name: str) -> Path:
        """The folder for the records, a new one below runs/ unless given; contradictions are refused."""
        if self.resume and self.out is None:
            raise InputError("--resume needs --out: name the run folder to resume.")
        if self.resume and self.overwrite:
            raise InputError("--resume and --overwrite contradict each other: keep one.")
        return self.out or _new_folder(name)


def _new_folder(name: str) -> Path:
    stem = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}"  # others may start in the same second
    candidates = (Path("runs", stem + (f"-{number}" if number > 1 else "")) for number in range(1, 1000))
    return next(folder for folder in candidates if not os.path.exists(folder))  # False for too long a name


@dataclass
class Outcome:
    """A method's result, and the error it ended with if it diverged."""

    result: Result
    error: DivergedError | None = None

    @property
    def notes(self) -> list[str]:
        """What the table shows beside the numbers."""
        ends = [f"diverged at iteration {self.result.metrics[-1]['iteration']}"] if self.error is not None else []
        return ends + self.result.notes


def execute(
    experiment: Experiment,
    options: RunOptions,
    together: bool,
    callbacks_for: CallbacksFor = lambda name: (),
    group: ProcessGroup | None = None,
    plans: Sequence[Plan] | None = None,
) -> dict[str, Outcome]:
    """Run one method, or several side by side (`together`), alone or in several processes.

    Args:
        experiment: what is run.
        options: where, in how many processes; `out` must be given.
        together: whether every method gets a folder of its own below `out`, with one comparison above them.
        callbacks_for: what is called as each method goes on, in rank 0.
        group: the processes that torchrun started, if it did.
        plans: the experiment, if it was resolved before.
    """
    experiment = prepare(experiment)
    plans = resolve(experiment) if plans is None else plans
    agents = plans[0].graph.n
    check_integer("--workers", options.workers, 1)
    options.faults.check(agents, group.size if group is not None else options.workers)
    if group is not None:
        for plan in plans:
            plan.check_memory()
        options = _agreed(experiment, options, together, group)
        return _execute(group, experiment, plans, options, together, callbacks_for)
    Placement(agents, options.workers)
    for plan in plans:
        plan.check_memory(options.workers)

    def rank_zero(started: ProcessGroup, attempt: int) -> dict[str, Outcome]:
        return _execute(started, experiment, plans, options.after(attempt), together, callbacks_for)

    return launch(rank_zero, _follow, (experiment, options, together), options.workers, options.faults)


def _agreed(experiment: Experiment, options: RunOptions, together: bool, group: ProcessGroup) -> RunOptions:
    """Under torchrun: all processes were started alike, and use the folder of rank 0."""
    if options.workers > 1:
        raise InputError("--workers starts processes of its own: leave it out under torchrun.")
    asked = {"command": "compare" if together else "run", "resume": str(options.resume), "on-loss": options.on_loss}
    known = identity(describe(experiment, *experiment.algorithms))
    group.check_same_on_all_ranks({"version": __version__, **asked, **known})
    after = options.after(restarts_of_torchrun())
    return replace(after, out=Path(group.broadcast_object(str(options.out))))


def _follow(group: ProcessGroup, attempt: int, experiment: Experiment, options: RunOptions, together: bool) -> None:
    """What a worker does: the same as rank 0, without a word."""
    _execute(group, experiment, resolve(experiment), options.after(attempt), together, lambda name: ())


def _execute(
    group: ProcessGroup,
    experiment: Experiment,
    plans: Sequence[Plan],
    options: RunOptions,
    together: bool,
    callbacks_for: CallbacksFor,
) -> dict[str, Outcome]:
    assert options.out is not None
    out = options.out
    if not together:
        outcomes = {plan.name: run_one(plan, out, options, callbacks_for(plan.name), group) for plan in plans}
    else:
        for plan in plans:
            Run(plan, ProcessGroup.single())  # wrong input is found before anything is written
        with _comparison(experiment, options, out) if group.is_rank_zero else contextlib.nullcontext():
            outcomes = {
                plan.name: run_one(plan, out / plan.name, options, callbacks_for(plan.name), group) for plan in plans
            }
    if group.is_rank_zero:
        _draw(experiment, outcomes, out)
    return outcomes


@contextlib.contextmanager
def _comparison(experiment: Experiment, options: RunOptions, out: Path) -> Iterator[None]:
    """The folder of a comparison, locked; what an earlier one says it holds stays until the runs have accepted it."""
    description = toml.dumps(describe(experiment, *experiment.algorithms))
    with prepare_folder(out, options.resume, options.overwrite):
        known = (out / COMPARISON).is_file()
        if not known:
            write_environment(out)
            write_atomically(out / COMPARISON, description)
        yield
        if known:
            write_environment(out)
            write_atomically(out / COMPARISON, description)


def run_one(
    plan: Plan,
    out: Path,
    options: RunOptions,
    callbacks: Sequence[Callback] = (),
    group: ProcessGroup | None = None,
) -> Outcome:
    """One method, with records in `out`; one that diverges has an outcome too."""
    group = group or ProcessGroup.single()
    if group.is_rank_zero:
        callbacks = [*callbacks, *loggers.make(_logs(out, options))]
    try:
        result = run_plan(plan, out, options.resume, options.overwrite, callbacks, group=group, faults=options.faults)
        return Outcome(result)
    except DivergedError as error:
        return Outcome(error.result, error)


def _logs(out: Path, options: RunOptions) -> list[str]:
    """The loggers that are asked for, and those that a resumed run had: their files would end before it."""
    before = [name for name in logs_in(out) if options.resume and name not in options.log]
    missing = [name for name in before if name != "csv" and not extras.installed(name)]
    for name in missing:
        warnings.warn(f"{out} has logs for {name}, which is not installed: they are not continued", stacklevel=3)
    return [*options.log, *(name for name in before if name not in missing)]


def _draw(experiment: Experiment, outcomes: Mapping[str, Outcome], out: Path) -> None:
    """Write tables and, if matplotlib is installed, figures next to the records."""
    summary(outcomes).write(out / "table", ("md", "csv"))
    try:
        extras.require("matplotlib", "figures")
    except InputError as error:  # the run itself is complete
        warnings.warn(f"no figure is drawn: {error}", stacklevel=2)
        return
    from peerdescent.report import drawing, figures

    curves = {name: outcome.result.metrics for name, outcome in outcomes.items()}
    drawing.save(figures.comparison(curves, experiment.title), out / "figures" / "comparison")
    drawn = weighted_graph(experiment, [outcome.result for outcome in outcomes.values()])
    drawing.save(drawing.topology(drawn.graph, drawn.spectrum, drawn.kind), out / "figures" / "topology")


def weighted_graph(experiment: Experiment, results: Sequence[Result | Plan]) -> WeightedGraph:
    """The graph with the spectrum of the methods' L; if that is matched to several methods, with that of I−W."""
    first = results[0]
    if first.graph.period != 1 or first.weights is None or (experiment.laplacian == MATCHED and len(results) > 1):
        return WeightedGraph.build(first.graph, experiment.laplacian, experiment.mixing)
    return WeightedGraph(first.graph, first.weights.spectrum, experiment.laplacian)


def summary(outcomes: Mapping[str, Outcome]) -> Table:
    """How each method ended."""
    return summary_table({name: {**o.result.summary(), "notes": o.notes} for name, o in outcomes.items()})
