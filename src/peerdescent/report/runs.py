"""Any run folders: found, read, grouped by what they share and labelled by what differs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from peerdescent._util import toml
from peerdescent._util.files import read_text
from peerdescent.errors import InputError
from peerdescent.graphs.own_weights import label
from peerdescent.runs.clock_file import with_clock
from peerdescent.runs.contents import COMPARISON, ENVIRONMENT, EXPERIMENT, METRICS, SUMMARY
from peerdescent.runs.fingerprint import IGNORED, fingerprint
from peerdescent.runs.folder import is_running, read_environment, read_experiment, read_metrics, read_summary
from peerdescent.runs.metrics import Metrics

DEPTH = 4
"""The depth to which folders are searched for run folders."""
UNTOLD = ("seed", *(key for key in IGNORED if key != "iterations"))
"""Keys that do not make two runs different methods."""
SHARED = (
    "graph",
    "partition",
    "batch_size",
    "laplacian",
    "mixing",
    "communication_period",
    "powerball",
    "transform",
    "gradient_noise",
    "replacement",
    "dtype",
)
"""Conditions: labels show a difference in them even between different methods."""


Status = Literal["ended", "early", "stopped", "running", "killed"]
"""By its summary; without one a run is still running if its folder is locked."""


@dataclass(frozen=True)
class Run:
    """The content of a run folder; `keys` is its experiment, flat."""

    path: Path
    keys: Mapping[str, Any]
    metrics: Metrics
    environment: Mapping[str, Any]
    notes: Sequence[str] = ()
    status: Status = "ended"
    iteration: int = 0
    """How far it came; perhaps beyond its last evaluation, if it was stopped."""

    @property
    def method(self) -> str:
        """The name of the algorithm, or its class if the run was made in Python."""
        return str(self.keys.get("algorithm", "run"))

    @property
    def seed(self) -> int:
        """The seed of starts and minibatches."""
        return int(self.keys.get("seed", 0))

    @property
    def identity(self) -> tuple[str, int]:
        """The same for runs of one length that differ only in the seed."""
        keys = {key: value for key, value in self.keys.items() if key != "seed"}
        return fingerprint(keys), int(keys.get("iterations", 0))


@dataclass(frozen=True)
class Group:
    """Runs that differ only in the seed, under one label."""

    label: str
    runs: Sequence[Run]

    @property
    def first(self) -> Run:
        """One run in place of all: they share everything but the seed."""
        return self.runs[0]

    @property
    def planned(self) -> int:
        """Iterations requested."""
        return int(self.first.keys.get("iterations", 0))


def find(paths: Iterable[Path]) -> list[Run]:
    """All runs in these folders, which may be run folders, comparisons, or folders of those."""
    found: dict[Path, Run] = {}
    for path in paths:
        if not path.is_dir():
            raise InputError(f"{path} is not a folder: give run folders, such as those below runs/.")
        try:
            folders = list(_run_folders(path, DEPTH))
        except OSError as error:
            raise InputError(f"cannot read the folder {path}: {error.strerror}.") from error
        if not folders:
            raise InputError(f"{path} holds no run: expected a folder with experiment.toml and metrics.jsonl.")
        found.update({folder.resolve(): read(folder) for folder in folders if folder.resolve() not in found})
    if not any(len(run.metrics) for run in found.values()):
        raise InputError(f"{next(iter(found))} has no records yet: wait for the first evaluation.")
    return list(found.values())


def _run_folders(path: Path, depth: int) -> Iterable[Path]:
    if os.path.lexists(path / EXPERIMENT):
        yield path
    elif depth > 0:
        ranks = {name: rank for rank, name in enumerate(_order(path / COMPARISON))}
        below = [folder for folder in path.iterdir() if folder.is_dir() and not folder.name.startswith(".")]
        for folder in sorted(below, key=lambda folder: (ranks.get(folder.name, len(ranks)), folder.name)):
            yield from _run_folders(folder, depth - 1)


def _order(comparison: Path) -> list[str]:
    """The methods of a comparison, in order: its key `algorithms`, else the names of its tables."""
    if not os.path.lexists(comparison):
        return []
    keys = toml.loads(read_text(comparison, "comparison"), str(comparison))
    listed = keys.get("algorithms")
    return list(map(str, listed)) if isinstance(listed, list) else list(keys)


def read(path: Path) -> Run:
    """The run in a folder."""
    if not os.path.lexists(path / METRICS):
        raise InputError(f"{path} has no metrics.jsonl: give a run folder.")
    keys = flatten(read_experiment(path))
    for key in ("seed", "iterations"):
        if not isinstance(keys.get(key, 0), int):
            raise InputError(f"{path / EXPERIMENT}: {key} = {keys[key]!r} is not a whole number.")
    running = is_running(path)  # before the rest is read: it may end in between, but not begin
    metrics = with_clock(read_metrics(path), path)
    ended = os.path.lexists(path / SUMMARY)
    summary = read_summary(path) if ended else {}
    environment = read_environment(path) if os.path.lexists(path / ENVIRONMENT) else {}
    last = metrics[-1]["iteration"] if len(metrics) else 0
    endings: dict[Any, Status] = {"stopped": "stopped", "stopped early": "early"}
    without: Status = "running" if running else "killed"
    status = endings.get(summary.get("status"), "ended") if ended else without
    notes = tuple(map(str, summary.get("notes", [])))
    return Run(path, keys, metrics, environment, notes, status, max(last, summary.get("iteration", 0)))


def flatten(experiment: Mapping[str, Any]) -> dict[str, Any]:
    """The experiment as flat keys, hyperparameters by name.

    >>> flatten({"algorithm": "d-sgd-1", "seed": 1, "set": {"d-sgd-1": {"eta": 0.1}, "problem": {"start": "zero"}}})
    {'seed': 1, 'algorithm': 'd-sgd-1', 'eta': 0.1, 'problem.start': 'zero'}
    >>> flatten({"algorithm": {"class": "DSGD1", "eta": 0.1, "transform": "Transform()"}})
    {'algorithm': 'DSGD1', 'eta': 0.1}
    """
    flat = {key: value for key, value in experiment.items() if key not in ("algorithm", "set")}
    method, chosen = experiment.get("algorithm", "run"), experiment.get("set", {})
    if isinstance(method, Mapping):
        method, chosen = method.get("class", "run"), {"method": {k: v for k, v in method.items() if k != "class"}}
        if chosen["method"].get("transform") == "Transform()":
            del chosen["method"]["transform"]
    flat["algorithm"] = method
    for owner, values in chosen.items():
        if isinstance(values, Mapping):
            flat.update({f"problem.{key}" if owner == "problem" else key: value for key, value in values.items()})
        else:
            flat[owner] = values
    return flat


def group(runs: Sequence[Run]) -> list[Group]:
    """Group runs that differ only in the seed; labels show the method and the settings that differ."""
    together: dict[tuple[Any, ...], list[Run]] = {}
    seen: Counter[tuple[Any, ...]] = Counter()
    for run in runs:
        identity = run.identity
        # the same seed again is not another sample, so it starts another group
        together.setdefault((identity, seen[identity, run.seed]), []).append(run)
        seen[identity, run.seed] += 1
    members = [sorted(found, key=lambda run: run.seed) for found in together.values()]
    firsts = [found[0] for found in members]
    labels = _unique([_label(run, firsts) for run in firsts], [run.path for run in firsts])
    return [Group(label, found) for label, found in zip(labels, members, strict=True)]


def _unique(labels: Sequence[str], paths: Sequence[Path]) -> list[str]:
    """The labels; one that occurs twice gets the name of its folder, or the whole path if names are equal too."""
    named = [f"{label} · {path.name}" for label, path in zip(labels, paths, strict=True)]
    full = [f"{label} · {path}" for label, path in zip(labels, paths, strict=True)]
    apart = [long if named.count(name) > 1 else name for name, long in zip(named, full, strict=True)]
    return [new if labels.count(label) > 1 else label for label, new in zip(labels, apart, strict=True)]


def shown(key: str, value: Any) -> Any:
    """A value as labels and tables show it: a matrix of the user's own as a digest."""
    return label(value) if key in ("laplacian", "mixing") else value


def _label(run: Run, others: Sequence[Run]) -> str:
    same = [other for other in others if other.method == run.method]
    candidates = [key for key in run.keys if key not in (*UNTOLD, "algorithm", "problem")]
    parts = [
        f"{key}={shown(key, run.keys[key])}"
        for key in candidates
        if len({str(other.keys.get(key)) for other in (others if key in SHARED else same)}) > 1
    ]
    return " · ".join([run.method, *parts])
