"""A sweep: one experiment for several seeds and over a grid of values, as texts, keys of a file and Python say it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from peerdescent._util.schema import LARGEST
from peerdescent._util.validation import check_integer, described, shortened
from peerdescent.errors import InputError
from peerdescent.experiments.schema import Experiment, override, scalar

SWEEP_KEY = "sweep"
"""The table of an experiment file that holds a sweep."""
MOST_RUNS = 10_000
"""More is most likely a typing error."""
Grid = Mapping[str, Any]
"""Built like `set`, with several values in place of one: for all methods, for one of them, for the problem."""


@dataclass(frozen=True)
class Sweep:
    """Seeds and grid; `seeds` is None where only the seed of the experiment is run, and a number where they count on.

    >>> Sweep.from_keys({"seeds": 3, "grid": {"eta": [0.1, 0.2]}}, "a.toml").seeds_from(5)
    (5, 6, 7)
    """

    seeds: int | tuple[int, ...] | None = None
    grid: Grid = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.seeds is not None or bool(self.grid)

    @classmethod
    def from_keys(cls, keys: object, source: str) -> Sweep:
        """The table `sweep` of a file."""
        if not isinstance(keys, Mapping) or not set(keys) <= {"seeds", "grid"}:
            raise InputError(f"{source}: expected seeds and grid in [sweep], not {described(keys)}.")
        seeds, grid = keys.get("seeds"), keys.get("grid", {})
        return cls(None if seeds is None else as_seeds(seeds), as_grid(grid))

    def to_keys(self, first: int) -> dict[str, Any]:
        """The same for a file, with every seed explicit."""
        grid = {
            key: {name: list(values) for name, values in table.items()} if isinstance(table, Mapping) else list(table)
            for key, table in self.grid.items()
        }
        return {"seeds": list(self.seeds_from(first)), **({"grid": grid} if grid else {})}

    def seeds_from(self, first: int) -> tuple[int, ...]:
        """All seeds; a number of them starts at the seed of the experiment."""
        if self.seeds is None:
            return (first,)
        return tuple(range(first, first + self.seeds)) if isinstance(self.seeds, int) else self.seeds


def as_seeds(given: object, name: str = "seeds") -> int | tuple[int, ...]:
    """A number of seeds, or the seeds themselves, from a flag's text or from Python.

    >>> as_seeds("5"), as_seeds("0,3,7"), as_seeds([4])
    (5, (0, 3, 7), (4,))
    >>> as_seeds("3,3")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: seeds has 3 more than once: name every seed once.
    """
    expected = f"expected a number of them, at most {MOST_RUNS:,}, or different ones such as 0,3,7"
    if isinstance(given, str):
        parts = [scalar(part.strip()) for part in given.split(",")]
        given = parts[0] if len(parts) == 1 else parts
    if isinstance(given, range):
        given = list(given[: MOST_RUNS + 1])
    try:
        if not isinstance(given, list | tuple):
            return check_integer(name, given, 1, MOST_RUNS + 1)
        seeds = tuple(check_integer(name, seed, 0, LARGEST + 1) for seed in given[: MOST_RUNS + 1])
    except InputError:
        raise InputError(f"{name} = {described(given)}: {expected}.") from None
    if not 1 <= len(seeds) <= MOST_RUNS:
        raise InputError(f"{name} = {described(given)}: {expected}.")
    if repeated := [seed for seed in dict.fromkeys(seeds) if seeds.count(seed) > 1]:
        raise InputError(f"{name} has {repeated[0]} more than once: name every seed once.")
    return seeds


def as_grid(given: object, tables: bool = True) -> dict[str, Any]:
    """A grid from keys: lists of different values, in tables where they are for one method or the problem.

    >>> as_grid({"eta": [0.1, 0.2], "d2.eta": [0.5]})
    {'eta': (0.1, 0.2), 'd2': {'eta': (0.5,)}}
    >>> as_grid({"eta": []})
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: the grid has no value for eta: name at least one.
    """
    if not isinstance(given, Mapping):
        raise InputError(f'the grid is {described(given)}: expected values by name, such as {{"eta": [0.1, 0.3]}}.')
    grid: dict[str, Any] = {}
    for key, values in given.items():
        if not isinstance(key, str) or not key:
            raise InputError(f"the grid has the key {described(key)}: expected the name of a hyperparameter.")
        owner, _, name = key.rpartition(".")
        if isinstance(values, Mapping) and tables and not owner:
            grid.setdefault(key, {}).update(as_grid(values, tables=False))
        elif owner:
            grid.setdefault(owner, {})[name] = _different(key, values)
        else:
            grid[key] = _different(key, values)
    return grid


def _different(key: str, values: object) -> tuple[Any, ...]:
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        raise InputError(f"the grid has {described(values)} for {key}: expected a list of values.")
    found: list[Any] = []
    for value in values:
        if value is None or value == "":
            raise InputError(f"the grid has an empty value for {key}: expected numbers or texts between commas.")
        if isinstance(value, bool) or not isinstance(value, list | tuple | dict | set):
            if any(_same(value, other) for other in found):
                raise InputError(f"the grid has {described(value)} for {key} more than once: name every value once.")
            found.append(value)
        else:
            raise InputError(f"the grid has {described(value)} for {key}: expected a number or a text.")
        if len(found) > MOST_RUNS:
            raise InputError(f"the grid has over {MOST_RUNS:,} values for {key}: name fewer.")
    if not found:
        raise InputError(f"the grid has no value for {key}: name at least one.")
    return tuple(found)


def _same(one: Any, other: Any) -> bool:
    """Whether two values mean the same: 1 and 1.0 do, 1 and True do not."""
    return str(one) == str(other) or (isinstance(one, bool) == isinstance(other, bool) and bool(one == other))


def split_values(texts: Sequence[str]) -> tuple[list[str], dict[str, list[Any]]]:
    """The texts of `--set` with one value, and the values of those with several; quotes keep a comma in a value.

    >>> split_values(["eta=.1,.2", "gamma=.7", 'problem.source="a,b"'])
    (['gamma=.7', 'problem.source="a,b"'], {'eta': [0.1, 0.2]})
    """
    single: list[str] = []
    several: dict[str, list[Any]] = {}
    for text in texts:
        key, _, value = text.partition("=")
        parts = _parts(value.strip())
        if len(parts) < 2:
            single.append(text)
        elif key.strip() in several:
            raise InputError(f"--set {shortened(text)}: {key.strip()} has several values already; give them together.")
        elif not all(part.strip() for part in parts):
            raise InputError(f"--set {shortened(text)}: a value is empty; expected values between commas, as in .1,.3.")
        else:
            several[key.strip()] = [scalar(part.strip()) for part in parts]
    return single, several


def _parts(value: str) -> list[str]:
    """The values between the commas; one, if it is no list that CSV knows, such as a text with several lines."""
    try:
        (parts,) = list(csv.reader([value], skipinitialspace=True)) or [[]]
    except csv.Error:
        return [value]
    return parts


def override_sweep(
    experiment: Experiment, sweep: Sweep, keys: Mapping[str, Any], values: Sequence[str] = (), seeds: str | None = None
) -> tuple[Experiment, Sweep]:
    """An experiment and its sweep with flags in place of their keys, as `override` does it for the experiment alone.

    >>> file = Experiment(algorithms=("d2",), set={"d2": {"eta": 0.1}})
    >>> changed, sweep = override_sweep(file, Sweep(3, {"eta": (0.1, 0.2)}), {"seed": 4}, ["eta=.3"])
    >>> changed.set, sweep.seeds_from(changed.seed), sweep.grid
    ({'d2': {}, 'eta': 0.3}, (4, 5, 6), {})
    """
    single, several = split_values(values)
    # the first value in place of all: it removes what the file sets for single methods, and is checked
    firsts = [f"{key}={found[0]}" for key, found in several.items()]
    changed = override(experiment, keys, [*single, *firsts])
    grid = {key: dict(v) if isinstance(v, Mapping) else v for key, v in sweep.grid.items()}
    for text in (*single, *firsts):
        owner, _, name = text.partition("=")[0].strip().rpartition(".")
        for table in [grid.get(owner, {})] if owner else [grid, *(t for t in grid.values() if isinstance(t, dict))]:
            table.pop(name, None)
    if "algorithms" in keys:
        for unwanted in set(experiment.algorithms) - set(changed.algorithms):
            grid.pop(unwanted, None)
    for key, table in as_grid(several).items():
        grid[key] = {**grid.get(key, {}), **table} if isinstance(table, dict) else table
    grid = {key: table for key, table in grid.items() if table}
    return changed, Sweep(_seeds(sweep, keys, seeds), grid)


def _seeds(sweep: Sweep, keys: Mapping[str, Any], seeds: str | None) -> int | tuple[int, ...] | None:
    if seeds is None:  # --seed alone replaces the seeds that a file lists
        return None if isinstance(sweep.seeds, tuple) and "seed" in keys else sweep.seeds
    chosen = as_seeds(seeds, "--seeds")
    if isinstance(chosen, tuple) and "seed" in keys:
        raise InputError(f"--seed and --seeds {shortened(seeds)} contradict each other: keep one.")
    return chosen
