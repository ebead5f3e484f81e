"""The experiments of the paper as lists of runs, read from TOML: stated settings, our choices, printed numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from peerdescent import algorithms, graphs
from peerdescent._util import toml
from peerdescent.errors import InputError
from peerdescent.experiments.schema import Experiment, from_keys
from peerdescent.graphs import Graph

STUDIES = ("nn", "cnn", "gamma")
READINGS = ("code", "text")
HETEROGENEOUS = {"label": "one digit per agent", "dirichlet": "Dirichlet(0.1) shards"}
_LINE_KEYS = ("label", "paper", "explains", "cause", "seeds")


@dataclass(frozen=True)
class Line:
    """One line of a study: a method under fixed conditions, run with several seeds."""

    label: str
    keys: Mapping[str, Any]
    paper: float | None = None
    """The accuracy in the paper, in percent."""
    explains: str | None = None
    """The line whose difference from the paper this one tries to explain."""
    cause: str = ""
    seeds: int | None = None
    """The largest number of seeds."""

    @property
    def folder(self) -> str:
        """A name for the files of this line."""
        plain = self.label.lower()
        for sign, name in {"²": "2", "₋₁": "-1", "γ": "gamma", "η": "eta", "β": "beta"}.items():
            plain = plain.replace(sign, name)
        words = "".join(letter if letter.isalnum() or letter in "-." else " " for letter in plain)
        return "-".join(words.split())


@dataclass(frozen=True)
class Study:
    """One experiment of the paper in one reading."""

    name: str
    reading: str
    title: str
    stated: Mapping[str, str]
    samples_per_agent: int
    lines: Sequence[Line]
    remarks: Sequence[str] = ()
    """Remarks on the setup, for the reader."""

    def graph(self) -> Graph:
        """Return the graph of the study; all lines have the same."""
        return graphs.as_static(graphs.parse(self.lines[0].keys["graph"]), "a study")

    @property
    def iterations_per_epoch(self) -> float:
        """Iterations until every agent has drawn as many samples as its shard has."""
        return self.samples_per_agent / float(self.lines[0].keys["batch_size"])

    def line(self, label: str) -> Line:
        """Return the line with that label."""
        return next(line for line in self.lines if line.label == label)


@dataclass(frozen=True)
class Part:
    """One run of a study."""

    study: str
    line: Line
    seed: int
    experiment: Experiment

    def folder(self, out: Path) -> Path:
        """Return the folder of the run."""
        return out / self.study / self.line.folder / f"seed-{self.seed}"


def read_study(name: str, reading: str = "code") -> Study:
    """Read a study of the paper.

    >>> study = read_study("cnn")
    >>> study.line("DSGPA-F-PB").paper, len(study.lines)
    (98.02, 16)
    """
    if reading not in READINGS:
        raise InputError(f"reading = {reading!r}: expected one of {', '.join(READINGS)}.")
    return _study(f"paper/{name}.toml", name, reading)


def heterogeneous_studies() -> list[Study]:
    """Read the studies of both networks with one digit per agent and with Dirichlet shards.

    >>> [study.name for study in heterogeneous_studies()]
    ['nn-label', 'nn-dirichlet', 'cnn-label', 'cnn-dirichlet']
    """
    names = [(network, split) for network in ("nn", "cnn") for split in HETEROGENEOUS]
    made = [_study(f"beyond/heterogeneous-{network}.toml", f"{network}-{split}", split) for network, split in names]
    return [replace(study, title=f"{study.title}, {HETEROGENEOUS[study.reading]}") for study in made]


def read_keys(source: str) -> dict[str, Any]:
    """Read the file of a study."""
    return toml.loads(files("peerdescent.reproduce").joinpath(source).read_text(encoding="utf-8"), source)


def _study(source: str, name: str, reading: str) -> Study:
    keys = read_keys(source)
    base = _over(keys["base"], keys["reading"][reading])
    lines = [_line(base, entry) for entry in keys["runs"]]
    remarks = keys.get("remarks", ())
    return Study(name, reading, keys["title"], keys["stated"], keys["samples_per_agent"], lines, remarks)


def parts(study: Study, seeds: int, budget: float = 1.0) -> list[Part]:
    """Return all runs of a study; a budget below 1 shortens every run, for a quick test."""
    made = []
    for line in study.lines:
        for seed in range(min(seeds, line.seeds or seeds)):
            experiment = from_keys({**line.keys, "seed": seed}, line.label)
            iterations = max(1, round(experiment.iterations * budget))
            every = max(1, round((experiment.eval_every or iterations) * budget))
            shortened = from_keys({"iterations": iterations, "eval_every": every}, line.label, experiment)
            made.append(Part(study.name, line, seed, shortened))
    return made


def _line(base: Mapping[str, Any], entry: Mapping[str, Any]) -> Line:
    own = {key: entry[key] for key in _LINE_KEYS if key in entry}
    keys = _over(base, {key: value for key, value in entry.items() if key not in _LINE_KEYS})
    known = algorithms.find(keys["algorithm"]).options()
    chosen = {key: value for key, value in keys.get("set", {}).items() if key in known or key == "problem"}
    return Line(keys={**keys, "set": chosen}, **own)


def _over(base: Mapping[str, Any], more: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` updated with `more`; tables are merged."""
    merged = dict(base)
    for key, value in more.items():
        merged[key] = _over(merged.get(key, {}), value) if isinstance(value, Mapping) else value
    return merged
