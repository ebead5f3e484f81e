"""Tuning: rounds of parallel trials, then runs with the best and the own values on fresh seeds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerdescent import graphs, theory
from peerdescent._util import toml
from peerdescent._util.files import read_text, write_atomically
from peerdescent._util.numbers import jsonable
from peerdescent._util.validation import check_integer
from peerdescent.algorithms import Algorithm
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.experiments.resolve import describe, make_algorithm, prepare, resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.runs.contents import ENVIRONMENT, TUNING, is_leftover, prepare_folder
from peerdescent.runs.folder import write_environment
from peerdescent.tracing.recording import gradients_wanted
from peerdescent.training.loop import Run
from peerdescent.tune.recommended import recommended
from peerdescent.tune.results import Cost, Ends, Tuned, Tuning, read_cost, read_ends
from peerdescent.tune.search import Budget, Proposal, Round, Scored, best, propose
from peerdescent.tune.space import Point, Space

EVALUATIONS = 10
"""Evaluations per trial, so that a diverging trial stops early."""


@dataclass(frozen=True)
class Trial:
    """One run of a tuning and its folder."""

    experiment: Experiment
    place: str

    def folder(self, out: Path) -> Path:
        """Return the folder of the run."""
        return out / self.place


OnProgress = Callable[[str, Sequence[Trial]], Callable[[Trial, int], None]]
"""Called with a stage and its runs; returns the progress callback of these runs."""


def tune(
    experiment: Experiment,
    out: Path,
    budget: Budget,
    jobs: int = 1,
    resume: bool = False,
    overwrite: bool = False,
    progress: OnProgress = lambda stage, runs: lambda run, k: None,
) -> Tuning:
    """Find good values for every method of an experiment, and evaluate them on seeds that the search did not use.

    Args:
        experiment: problem, graph, methods; the search starts from its values, and its seed is the first one.
        out: the folder for all files; `resume` continues an interrupted tuning there.
        budget: the budget of every method.
        jobs: number of parallel runs.
        resume: continue the tuning in `out`.
        overwrite: replace the contents of `out`.
        progress: called at the start of every stage.

    >>> import tempfile
    >>> keys = {"problem": "quadratic", "graph": "ring:4", "batch_size": 0, "iterations": 50}
    >>> slow = Experiment(algorithms=("d-sgd-1",), set={"eta": 0.001}, **keys)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = tune(slow, Path(folder, "tuned"), Budget(trials=6, seeds=1))
    >>> found.better, found.methods[0].best["eta"] > 0.001
    (['d-sgd-1'], True)
    """
    experiment = _checked(experiment, budget)
    with prepare_folder(out, resume, overwrite):
        experiment = _described(experiment, out, budget, resume)
        search = _Search(experiment, out, budget, jobs, progress)
        for this in budget.rounds(experiment.iterations):
            search.run_round(this)
        return search.measure()


class _Search:
    """The searches of all methods, round by round, so that their trials run in parallel."""

    def __init__(self, experiment: Experiment, out: Path, budget: Budget, jobs: int, progress: OnProgress) -> None:
        self.experiment, self.out, self.budget, self.jobs, self.progress = experiment, out, budget, jobs, progress
        self.graph = graphs.parse(experiment.graph)
        self.spaces = {name: Space.of(name, make_algorithm(experiment, name)) for name in experiment.algorithms}
        self.found: dict[str, list[Scored]] = {name: [] for name in self.spaces}
        self.recommended = recommended(experiment, self.spaces)
        self.costs = {name: Cost() for name in self.spaces}
        self.rejected = dict.fromkeys(self.spaces, 0)
        self.lines: list[dict[str, Any]] = []
        first = experiment.seed
        self.tuning_seeds = range(first, first + budget.tuning_seeds)
        self.fresh_seeds = range(self.tuning_seeds.stop, self.tuning_seeds.stop + budget.seeds)

    def run_round(self, this: Round) -> None:
        """Run one round of every method."""
        seed = self.experiment.seed
        proposals = {
            name: propose(
                space,
                self.found[name],
                this,
                stability_test(space, self.experiment),
                seed,
                f"tune {name}",
                self.recommended[name](this.iterations),
            )
            for name, space in self.spaces.items()
        }
        trials = {name: self._trials(name, proposal, this) for name, proposal in proposals.items()}
        self._execute(f"round {this.number}", [run for own in trials.values() for runs in own for run in runs])
        for name, own in trials.items():
            self._record_round(name, this, proposals[name], own)
        text = "".join(json.dumps(line) + "\n" for line in self.lines)
        write_atomically(self.out / "trials.jsonl", text.encode())

    def measure(self) -> Tuning:
        """Run every method with the best values and with its own values on the fresh seeds."""
        own = {name: self._runs(name, space.own, "own") for name, space in self.spaces.items()}
        winners = {name: one for name, found in self.found.items() if (one := best(found)) is not None}
        tuned = {
            name: own[name] if one.point == self.spaces[name].own else self._runs(name, one.point, "tuned")
            for name, one in winners.items()
        }
        places = {run.place: run for runs in (*own.values(), *tuned.values()) for run in runs}
        self._execute("fresh seeds", list(places.values()))
        methods = [self._tuned(name, own[name], winners.get(name), tuned.get(name, [])) for name in self.spaces]
        costs = (self._cost(name, {run.place: run for run in (*own[name], *tuned.get(name, []))}) for name in own)
        return Tuning(self.experiment, self.budget, self.tuning_seeds, self.fresh_seeds, methods, sum(costs, Cost()))

    def _cost(self, name: str, runs: Mapping[str, Trial]) -> Cost:
        """The cost of runs of a method, by their places."""
        gradients = gradients_wanted(self.spaces[name].method)
        return read_cost([run.folder(self.out) for run in runs.values()], self.graph.n, gradients)

    def _tuned(self, name: str, own: Sequence[Trial], winner: Scored | None, runs: Sequence[Trial]) -> Tuned:
        space = self.spaces[name]
        values, ends = (None, None) if winner is None else (space.options(winner.point), self._ends(runs))
        tried = sum(line["method"] == name and line["stable"] for line in self.lines)
        spent = (tried, self.rejected[name], self.costs[name])
        return Tuned(name, space.options(space.own), self._ends(own), values, ends, *spent)

    def _trials(self, name: str, proposal: Proposal, this: Round) -> list[list[Trial]]:
        """Return one run per tuning seed for each point of a round."""
        shorter = {"iterations": this.iterations, "eval_every": max(1, this.iterations // EVALUATIONS)}
        return [
            [
                self._run(name, point, seed, f"trials/{name}/round-{this.number}/{number:02}/seed-{seed}", **shorter)
                for seed in self.tuning_seeds
            ]
            for number, point in enumerate(proposal.points, start=1)
        ]

    def _runs(self, name: str, point: Point, place: str) -> list[Trial]:
        return [self._run(name, point, seed, f"{place}/{name}/seed-{seed}") for seed in self.fresh_seeds]

    def _run(self, name: str, point: Point, seed: int, place: str, **keys: Any) -> Trial:
        experiment = with_values(self.experiment, {name: self.spaces[name].at(point)})
        return Trial(experiment.replace(seed=seed, **keys), place)

    def _execute(self, stage: str, runs: Sequence[Trial]) -> None:
        pool.execute(runs, self.out, self.jobs, self.progress(stage, runs))

    def _ends(self, runs: Sequence[Trial]) -> Ends:
        return read_ends([run.folder(self.out) for run in runs])

    def _record_round(self, name: str, this: Round, proposal: Proposal, trials: Sequence[Sequence[Trial]]) -> None:
        """Record the results of a round of one method."""
        space, metric = self.spaces[name], self.budget.metric
        self.found[name] = []
        for point, runs in zip(proposal.points, trials, strict=True):
            ends, cost = self._ends(runs), self._cost(name, {run.place: run for run in runs})
            score = ends.score(metric)
            self.found[name].append(Scored(point, score))
            self.costs[name] += cost
            outcome = {"seeds": list(self.tuning_seeds), "loss": ends.loss, "accuracy": ends.accuracy}
            self._record(name, this, space.options(point), True, **outcome, seconds=cost.seconds)
        for point in proposal.rejected:
            self._record(name, this, space.options(point), False)
        self.rejected[name] += len(proposal.rejected)

    def _record(self, name: str, this: Round, parameters: Mapping[str, Any], stable: bool, **more: Any) -> None:
        line = {"method": name, "round": this.number, "iterations": this.iterations, "parameters": parameters}
        self.lines.append(jsonable({**line, "stable": stable, **more}))


def stability_test(space: Space, experiment: Experiment) -> Callable[[Point], bool]:
    """Whether a point of a method's space is stable on the graph of an experiment.

    >>> from peerdescent.algorithms import DSGT1
    >>> test = stability_test(Space.of("d-sgt-1", DSGT1()), Experiment(graph="ring:8"))
    >>> test({"eta": 0.1})
    True
    """
    graph, kinds = graphs.parse(experiment.graph), (experiment.laplacian, experiment.mixing)

    def stable(point: Point) -> bool:
        try:
            period = experiment.communication_period
            return theory.stability(space.at(point), graph, *kinds, communication_period=period).stable
        except InputError:  # theory cannot treat the method, so a trial must decide
            return True

    return stable


def with_values(experiment: Experiment, methods: Mapping[str, Algorithm]) -> Experiment:
    """Return the experiment with only these methods and all of their values explicit.

    >>> from peerdescent.algorithms import DSGD1
    >>> with_values(Experiment(set={"eta": 0.1}), {"d-sgd-1": DSGD1(eta=0.2)}).set
    {'d-sgd-1': {'eta': 0.2}}
    """
    problem = {"problem": experiment.set["problem"]} if "problem" in experiment.set else {}
    values = {name: method.parameters() for name, method in methods.items()}
    return experiment.replace(algorithms=tuple(methods), set={**problem, **values})


def _checked(experiment: Experiment, budget: Budget) -> Experiment:
    """Check that everything can be built, and fix the gradient strategy for all runs."""
    check_integer("iterations", experiment.iterations, 1)
    experiment = prepare(experiment.replace(per_agent=False))  # only f(x̄) matters
    plans = resolve(experiment)
    problem = plans[0].problem
    if budget.metric == "accuracy" and problem.accuracy(problem.start(experiment.seed).mean(dim=0)) is None:
        raise InputError(f"metric = 'accuracy': {experiment.problem} has no test data; use 'loss'.")
    for plan in plans:
        Space.of(plan.name, plan.algorithm)
    strategies = [Run(plan, ProcessGroup.single()).strategy for plan in plans]
    return experiment.replace(gradients=strategies[0]) if experiment.gradients == "measure" else experiment


def _described(experiment: Experiment, out: Path, budget: Budget, resume: bool) -> Experiment:
    """Write the settings of the tuning, or compare them with those in the folder and keep its gradient strategy."""
    path = out / TUNING
    wanted = {"budget": vars(budget), "experiment": describe(experiment, *experiment.algorithms)}
    if path.is_file():
        known = toml.loads(read_text(path, "settings"), str(path))
        before = known.get("experiment", {}).get("gradients", experiment.gradients)
        wanted["experiment"]["gradients"] = before
        if known != wanted:
            raise InputError(f"{out} contains a tuning with other settings; choose another --out, or use --overwrite.")
        return experiment.replace(gradients=before)
    if resume and any(item.name != ENVIRONMENT and not is_leftover(item) for item in out.iterdir()):
        raise InputError(f"{out} contains no tuning to resume; choose another --out.")
    write_environment(out)
    write_atomically(path, toml.dumps(wanted))
    return experiment
