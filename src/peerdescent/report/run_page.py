"""The page of any run folders: curves, how each run ended, what differs, settings, graphs, environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.report.embedded import ending, finite
from peerdescent.report.page import ABSENT, Curves, Page, Section, TableBlock
from peerdescent.report.runs import Group, Run, find, group
from peerdescent.report.tables import human_bytes

MOST_GRAPHS = 6


def page(paths: Sequence[Path], command: str, title: str = "") -> Page:
    """A page for any run folders: one section per problem."""
    runs = find(paths)
    by_problem: dict[str, list[Run]] = {}
    for run in runs:
        by_problem.setdefault(str(run.keys.get("problem", "problem")), []).append(run)
    grouped = {problem: group(members) for problem, members in by_problem.items()}
    notes = [f"{g.label}: {note}" for groups in grouped.values() for g in groups for note in _notes(g)]
    sections = [_section(problem, groups) for problem, groups in grouped.items()]
    return Page(title or _title(runs), command, [], sections, _environment(runs), notes)


def _title(runs: Sequence[Run]) -> str:
    titles = {str(run.keys.get("title", "")) for run in runs}
    methods = dict.fromkeys(run.method for run in runs)
    named = titles.pop() if len(titles) == 1 else ""
    return named or (f"{len(methods)} methods compared" if len(methods) > 1 else f"Runs of {next(iter(methods))}")


def _notes(group: Group) -> list[str]:
    return list(dict.fromkeys(note for run in group.runs for note in run.notes))


def _section(problem: str, groups: Sequence[Group]) -> Section:
    drawn, missing = _graphs(groups)
    shared, own = _settings(groups)
    curves = Curves(
        "", {g.label: [run.metrics for run in g.runs] for g in groups}, None, {g.label: g.planned for g in groups}
    )
    tables = [_ends(groups), *([_differences(groups, own)] if own else [])]
    text = f"The graph cannot be drawn again from its name: {', '.join(missing)}." if missing else ""
    return Section(problem, text, [curves], drawn, tables, shared)


def _ends(groups: Sequence[Group]) -> TableBlock:
    """How each method ended."""
    shown: list[tuple[str, str, Callable[[float], str]]] = [
        ("iteration", "iterations", lambda v: f"{v:,.0f}"),
        ("loss", "risk", lambda v: f"{v:.4g}"),
        ("accuracy", "test accuracy (%)", lambda v: f"{100 * v:.2f}"),
        ("consensus_error", "consensus error", lambda v: f"{v:.3g}"),
        ("gradient_norm", "gradient norm", lambda v: f"{v:.3g}"),
        ("bytes_sent", "sent", human_bytes),
        ("seconds", "seconds", lambda v: f"{v:.2f}" if v < 100 else f"{v:,.0f}"),
    ]
    shown = [entry for entry in shown if any(_lasts(g, entry[0]) for g in groups)]
    several = any(len(g.runs) > 1 for g in groups)
    rows = []
    for g in groups:
        cells = [
            _spread(_lasts(g, key), len(g.runs), show, exact=key in ("iteration", "bytes_sent"))
            for key, _, show in shown
        ]
        state = ending([run.metrics for run in g.runs], g.planned)[1] or "finished"
        rows.append((g.label, *([str(len(g.runs))] * several), *cells, state))
    columns = ("method", *(["seeds"] * several), *(title for _, title, _ in shown), "state")
    note = "Mean ± sample standard deviation over the seeds." if several else ""
    return TableBlock("At the last evaluation", columns, rows, note)


def _lasts(group: Group, key: str) -> list[float]:
    rows = [run.metrics[-1] for run in group.runs if len(run.metrics)]
    return [float(row[key]) for row in rows if finite(row.get(key))]


def _spread(values: Sequence[float], seeds: int, show: Callable[[float], str], exact: bool) -> str:
    """Mean ± deviation; a mean over some of the seeds only would flatter, so there is none."""
    if len(values) < seeds or not values:
        return ABSENT
    if seeds == 1 or (exact and len(set(values)) == 1):
        return show(values[0])
    return f"{show(fmean(values))} ± {show(stdev(values))}"


def _settings(groups: Sequence[Group]) -> tuple[dict[str, str], list[str]]:
    """What all runs have in common, and the keys in which they differ."""
    keys = list(dict.fromkeys(key for g in groups for key in g.first.keys if key not in ("title", "seed", "algorithm")))
    values = {key: [g.first.keys.get(key) for g in groups] for key in keys}
    own = [key for key, found in values.items() if len(set(map(str, found))) > 1]
    shared = {key: _value(found[0]) for key, found in values.items() if key not in own}
    seeds = dict.fromkeys(run.seed for g in groups for run in g.runs)
    commands = dict.fromkeys(_command(run) for g in groups for run in g.runs)
    shared["seed" if len(seeds) == 1 else "seeds"] = ", ".join(map(str, sorted(seeds)))
    made = "\n".join(command for command in commands if command)
    return {**shared, **({"made by": made} if made else {})}, own


def _differences(groups: Sequence[Group], own: Sequence[str]) -> TableBlock:
    rows = [(g.label, *(_value(g.first.keys.get(key)) for key in own)) for g in groups]
    return TableBlock("What differs", ("method", *own), rows)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ABSENT if value is None else str(value)


def _command(run: Run) -> str:
    """The command that made a run, if it was made by one."""
    words = run.environment.get("command")
    if not isinstance(words, list) or not words or os.path.basename(str(words[0])) != "peerdescent":
        return ""
    return shlex.join(["peerdescent", *map(str, words[1:])])


def _environment(runs: Sequence[Run]) -> dict[str, str]:
    keys = dict.fromkeys(key for run in runs for key in run.environment if key != "command")
    found = {key: dict.fromkeys(_value(run.environment.get(key)) for run in runs) for key in keys}
    return {key: "; ".join(values) for key, values in found.items()}


def _graphs(groups: Sequence[Group]) -> tuple[list[Graph], list[str]]:
    """The graphs that can be drawn from their names, and the names of those that cannot."""
    drawn, missing = [], []
    for spec in dict.fromkeys(str(g.first.keys.get("graph", "")) for g in groups):
        try:
            drawn.append(graphs.parse(spec))
        except (InputError, OSError):
            missing.append(spec or "a graph made in Python")
    return drawn[:MOST_GRAPHS], missing
