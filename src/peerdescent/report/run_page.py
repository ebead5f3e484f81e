"""The page for any run folders: curves, how each run ended, what differs, settings, graphs, environment."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from peerdescent import graphs
from peerdescent._util.numbers import finite_or_none
from peerdescent.errors import InputError
from peerdescent.report.embedded import ending
from peerdescent.report.formatting import ABSENT, human_bytes, human_seconds, with_spread
from peerdescent.report.layout import MATCHED, WeightedGraph
from peerdescent.report.page import Curves, Page, Section
from peerdescent.report.quantities import added_columns, label
from peerdescent.report.runs import Group, Run, find, group
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import diverged

MOST_GRAPHS = 6
Show = Callable[[float], str]
Spread = Callable[[Sequence[float]], str]


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
    unfinished = [run for run in group.runs if _is_unfinished(run, group) and run.status != "running"]
    ways = [f"`peerdescent run {shlex.quote(str(run.path))} --resume` continues it" for run in unfinished]
    return list(dict.fromkeys([*(note for run in group.runs for note in run.notes), *ways]))


def _is_unfinished(run: Run, group: Group) -> bool:
    return run.iteration < group.planned and run.status != "early" and not diverged(run.metrics)


_HOW = {
    "running": "still running: {} of {} iterations",
    "stopped": "stopped at {} of {} iterations",
    "killed": "ended without a summary at {} of {} iterations (killed?)",
    "ended": "ended at {} of {} iterations",
    "early": "stopped early at {} of {} iterations",
}


def _ending(group: Group) -> tuple[str, str]:
    """How the runs of a label ended: done, diverged, running or stopped, and a text for the reader."""
    seeds = len(group.runs)
    state, text = ending([run.metrics for run in group.runs])
    texts = [text] if text else []
    for status, words in _HOW.items():
        of_status = [run for run in group.runs if run.status == status]
        found = [run.iteration for run in of_status if status == "early" or _is_unfinished(run, group)]
        if found:
            if state == "done" and status != "early":
                state = "running" if status == "running" else "stopped"
            who = "" if seeds == 1 else f"{len(found)} of {seeds} seeds "
            texts.append(who + words.format(f"{min(found):,}", f"{group.planned:,}"))
    return state, "; ".join(texts)


def _section(problem: str, groups: Sequence[Group]) -> Section:
    drawn, missing = _graphs(groups)
    shared, differing = _settings(groups)
    tables_of = {g.label: [run.metrics for run in g.runs] for g in groups}
    curves = Curves("", tables_of, None, {g.label: g.planned for g in groups}, {g.label: _ending(g) for g in groups})
    tables = [_ends(groups), *([_differences(groups, differing)] if differing else [])]
    text = f"Cannot be rebuilt from the settings and is not drawn: {', '.join(missing)}." if missing else ""
    return Section(problem, text, [curves], drawn, tables, shared)


def _exactly(values: Sequence[float], show: Show) -> str:
    """Mean ± deviation of counts, or the count alone if all seeds have the same."""
    return show(values[0]) if len(set(values)) == 1 else f"{show(fmean(values))} ± {show(stdev(values))}"


_SHOWN: tuple[tuple[str, str, Show, Spread], ...] = (
    ("iteration", "iterations", "{:,.0f}".format, partial(_exactly, show="{:,.0f}".format)),
    ("loss", "risk", "{:.4g}".format, with_spread),
    ("accuracy", "test accuracy (%)", lambda v: f"{100 * v:.2f}", lambda vs: with_spread([100 * v for v in vs], 2)),
    ("test_loss", label("test_loss"), "{:.4g}".format, with_spread),
    ("consensus_error", "consensus error", "{:.3g}".format, with_spread),
    ("gradient_norm", "gradient norm", "{:.3g}".format, with_spread),
    ("bytes_sent", "sent", human_bytes, partial(_exactly, show=human_bytes)),
    ("seconds", "seconds", human_seconds, lambda vs: f"{human_seconds(fmean(vs))} ± {human_seconds(stdev(vs))}"),
)
"""Key in the metrics, head of the column, and how one value and the values of several seeds are shown."""


def _ends(groups: Sequence[Group]) -> Table:
    """How each method ended."""
    added = added_columns(run.metrics[-1] for g in groups for run in g.runs if len(run.metrics))
    own = tuple((name, label(name), "{:.4g}".format, with_spread) for name in added)
    shown = [entry for entry in (*_SHOWN[:4], *own, *_SHOWN[4:]) if any(_lasts(g, entry[0]) for g in groups)]
    several = any(len(g.runs) > 1 for g in groups)
    rows = []
    for g in groups:
        cells = [_cell(_lasts(g, key), len(g.runs), show, spread) for key, _, show, spread in shown]
        rows.append((g.label, *([str(len(g.runs))] * several), *cells, _ending(g)[1] or "finished"))
    columns = ("method", *(["seeds"] * several), *(title for _, title, _, _ in shown), "state")
    note = "Mean ± sample standard deviation over the seeds." if several else ""
    return Table("At the last evaluation", columns, rows, note)


def _lasts(group: Group, key: str) -> list[float]:
    rows = [run.metrics[-1] for run in group.runs if len(run.metrics)]
    return [float(row[key]) for row in rows if finite_or_none(row.get(key)) is not None]


def _cell(values: Sequence[float], seeds: int, show: Show, spread: Spread) -> str:
    """The value, or its mean ± deviation; none if a seed has no value, since a mean over the others would flatter."""
    if len(values) < seeds or not values:
        return ABSENT
    return show(values[0]) if seeds == 1 else spread(values)


def _settings(groups: Sequence[Group]) -> tuple[dict[str, str], list[str]]:
    """The settings that all runs share, and the keys in which they differ."""
    keys = list(dict.fromkeys(key for g in groups for key in g.first.keys if key not in ("title", "seed", "algorithm")))
    values = {key: [g.first.keys.get(key) for g in groups] for key in keys}
    differing = [key for key, found in values.items() if len(set(map(str, found))) > 1]
    shared = {key: _value(found[0]) for key, found in values.items() if key not in differing}
    seeds = dict.fromkeys(run.seed for g in groups for run in g.runs)
    commands = dict.fromkeys(_command(run) for g in groups for run in g.runs)
    shared["seed" if len(seeds) == 1 else "seeds"] = ", ".join(map(str, sorted(seeds)))
    made = "\n".join(command for command in commands if command)
    return {**shared, **({"made by": made} if made else {})}, differing


def _differences(groups: Sequence[Group], differing: Sequence[str]) -> Table:
    rows = [(g.label, *(_value(g.first.keys.get(key)) for key in differing)) for g in groups]
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
