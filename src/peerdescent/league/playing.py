"""One entry of the league: trials inside the stable region, then runs with fresh seeds, on the clock."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from peerdescent import graphs, problems
from peerdescent._util.files import make_folder, write_atomically
from peerdescent._util.numbers import jsonable
from peerdescent.algorithms import Algorithm
from peerdescent.clock.communication import Send, Step, on_graph
from peerdescent.clock.compute import compute_seconds
from peerdescent.clock.model import NetworkModel, from_keys
from peerdescent.clock.simulation import finish_times
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.schema import PROBLEM
from peerdescent.league.tasks import DATA, EVALUATIONS, TUNING_SEED, Entry, Task
from peerdescent.problems import Problem
from peerdescent.runs.clock_file import COLUMN
from peerdescent.runs.folder import read_metrics, read_summary
from peerdescent.runs.metrics import diverged
from peerdescent.tracing.recording import gradients_wanted, vectors_sent
from peerdescent.training.clocked import clocked, communication_of
from peerdescent.training.loop import Run
from peerdescent.training.plan import Plan
from peerdescent.tune.results import read_ends
from peerdescent.tune.search import Scored, best, propose
from peerdescent.tune.space import Point, Space
from peerdescent.tune.tuning import Trial, stability_test, with_values

RESULT = "entry.json"
TRIAL_EVALUATIONS = 2
"""Evaluations of a trial, so that a diverging one stops early."""
LONGEST = 4
"""A method that needs less than the budget of bytes or seconds goes on, up to this many times the iterations."""
FLOAT = 4
"""Bytes of a number in a message."""


@dataclass(frozen=True)
class Limits:
    """What one message per edge that travels during the gradient sends and takes in K iterations: D-SGD's cost.

    Args:
        bytes: of all agents.
        seconds: on the clock, until the last agent has finished.
    """

    bytes: int
    seconds: float


@dataclass(frozen=True)
class Found:
    """What a search has found: the method with the best values (None if all trials diverged), and its cost."""

    method: Algorithm | None
    values: Mapping[str, Any]
    trials: int = 0
    rejected: int = 0


def problem_of(task: Task) -> Problem:
    """The problem of a task; entries that follow each other share it."""
    return _problem(task.data, task.partition, graphs.parse(task.graph).n)


@lru_cache(maxsize=2)
def _problem(data: str, partition: str, agents: int) -> Problem:
    made = DATA[data]
    return problems.make(made["problem"], agents, partition, **made["set"][PROBLEM])


@lru_cache(maxsize=16)
def limits_of(task: Task, iterations: int, network: str) -> Limits:
    """The budgets of a task; `network` holds the keys of the model as JSON."""
    graph, size, model = graphs.parse(task.graph), FLOAT * problem_of(task).dimension, from_keys(json.loads(network))
    sent = on_graph(graph, Step(early=(Send("x"),)), vector_bytes=size)
    ends = 0.0
    for times in finish_times(sent, model, compute_seconds(model, graph.n, TUNING_SEED), iterations):
        ends = float(times.max())
    return Limits(sum(len(sent.pairs(k)) for k in range(iterations)) * size, ends)


def play(entry: Entry, folder: Path, progress: Callable[[int], None]) -> None:
    """Tune and measure one method on one task; its result is written when it is there."""
    make_folder(folder)
    begun = time.process_time()
    record = {"conditions": conditions(entry), **_Play(entry, folder, progress).result()}
    record["seconds"] = time.process_time() - begun
    write_atomically(folder / RESULT, json.dumps(jsonable(record)).encode())
    progress(entry.planned)


def conditions(entry: Entry) -> dict[str, Any]:
    """All that decides an entry's result, as JSON has it."""
    known = describe(entry.experiment, entry.method)
    keys = ("trials", "seeds", "tuning_seeds", "metric")
    facts = {
        "experiment": {key: value for key, value in known.items() if key != "load"},
        "budget": {key: getattr(entry.budget, key) for key in keys},
        "network": entry.network.as_keys(),
        "version": entry.version,
    }
    made: dict[str, Any] = json.loads(json.dumps(facts, default=str))
    return made


def played(entry: Entry, out: Path) -> bool:
    """Whether the result of an entry is there, under just these conditions."""
    wanted = conditions(entry)
    return _filled(read(entry, out).get("conditions", {}), wanted) == wanted


