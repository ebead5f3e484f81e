"""What the league is played on: data sets × partitions × graphs, and the settings that all methods share."""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any

from peerdescent import algorithms, graphs
from peerdescent._util.files import read_file
from peerdescent._util.validation import check_choice, check_integer
from peerdescent.clock.files import read as read_network
from peerdescent.clock.model import NetworkModel
from peerdescent.data import partition as make_partition
from peerdescent.errors import InputError
from peerdescent.experiments.schema import PROBLEM, Experiment, from_keys
from peerdescent.experiments.user_code import MOST_BYTES, load_methods
from peerdescent.tune.search import Budget

DATA: Mapping[str, Mapping[str, Any]] = {
    "adult": {"problem": "logistic-nonconvex", "set": {PROBLEM: {"source": "adult"}}},
    "fashion-mnist": {
        "problem": "mlp",
        "set": {PROBLEM: {"source": "fashion-mnist", "hidden": 32, "evaluated": 4000}},
    },
    "digits": {"problem": "mlp", "set": {PROBLEM: {"source": "digits", "hidden": 32}}},
}
"""Data set → the problem on it."""
PARTITIONS = ("iid", "dirichlet:0.1")
GRAPHS = ("ring:16", "onepeer-exp:16")
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "k-gt": {"communication_period": 4},
    "led": {"communication_period": 4},
    "proxskip": {"communication_period": "random:0.25"},
    "choco-sgd": {"compress": "topk:0.1"},
    "beer": {"compress": "topk:0.1"},
    "motef": {"compress": "topk:0.1"},
}
"""Methods that are made for local steps or compressed messages → the settings that they run with."""
BATCH = 16
EVALUATIONS = 16
"""Evaluations of a measured run; between them the loss is interpolated."""
TUNING_SEED = 0
"""The seed of the trials; the fresh ones follow."""
_SHIPPED = frozenset(algorithms.PRESETS)
"""The methods of the library; any other one comes from the user's files."""
_FLAGS = {
    "methods": "-a",
    "data": "--data",
    "partitions": "--partition",
    "graphs": "--graph",
    "iterations": "--iterations",
    "trials": "--trials",
    "seeds": "--seeds",
    "network": "--network",
    "load": "--load",
}


@dataclass(frozen=True)
class Task:
    """A data set, split among the agents of a graph.

    >>> Task("digits", "dirichlet:0.1", "ring:16").folder
    'digits-dirichlet-0.1-ring-16'
    """

    data: str
    partition: str
    graph: str

    def __str__(self) -> str:
        return f"{self.data}, {self.partition}, {self.graph}"

    @property
    def folder(self) -> str:
        """A name for its files."""
        text = f"{self.data} {self.partition} {self.graph}"
        return "-".join("".join(c if c.isalnum() or c == "." else " " for c in text).split())


@dataclass(frozen=True)
class Entry:
    """One method on one task: its trials, then its runs with fresh seeds.

    Args:
        task: what it is played on.
        method: the name of the method.
        experiment: the run of K iterations with the method's own values and the tuning seed.
        budget: trials and seeds.
        network: of the clock.
        version: identifies the user's code if the method comes from there, so that a changed one starts anew.
    """

    task: Task
    method: str
    experiment: Experiment
    budget: Budget
    network: NetworkModel
    version: str = ""

    def folder(self, out: Path) -> Path:
        """Where its records are."""
        return out / "runs" / self.task.folder / f"{self.method}{'-' * bool(self.version)}{self.version}"

    @cached_property
    def planned(self) -> int:
        """The iterations of all its runs, if none diverges and none is longer than planned."""
        rounds = self.budget.rounds(self.experiment.iterations)
        return sum(r.trials * r.iterations for r in rounds) + self.budget.seeds * self.experiment.iterations


