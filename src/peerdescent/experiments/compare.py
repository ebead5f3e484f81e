"""`compare`: several methods under equal conditions from Python, for several seeds and over a grid if wanted."""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from peerdescent import algorithms, graphs, problems
from peerdescent._util import toml
from peerdescent._util.files import write_atomically
from peerdescent._util.validation import check_integer, described
from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.describe import name_of
from peerdescent.errors import DivergedError, InputError
from peerdescent.experiments import pool
from peerdescent.experiments.comparison import Comparison, Finished
from peerdescent.experiments.schema import PROBLEM, Experiment
from peerdescent.experiments.sweep import SWEEP_KEY, Grid, Sweep, as_grid, as_seeds
from peerdescent.experiments.sweep_parts import Point, axes_of, check_count, place, points
from peerdescent.problems import Problem
from peerdescent.runs.contents import COMPARISON, EXPERIMENT, SWEEP, TUNING, prepare_folder
from peerdescent.runs.folder import write_environment
from peerdescent.training.callbacks import Callback
from peerdescent.training.plan import MADE_IN_PYTHON, Plan, make_plan
from peerdescent.training.progress import shown
from peerdescent.training.result import Result
from peerdescent.training.train import make_settings, run_plan

MOST_JOBS = 1024
"""More are most likely a typing error."""
Methods = Sequence[Algorithm | str] | Mapping[str, Algorithm | str]


@dataclass(frozen=True)
class _Cell:
    """One run: a plan, and where its records are."""

    plan: Plan
    method: str
    point: Point
    place: Path

    @property
    def experiment(self) -> Experiment:
        """How long it is; the plan has the rest."""
        return Experiment(iterations=self.plan.settings.iterations)

    def folder(self, out: Path) -> Path:
        """Where its records are."""
        return out / self.place


def compare(
    problem: Problem | str,
    graph: object,
    methods: Methods,
    *,
    seeds: int | Sequence[int] | None = None,
    grid: Mapping[str, Any] | None = None,
    jobs: int = 1,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    x0: torch.Tensor | None = None,
    progress: bool | None = None,
    title: str = "",
    **settings: Any,
) -> Comparison:
    """Train with several methods under equal conditions.

    A run that diverges is part of the result, and its table says so.

    Args:
        problem: what is minimised, or the name of a problem.
        graph: a Graph, a networkx graph or a text such as "ring:10".
        methods: names or methods; a dict gives names of your own.
        seeds: a number of seeds, from `seed` on, or the seeds themselves; None runs one.
        grid: several values by hyperparameter, such as {"eta": [0.01, 0.1]}, or {"d2.eta": [...]} for one method;
            every combination is run.
        jobs: runs side by side, in processes of their own. The problem is pickled for them, and a script that asks
            for more than one must guard its main part with `if __name__ == "__main__"`.
        out: a folder for the records, METHOD or METHOD/KEY=VALUE/seed-S below it; None keeps nothing.
        resume: do what is missing in `out`.
        overwrite: replace what is in `out`.
        x0: the agents' starting points; None takes the problem's.
        progress: show a progress bar; None does so in a notebook and at a prompt, not in a script.
        title: the line above tables and figures.
        **settings: iterations, batch_size, seed and the other fields of `Settings`.

    >>> runs = compare("quadratic", "ring:4", ["d2", "dsgd"], iterations=50, seeds=2, grid={"eta": [0.05, 0.1]})
    >>> list(runs.results)
    ['d2 · eta=0.05', 'd2 · eta=0.1', 'd-sgd-1 · eta=0.05', 'd-sgd-1 · eta=0.1']
    >>> len(runs.results["d2 · eta=0.1"])
    2
    """
    check_integer("jobs", jobs, 1, MOST_JOBS + 1)
    several = Sweep(None if seeds is None else as_seeds(seeds), as_grid({} if grid is None else grid))
    cells = _cells(problem, graph, _named(methods), several, x0, settings)
    _warn_of_instability(cells)
    name = "runs" if len(cells) > 1 else cells[0].method
    with _records(out, cells, several, resume, overwrite, jobs) as folder, shown(progress, name) as bars:
        steps = _Steps(bars, sum(cell.plan.settings.iterations for cell in cells))
        if jobs > 1 and folder is not None:
            _side_by_side(cells, folder, jobs, steps)
        results = [_run(cell, folder, steps.of(cell)) for cell in cells]
    done = [Finished(c.method, c.place, c.plan, result) for c, result in zip(cells, results, strict=True)]
    return Comparison(done, swept=bool(several), title=title)


