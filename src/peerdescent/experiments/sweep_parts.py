"""The runs of a sweep: every method at the points of its grid, for every seed, each in a folder of its own.

METHOD/seed-0                 without a grid
METHOD/eta=0.1,gamma=0.7/seed-0
"""

from __future__ import annotations

import hashlib
import itertools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peerdescent import algorithms
from peerdescent._util.validation import did_you_mean
from peerdescent.errors import InputError
from peerdescent.experiments.resolve import make_algorithm, prepare
from peerdescent.experiments.schema import PROBLEM, Experiment
from peerdescent.experiments.sweep import MOST_RUNS, Grid, Sweep

LONGEST_NAME = 120
"""Characters of a folder's name; a longer one is cut and gets a digest."""
Point = tuple[tuple[str, Any], ...]
"""The names and values of one point of a grid; those of the problem begin with "problem."."""


@dataclass(frozen=True)
class SweepPart:
    """One run of a sweep: an experiment with one method, a point of its grid and a seed."""

    experiment: Experiment
    point: Point
    log: tuple[str, ...] = ()

    @property
    def method(self) -> str:
        """The name of the method."""
        return self.experiment.algorithms[0]

    @property
    def label(self) -> str:
        """The method and the point, in words."""
        return " · ".join([self.method, *(f"{key}={value}" for key, value in self.point)])

    def folder(self, out: Path) -> Path:
        """Where its records are, below the folder of the sweep."""
        return out.joinpath(*place(self.method, self.point, self.experiment.seed).parts)


def place(method: str, point: Point, seed: int) -> Path:
    """The folder of a run below that of its sweep.

    >>> place("d2", (("eta", 0.1), ("problem.noise", 2)), 7).as_posix()
    'd2/eta=0.1,problem.noise=2/seed-7'
    """
    return Path(method, *([folder_name(point)] if point else []), f"seed-{seed}")


def folder_name(point: Point) -> str:
    """A point as the name of a folder: what no name may hold is replaced, and then a digest keeps names apart.

    >>> folder_name((("eta", "cosine:0.1:100"), ("gamma", 0.7)))
    'eta=cosine:0.1:100,gamma=0.7'
    """
    text = ",".join(f"{key}={value}" for key, value in point)
    name = re.sub(r"[^\w.,:=+@-]", "_", text)
    if name == text and len(name) <= LONGEST_NAME and not name.startswith("."):
        return name
    return f"{name[: LONGEST_NAME - 9].lstrip('.')}~{hashlib.sha256(text.encode()).hexdigest()[:8]}"


def parts(experiment: Experiment, sweep: Sweep, log: Sequence[str] = ()) -> list[SweepPart]:
    """All runs of a sweep, method by method, point by point.

    Raises:
        InputError: the grid names what no method has, or a method cannot take a value, or there are too many runs.

    >>> base = Experiment(problem="quadratic", algorithms=("d2", "d-sgd-1"))
    >>> found = parts(base, Sweep(2, {"eta": (0.1, 0.2)}))
    >>> len(found), found[0].folder(Path("x")).as_posix(), found[-1].experiment.set
    (8, 'x/d2/eta=0.1/seed-0', {'d-sgd-1': {'eta': 0.2}})
    """
    experiment = prepare(experiment)
    known = {name: algorithms.find(name).options() for name in experiment.algorithms}
    axes = axes_of(sweep.grid, known, {name: experiment.set.get(name, {}) for name in known})
    seeds = sweep.seeds_from(experiment.seed)
    check_count(axes, len(seeds))
    found = []
    for name in experiment.algorithms:
        make_algorithm(experiment, name)  # refuses what is set and no method has
        for point in points(axes[name]):
            one = _at(experiment, name, point)
            make_algorithm(one, name)  # refuses a value that the method cannot take
            found += [SweepPart(one.replace(seed=seed), point, tuple(log)) for seed in seeds]
    return found


def qualified(experiment: Experiment, grid: Grid) -> dict[str, Any]:
    """The grid with a table for every method in place of values for all, so that nothing else decides it later."""
    experiment = prepare(experiment)
    known = {name: algorithms.find(name).options() for name in experiment.algorithms}
    axes = axes_of(grid, known, {name: experiment.set.get(name, {}) for name in known})
    tables: dict[str, dict[str, Any]] = {}
    for name, own in axes.items():
        for key, values in own.items():
            owner, _, last = key.rpartition(".")
            tables.setdefault(owner or name, {})[last] = values
    return tables


def axes_of(
    grid: Grid, known: Mapping[str, Mapping[str, Any]], fixed: Mapping[str, Mapping[str, Any]]
) -> dict[str, dict[str, tuple[Any, ...]]]:
    """By method, the names that it varies and their values.

    Args:
        grid: several values by name; a name of all methods concerns those that have it.
        known: the hyperparameters of every method.
        fixed: values that are set for single methods, which win over a grid for all.
    """
    common = {key: values for key, values in grid.items() if not isinstance(values, Mapping)}
    tables = {
        key if key == PROBLEM else algorithms.canonical(key) if key not in known else key: table
        for key, table in grid.items()
        if isinstance(table, Mapping)
    }
    for key in tables:
        if key not in known and key != PROBLEM:
            raise InputError(f"the grid has values for {key}: there is no such algorithm in this experiment.")
    everywhere = list(dict.fromkeys(key for options in known.values() for key in options))
    for key in common:
        if key not in everywhere:
            near = did_you_mean(key, everywhere)
            raise InputError(f"no method here has a hyperparameter {key!r}{near}: they have {', '.join(everywhere)}.")
    axes = {}
    for name, options in known.items():
        own = tables.get(name, {})
        for key in own:
            if key not in options:
                raise InputError(f"{name} has no hyperparameter {key!r}: it has {', '.join(options)}.")
        shared = {k: v for k, v in common.items() if k in options and k not in own and k not in fixed.get(name, {})}
        axes[name] = {**shared, **own, **{f"{PROBLEM}.{key}": v for key, v in tables.get(PROBLEM, {}).items()}}
    for key in common:
        if not any(key in own for own in axes.values()):
            raise InputError(f"the grid has values for {key}, but every method has its own: leave out one of them.")
    return axes


def check_count(axes: Mapping[str, Mapping[str, Sequence[Any]]], seeds: int) -> None:
    """Refuse more runs than anyone means."""
    count = seeds * sum(math.prod(len(values) for values in own.values()) for own in axes.values())
    if count > MOST_RUNS:
        raise InputError(f"the sweep has {count:,} runs, expected at most {MOST_RUNS:,}: use fewer seeds or values.")


def points(axes: Mapping[str, Sequence[Any]]) -> list[Point]:
    """All points of a grid; one without names if there is nothing to vary.

    >>> points({"a": (1, 2), "b": (3,)})
    [(('a', 1), ('b', 3)), (('a', 2), ('b', 3))]
    """
    return [tuple(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def _at(experiment: Experiment, name: str, point: Point) -> Experiment:
    """The experiment with one method only, at one point of its grid."""
    options = algorithms.find(name).options()
    common = {k: v for k, v in experiment.set.items() if not isinstance(v, Mapping) and k in options}
    own = {**common, **experiment.set.get(name, {})}
    problem = dict(experiment.set.get(PROBLEM, {}))
    for key, value in point:
        owner, _, last = key.rpartition(".")
        (problem if owner == PROBLEM else own)[last] = value
    return experiment.replace(
        algorithms=(name,), set={**({name: own} if own else {}), **({PROBLEM: problem} if problem else {})}
    )
