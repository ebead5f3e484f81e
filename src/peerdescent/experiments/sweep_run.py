"""A sweep executed: its runs side by side, then one table and one figure; stopped at any moment, it goes on."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from peerdescent._util import extras, toml
from peerdescent._util.files import read_text, write_atomically
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.errors import InputError
from peerdescent.experiments import pool
from peerdescent.experiments.resolve import describe, prepare, resolve
from peerdescent.experiments.run import RunOptions, run_one
from peerdescent.experiments.schema import PROBLEM, Experiment
from peerdescent.experiments.sweep import SWEEP_KEY, Sweep
from peerdescent.experiments.sweep_parts import SweepPart, parts, qualified
from peerdescent.report.runs import Group, group, read
from peerdescent.report.sweep import sweep_table
from peerdescent.runs.contents import ENVIRONMENT, SWEEP, is_leftover, prepare_folder
from peerdescent.runs.fingerprint import differences, fingerprint
from peerdescent.runs.folder import write_environment
from peerdescent.training.loop import Run
from peerdescent.training.plan import Plan, with_defaults

Progress = Callable[[SweepPart, int], None]


def plans_of(todo: Sequence[SweepPart]) -> list[Plan]:
    """A plan for every method and grid point, at the first seed; wrong input is found before anything is written."""
    first: dict[tuple[str, Any], SweepPart] = {}
    for part in todo:
        first.setdefault((part.method, part.point), part)
    plans = [replace(plan, name=part.label) for part in first.values() for plan in resolve(part.experiment)]
    seen: set[str] = set()
    for plan, part in zip(plans, first.values(), strict=True):
        problem = f"{part.method} {part.experiment.set.get(PROBLEM)}"
        if problem not in seen:  # a method on a problem is tried once: building the problem takes long
            plan.check_memory()
            Run(plan, ProcessGroup.single())
        seen.add(problem)
    return plans


def execute(
    experiment: Experiment,
    sweep: Sweep,
    todo: Sequence[SweepPart],
    options: RunOptions,
    jobs: int,
    progress: Progress = lambda part, k: None,
) -> list[Group]:
    """Run what is not finished yet, `jobs` runs at a time; returns the runs, grouped by method and grid point.

    Args:
        experiment: what all runs share.
        sweep: seeds and grid, written down in the folder.
        todo: the runs, as `parts` lists them.
        options: the folder, and whether what it holds is resumed or overwritten.
        jobs: number of parallel runs.
        progress: called with a run and its iteration.

    >>> import tempfile
    >>> base = Experiment(problem="quadratic", graph="ring:4", algorithms=("d2",), batch_size=0, iterations=20)
    >>> sweep = Sweep(2, {"eta": (0.05, 0.1)})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = execute(base, sweep, parts(base, sweep), RunOptions(Path(folder, "a")), jobs=1)
    >>> [(group.label, len(group.runs)) for group in found]
    [('d2 · eta=0.05', 2), ('d2 · eta=0.1', 2)]
    """
    assert options.out is not None
    out = options.out
    with _folder(prepare(experiment), sweep, options, out):
        pool.execute(todo, out, jobs, progress, train_part)
        groups = group([read(part.folder(out)) for part in todo])
        _draw(groups, experiment.title, out)
    return groups


def train_part(part: SweepPart, folder: Path, progress: Callable[[int], None]) -> None:
    """One run of a sweep, as `run` makes it; a module's function, so that workers find it."""
    (plan,) = resolve(part.experiment)
    plan.check_memory()
    run_one(plan, folder, RunOptions(resume=True, log=part.log), [pool.Report(progress)])


@contextlib.contextmanager
def _folder(experiment: Experiment, sweep: Sweep, options: RunOptions, out: Path) -> Iterator[None]:
    """The folder of a sweep, locked, with what it holds written down; another sweep in it is refused."""
    wanted = _description(experiment, sweep)
    with prepare_folder(out, options.resume, options.overwrite):
        path = out / SWEEP
        if path.is_file():
            known = toml.loads(read_text(path, "sweep"), str(path))
            known.pop(SWEEP_KEY, None)
            shared = {key: value for key, value in wanted.items() if key != SWEEP_KEY}
            if fingerprint(with_defaults(known)) != fingerprint(with_defaults(shared)):
                named = "; ".join(differences(with_defaults(known), with_defaults(shared))[:3])
                raise InputError(
                    f"{out} holds another sweep ({named}): leave out what differs, or choose another --out."
                )
        elif any(item.name != ENVIRONMENT and not is_leftover(item) for item in out.iterdir()) and options.resume:
            raise InputError(f"{out} holds no sweep to resume: choose another --out.")
        write_environment(out)
        write_atomically(path, toml.dumps(wanted))
        yield


def _description(experiment: Experiment, sweep: Sweep) -> dict[str, Any]:
    """All choices as TOML keys; what the grid varies is in its table only."""
    grid = qualified(experiment, sweep.grid)
    keys = describe(experiment, *experiment.algorithms)
    tables = {
        name: {key: value for key, value in table.items() if key not in grid.get(name, {})}
        if isinstance(table, Mapping)
        else table
        for name, table in keys["set"].items()
    }
    shared = {key: value for key, value in keys.items() if key != "seed"}
    return {**shared, "set": tables, SWEEP_KEY: Sweep(sweep.seeds, grid).to_keys(experiment.seed)}


def _draw(groups: Sequence[Group], title: str, out: Path) -> None:
    """Write the table and, if matplotlib is installed, the figure next to the records."""
    sweep_table(groups, title).write(out / "table", ("md", "csv"))
    try:
        extras.require("matplotlib", "figures")
    except InputError as error:  # the runs themselves are complete
        warnings.warn(f"no figure is drawn: {error}", stacklevel=2)
        return
    from peerdescent.report import drawing
    from peerdescent.report.sweep import sweep_figure

    drawing.save(sweep_figure(groups, title), out / "figures" / "sweep")


__all__ = ["execute", "parts", "plans_of", "train_part"]
