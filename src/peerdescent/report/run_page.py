"""The page for any run folders: curves, how each run ended, what differs, settings, graphs, environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.report.ends import ending_of, ends_table, is_unfinished
from peerdescent.report.formatting import ABSENT
from peerdescent.report.layout import MATCHED, WeightedGraph
from peerdescent.report.page import Curves, Page, Section
from peerdescent.report.runs import Group, Run, find, group, shown
from peerdescent.report.tables import Table

MOST_GRAPHS = 6


def page(paths: Sequence[Path], command: str, title: str = "") -> Page:
    """One section per problem."""
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
    unfinished = [run for run in group.runs if is_unfinished(run, group) and run.status != "running"]
    ways = [f"`peerdescent run {shlex.quote(str(run.path))} --resume` continues it" for run in unfinished]
    return list(dict.fromkeys([*(note for run in group.runs for note in run.notes), *ways]))


def _section(problem: str, groups: Sequence[Group]) -> Section:
    drawn, missing = _graphs(groups)
    shared, differing = _settings(groups)
    tables_of = {g.label: [run.metrics for run in g.runs] for g in groups}
    curves = Curves("", tables_of, None, {g.label: g.planned for g in groups}, {g.label: ending_of(g) for g in groups})
    tables = [ends_table(groups), *([_differences(groups, differing)] if differing else [])]
    text = f"Cannot be rebuilt from the settings and is not drawn: {', '.join(missing)}." if missing else ""
    return Section(problem, text, [curves], drawn, tables, shared)


def _settings(groups: Sequence[Group]) -> tuple[dict[str, str], list[str]]:
    """The settings that all runs share, and the keys in which they differ."""
    keys = list(dict.fromkeys(key for g in groups for key in g.first.keys if key not in ("title", "seed", "algorithm")))
    values = {key: [shown(key, g.first.keys.get(key)) for g in groups] for key in keys}
    differing = [key for key, found in values.items() if len(set(map(str, found))) > 1]
    shared = {key: _value(found[0]) for key, found in values.items() if key not in differing}
    seeds = dict.fromkeys(run.seed for g in groups for run in g.runs)
    commands = dict.fromkeys(_command(run) for g in groups for run in g.runs)
    shared["seed" if len(seeds) == 1 else "seeds"] = ", ".join(map(str, sorted(seeds)))
    made = "\n".join(command for command in commands if command)
    return {**shared, **({"made by": made} if made else {})}, differing


def _differences(groups: Sequence[Group], differing: Sequence[str]) -> Table:
    rows = [(g.label, *(_value(shown(key, g.first.keys.get(key))) for key in differing)) for g in groups]
    return Table("What differs", ("method", *differing), rows)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return ABSENT if value is None else str(value)


def _command(run: Run) -> str:
    """The command that started a run, if one did."""
    words = run.environment.get("command")
    if not isinstance(words, list) or not words or os.path.basename(str(words[0])) != "peerdescent":
        return ""
    return shlex.join(["peerdescent", *map(str, words[1:])])


def _environment(runs: Sequence[Run]) -> dict[str, str]:
    keys = dict.fromkeys(key for run in runs for key in run.environment if key != "command")
    found = {key: dict.fromkeys(_value(run.environment.get(key)) for run in runs) for key in keys}
    return {key: "; ".join(values) for key, values in found.items()}


def _graphs(groups: Sequence[Group]) -> tuple[list[WeightedGraph], list[str]]:
    """The graphs with the Laplacians of their runs, and the names of those that cannot be rebuilt."""
    drawn: list[WeightedGraph] = []
    missing = []
    for spec, laplacian, mixing in dict.fromkeys(map(_weights, groups)):
        try:
            graph = graphs.parse(spec)
            if len(drawn) < MOST_GRAPHS:
                drawn.append(WeightedGraph.build(graph, laplacian, mixing))
        except (InputError, OSError):
            missing.append(spec or "a graph made in Python")
    return drawn, list(dict.fromkeys(missing))


def _weights(group: Group) -> tuple[str, str, str]:
    """The settings that determine L and W; for the same L, only a matched one depends on W."""
    keys = group.first.keys
    laplacian, mixing = (str(keys.get(key, "metropolis")) for key in ("laplacian", "mixing"))
    return str(keys.get("graph", "")), laplacian, mixing if laplacian == MATCHED else "metropolis"