def _named(methods: object) -> dict[str, tuple[str, Algorithm]]:
    """By label, the registered name of a method, if it was given by that, and the method."""
    if isinstance(methods, str | Algorithm):
        methods = [methods]
    if not isinstance(methods, Mapping | list | tuple) or not methods:
        raise InputError(f'methods is {described(methods)}: expected a list such as ["d2", "dm-sgd"], or a dict.')
    pairs = methods.items() if isinstance(methods, Mapping) else ((None, method) for method in methods)
    found: dict[str, tuple[str, Algorithm]] = {}
    for given, method in pairs:
        name = algorithms.canonical(method) if isinstance(method, str) else ""
        made = algorithms.make(name) if name else algorithms.as_algorithm(method)
        label = given if given is not None else name or name_of(made)
        if not isinstance(label, str) or label in ("", ".", "..", PROBLEM) or Path(label).name != label:
            raise InputError(f"methods has the name {described(label)}: expected a text without slashes.")
        if label in found:
            raise InputError(f"methods has {label} more than once: pass a dict with a name for each.")
        found[label] = name, made
    return found


def _cells(
    problem: Problem | str,
    graph: object,
    methods: Mapping[str, tuple[str, Algorithm]],
    sweep: Sweep,
    x0: torch.Tensor | None,
    settings: dict[str, Any],
) -> list[_Cell]:
    chosen, network = make_settings(settings), graphs.as_graph(graph)
    if not isinstance(problem, Problem | str):
        raise InputError(f'problem is {described(problem)}: expected a Problem or a name such as "quadratic".')
    made = problems.make(problem, network.n) if isinstance(problem, str) else problem
    name_of_problem = problem if isinstance(problem, str) else ""
    if PROBLEM in sweep.grid:
        raise InputError("the grid has values for the problem: make the problems, and compare on each of them.")
    axes = axes_of(sweep.grid, {label: method.parameters() for label, (_, method) in methods.items()}, {})
    seeds = sweep.seeds_from(chosen.seed)
    check_count(axes, len(seeds))
    cells = []
    for label, (name, method) in methods.items():
        for point in points(axes[label]):
            at = replace(method, **dict(point))
            for seed in seeds:
                settings_here = chosen.replace(seed=seed)
                make = partial(_given, made) if name_of_problem else made
                plan = make_plan(make, network, at, settings_here, x0, name_of_problem, name)
                folder = place(label, point, seed) if sweep else Path(label)
                cells.append(_Cell(replace(plan, name=label), label, point, folder))
    return cells


def _given(problem: Problem) -> Problem:
    """A function of a module, so that plans can be pickled."""
    return problem


def _warn_of_instability(cells: Sequence[_Cell]) -> None:
    for cell in {(cell.method, cell.point): cell for cell in reversed(cells)}.values():
        if cell.plan.predicted_unstable:
            label = " · ".join([cell.method, *(f"{key}={value}" for key, value in cell.point)])
            warnings.warn(cell.plan.prediction.sentence(label), stacklevel=3)


@contextmanager
def _records(
    out: str | os.PathLike[str] | None,
    cells: Sequence[_Cell],
    sweep: Sweep,
    resume: bool,
    overwrite: bool,
    jobs: int,
) -> Iterator[Path | None]:
    """The folder of all records, locked and described; a temporary one where workers need it to hand over results."""
    for name, flag in {"resume": resume, "overwrite": overwrite}.items():
        if not isinstance(flag, bool):
            raise InputError(f"{name} is {described(flag)}: expected True or False.")
    if out is None:
        if resume or overwrite:
            raise InputError("resume and overwrite are for a folder: name it with out.")
        with tempfile.TemporaryDirectory(prefix="peerdescent-") if jobs > 1 else nullcontext() as temporary:
            yield None if temporary is None else Path(temporary)
        return
    folder = Path(out)
    with prepare_folder(folder, resume, overwrite):
        file, others = folder / (SWEEP if sweep else COMPARISON), {EXPERIMENT, TUNING, SWEEP, COMPARISON}
        if found := [name for name in sorted(others - {file.name}) if os.path.lexists(folder / name)]:
            raise InputError(f"{folder} holds other runs, described in {found[0]}: choose another folder.")
        known = file.is_file()
        if not known:
            _describe(file, cells, sweep)
        yield folder
        if known:  # what it said before stays until the runs have accepted to go on
            _describe(file, cells, sweep)