@dataclass(frozen=True)
class League:
    """Who plays on what, and at which budget; everything is checked on construction.

    Args:
        methods: names; all registered methods, those of `load` too, unless given.
        data: data sets, of `DATA`.
        partitions: how they are split.
        graphs: who talks to whom.
        iterations: K, of a measured run.
        trials: trial runs of each method on each task; later ones are fewer and longer.
        seeds: fresh seeds.
        network: of the clock: a file, or a name such as "wan".
        load: Python files that register methods of the user's own.

    >>> league = League(methods=("d2", "nids"), data=("digits",))
    >>> [str(task) for task in league.tasks][:2], len(league.entries)
    (['digits, iid, ring:16', 'digits, iid, onepeer-exp:16'], 8)
    """

    methods: Sequence[str] = ()
    data: Sequence[str] = tuple(DATA)
    partitions: Sequence[str] = PARTITIONS
    graphs: Sequence[str] = GRAPHS
    iterations: int = 400
    trials: int = 12
    seeds: int = 3
    network: str = "wan"
    load: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("methods", "data", "partitions", "graphs", "load"):
            object.__setattr__(self, name, tuple(dict.fromkeys(getattr(self, name))))
        for name, value in (("iterations", self.iterations), ("trials", self.trials), ("seeds", self.seeds)):
            check_integer(name, value, 1)
        for name, values in (("data", self.data), ("partition", self.partitions), ("graph", self.graphs)):
            if not values:
                raise InputError(f"--{name} is empty: name at least one, or leave it out.")
        for name in self.data:
            check_choice("data", name, DATA)
        for how in self.partitions:
            make_partition([0, 1], 1, how, groups={how.removeprefix("by:"): ["a", "b"]})  # refuses what means nothing
        for graph in self.graphs:
            graphs.parse(graph)
        if self.model.compute.seconds is None:
            raise InputError(
                f"network = {self.network!r} has computing times relative to a stopwatch, which would decide ranks: "
                "give compute.seconds instead of compute.relative."
            )
        for path in self.load:
            load_methods(path)
        names = dict.fromkeys(map(algorithms.canonical, self.methods or algorithms.PRESETS))
        if len(names) < 2:
            raise InputError(f"a league of {', '.join(names)} alone has no ranks: name at least two methods.")
        object.__setattr__(self, "methods", tuple(names))

    @cached_property
    def model(self) -> NetworkModel:
        """The network of the clock."""
        return read_network(self.network)

    @property
    def budget(self) -> Budget:
        """Of every method on every task."""
        return Budget(self.trials, self.seeds)

    @property
    def tasks(self) -> list[Task]:
        """All combinations of data, partition and graph."""
        return [Task(d, p, g) for d in self.data for p in self.partitions for g in self.graphs]

    @property
    def entries(self) -> list[Entry]:
        """Every method on every task, task by task."""
        version = hashlib.sha256(b"".join(read_file(Path(path), "Python file", MOST_BYTES) for path in self.load))
        own = version.hexdigest()[:8] if self.load else ""
        return [
            Entry(task, name, self._experiment(task, name), self.budget, self.model, "" if name in _SHIPPED else own)
            for task in self.tasks
            for name in self.methods
        ]

    def _experiment(self, task: Task, method: str) -> Experiment:
        keys = {
            **DATA[task.data],
            **SETTINGS.get(method, {}),
            "algorithm": method,
            "partition": task.partition,
            "graph": task.graph,
            "iterations": self.iterations,
            "eval_every": max(1, self.iterations // EVALUATIONS),
            "batch_size": BATCH,
            "per_agent": False,
            "seed": TUNING_SEED,
            "load": list(self.load),
        }
        return from_keys(keys, "the league")

    @property
    def command(self) -> str:
        """The command line of the same league."""
        usual = {**{f.name: f.default for f in fields(self)}, "methods": tuple(algorithms.PRESETS)}
        words = ["peerdescent", "league"]
        for key, flag in _FLAGS.items():
            given = getattr(self, key)
            if given != usual[key]:
                values = given if isinstance(given, tuple) else (given,)
                words += [word for value in values for word in (flag, str(value))]
        return shlex.join(words)