def _filled(known: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Earlier conditions with what later versions have added, whose defaults leave results as they were.

    >>> _filled({"set": {"eta": 0.1}}, {"set": {"eta": 0.2, "momentum": 0}, "new": 1})
    {'set': {'eta': 0.1}}
    >>> _filled({"experiment": {"set": {"eta": 0.1}}}, {"experiment": {"set": {"eta": 0.2, "momentum": 0}, "new": 1}})
    {'experiment': {'set': {'eta': 0.1, 'momentum': 0}, 'new': 1}}
    """
    return {key: _fill(value, wanted.get(key)) if key == "experiment" else value for key, value in known.items()}


def _fill(known: Any, wanted: Any) -> Any:
    if not isinstance(known, dict) or not isinstance(wanted, dict):
        return known
    return {**wanted, **{key: _fill(value, wanted.get(key)) for key, value in known.items()}}


def read(entry: Entry, out: Path) -> dict[str, Any]:
    """The record of an entry; empty if there is none."""
    try:
        record = json.loads((entry.folder(out) / RESULT).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) else {}


class _Play:
    """The runs of one entry, one after another."""

    def __init__(self, entry: Entry, folder: Path, progress: Callable[[int], None]) -> None:
        self.entry, self.folder, self.progress = entry, folder, progress
        self.before = 0
        """The iterations of all runs that have ended."""

    def result(self) -> dict[str, Any]:
        """The record, without its fingerprint."""
        entry = self.entry
        try:
            (plan,) = resolve(entry.experiment)
            plan = _with_problem(plan, entry.task)
            Run(plan, ProcessGroup.single())
        except InputError as error:
            return {"refused": str(error)}
        limits = limits_of(entry.task, entry.experiment.iterations, json.dumps(entry.network.as_keys()))
        found = self._search(plan.algorithm)
        facts = {
            "refused": "",
            "notes": list(plan.weights.notes),
            "vectors": vectors_sent(plan.algorithm),
            "gradients": gradients_wanted(plan.algorithm),
            "iterations": entry.experiment.iterations,
            "limits": asdict(limits),
            "values": found.values,
            "trials": found.trials,
            "rejected": found.rejected,
        }
        runs = [] if found.method is None else self._measure(found.method, plan, limits)
        return {**facts, "found": found.method is not None, "runs": runs}

    def _search(self, own: Algorithm) -> Found:
        """The rounds of trials; a method without anything to tune keeps its own values."""
        entry, name = self.entry, self.entry.method
        try:
            space = Space.of(name, own)
        except InputError:
            return Found(own, {})
        stable, found, trials, rejected = stability_test(space, entry.experiment), list[Scored](), 0, 0
        for this in entry.budget.rounds(entry.experiment.iterations):
            proposal = propose(space, found, this, stable, entry.experiment.seed, f"league {name}")
            length = {"iterations": this.iterations, "eval_every": max(1, this.iterations // TRIAL_EVALUATIONS)}
            points: Sequence[Point] = proposal.points
            runs = [
                self._trial(space.at(point), f"trials/round-{this.number}/{number:02}", **length)
                for number, point in enumerate(points, start=1)
            ]
            self._execute(runs)
            scores = [read_ends([run.folder(self.folder)]).score(entry.budget.metric) for run in runs]
            found = [Scored(point, score) for point, score in zip(points, scores, strict=True)]
            trials, rejected = trials + len(points), rejected + len(proposal.rejected)
        winner = best(found)
        if winner is None:
            return Found(None, {}, trials, rejected)
        return Found(space.at(winner.point), space.options(winner.point), trials, rejected)

    def _measure(self, method: Algorithm, plan: Plan, limits: Limits) -> list[dict[str, Any]]:
        """The runs with fresh seeds, each as a curve over iterations, bytes and simulated seconds."""
        first = self.entry.experiment.seed + self.entry.budget.tuning_seeds
        seeds = range(first, first + self.entry.budget.seeds)
        length = _length(replace(plan, algorithm=method), limits, self.entry.network)
        every = max(1, self.entry.experiment.iterations // EVALUATIONS)
        runs = [self._trial(method, f"fresh/seed-{s}", seed=s, iterations=length, eval_every=every) for s in seeds]
        self._execute(runs)
        return [self._curve(run, plan.dimension) for run in runs]

    def _trial(self, method: Algorithm, place: str, **keys: Any) -> Trial:
        experiment = with_values(self.entry.experiment, {self.entry.method: method})
        return Trial(experiment.replace(**keys), place)

    def _execute(self, runs: Sequence[Trial]) -> None:
        def report(_: Trial, k: int) -> None:
            self.progress(self.before + k)

        for run in runs:
            pool.execute([run], self.folder, 1, report, partial(_train, self.entry.task))
            self.before += run.experiment.iterations

    def _curve(self, run: Trial, dimension: int) -> dict[str, Any]:
        (plan,) = resolve(run.experiment)
        sent = communication_of(plan.algorithm, plan.graph, plan.settings, dimension)
        folder = run.folder(self.folder)
        table = clocked(read_metrics(folder), sent, self.entry.network, run.experiment.seed)
        return {
            "seed": run.experiment.seed,
            "diverged": diverged(read_summary(folder)),
            "iterations": table["iteration"],
            "bytes": table["bytes_sent"],
            "seconds": table[COLUMN],
            "loss": table["loss"],
            "accuracy": table[-1].get("accuracy"),
        }


def _train(task: Task, run: Trial, folder: Path, progress: Callable[[int], None]) -> None:
    (plan,) = resolve(run.experiment)
    pool.train(_with_problem(plan, task), folder, progress)


def _with_problem(plan: Plan, task: Task) -> Plan:
    return replace(plan, make_problem=partial(problem_of, task))


def _length(plan: Plan, limits: Limits, model: NetworkModel) -> int:
    """The iterations until both the bytes and the seconds are used up: at least K, at most `LONGEST` times K."""
    planned = plan.settings.iterations
    longest = LONGEST * planned
    sent = plan.volume(plan.weights).between(0, planned)
    needed = math.ceil(planned * limits.bytes / sent) if sent else planned
    compute = compute_seconds(model, plan.graph.n, plan.settings.seed)
    sends = communication_of(plan.algorithm, plan.graph, plan.settings, plan.dimension)
    ends = enumerate(finish_times(sends, model, compute, longest), start=1)
    slow = next((k for k, times in ends if times.max() >= limits.seconds), longest)
    return min(longest, max(planned, needed, slow))