def _describe(file: Path, cells: Sequence[_Cell], sweep: Sweep) -> None:
    write_environment(file.parent)
    write_atomically(file, toml.dumps(_description(cells, sweep)))


def _description(cells: Sequence[_Cell], sweep: Sweep) -> dict[str, Any]:
    """What all runs share as TOML keys, with the values of every method, and seeds and grid."""
    first = {cell.method: cell for cell in reversed(cells)}
    methods = list(dict.fromkeys(cell.method for cell in cells))
    shared = {k: v for k, v in cells[0].plan.description.items() if k not in ("algorithm", "set", MADE_IN_PYTHON)}
    varied = {name: {key for key, _ in first[name].point} for name in methods}
    values = {
        name: {k: v for k, v in first[name].plan.algorithm.parameters().items() if k not in varied[name]}
        for name in methods
    }
    python = dict.fromkeys(part for cell in cells for part in cell.plan.description.get(MADE_IN_PYTHON, []))
    found: dict[str, Any] = {"algorithms": methods, **shared, "set": values}
    found |= {MADE_IN_PYTHON: list(python)} if python else {}
    if not sweep:
        return found
    found.pop("seed", None)
    grid: dict[str, dict[str, list[Any]]] = {}
    for cell in cells:
        for key, _ in cell.point:
            tried = grid.setdefault(cell.method, {}).setdefault(key, [])
            value = cell.plan.algorithm.parameters()[key]
            tried += [value] if value not in tried else []
    listed: Grid = {name: {key: tuple(tried) for key, tried in table.items()} for name, table in grid.items()}
    return {**found, SWEEP_KEY: Sweep(sweep.seeds, listed).to_keys(cells[0].plan.settings.seed)}


class _Steps:
    """One bar for all runs together."""

    def __init__(self, bars: Sequence[Callback], total: int) -> None:
        self.bars, self.total = list(bars), total
        self.reached: dict[Path, int] = {}
        for bar in self.bars:
            bar.on_start(self._all())

    def of(self, cell: _Cell) -> list[Callback]:
        """The callback of one run."""
        return [_Step(self, cell)] if self.bars else []

    def report(self, cell: _Cell, k: int) -> None:
        """How far one run is."""
        self.reached[cell.place] = k
        for bar in self.bars:
            bar.on_progress(self._all())

    def _all(self) -> Any:
        """What a bar reads of a run, for all of them."""
        return SimpleNamespace(k=sum(self.reached.values()), settings=SimpleNamespace(iterations=self.total))


class _Step(Callback):
    def __init__(self, steps: _Steps, cell: _Cell) -> None:
        self._steps, self._cell = steps, cell

    def on_progress(self, run: Any) -> None:
        """Tell the iteration."""
        self._steps.report(self._cell, run.k)

    def on_end(self, run: Any, result: Result) -> None:
        """A run that diverges is done too."""
        self._steps.report(self._cell, run.settings.iterations)


def _side_by_side(cells: Sequence[_Cell], folder: Path, jobs: int, steps: _Steps) -> None:
    try:
        pickle.dumps(list(cells))
    except Exception as error:  # every object fails in a way of its own
        raise InputError(f"jobs = {jobs}: the runs cannot be sent to other processes ({error}); use jobs=1.") from error
    pool.execute(cells, folder, min(jobs, len(cells)), steps.report, _work, lambda cell, out: False)


def _work(cell: _Cell, folder: Path, progress: Callable[[int], None]) -> None:
    _run(cell, folder.parents[len(cell.place.parts) - 1], [pool.Report(progress)])


def _run(cell: _Cell, out: Path | None, callbacks: Sequence[Callback]) -> Result:
    """One run, or what is missing of it; one that diverges has a result too."""
    try:
        return run_plan(cell.plan, None if out is None else cell.folder(out), out is not None, False, callbacks)
    except DivergedError as error:
        result: Result = error.result
        return result
