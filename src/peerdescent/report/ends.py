"""How groups of runs ended, one row per label: means over the seeds, and how many diverged or are unfinished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, stdev

from peerdescent._util.numbers import finite_or_none
from peerdescent.report.embedded import ending
from peerdescent.report.formatting import ABSENT, human_bytes, human_seconds, with_spread
from peerdescent.report.quantities import added_columns, label
from peerdescent.report.runs import Group, Run
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import diverged

Show = Callable[[float], str]
Spread = Callable[[Sequence[float]], str]


def is_unfinished(run: Run, group: Group) -> bool:
    """Whether a run has neither reached its last iteration, nor stopped early, nor diverged."""
    return run.iteration < group.planned and run.status != "early" and not diverged(run.metrics)


_HOW = {
    "running": "still running: {} of {} iterations",
    "stopped": "stopped at {} of {} iterations",
    "killed": "ended without a summary at {} of {} iterations (killed?)",
    "ended": "ended at {} of {} iterations",
    "early": "stopped early at {} of {} iterations",
}


def ending_of(group: Group) -> tuple[str, str]:
    """How the runs of a label ended: done, diverged, running or stopped, and a text for the reader."""
    seeds = len(group.runs)
    state, text = ending([run.metrics for run in group.runs])
    texts = [text] if text else []
    for status, words in _HOW.items():
        of_status = [run for run in group.runs if run.status == status]
        found = [run.iteration for run in of_status if status == "early" or is_unfinished(run, group)]
        if found:
            if state == "done" and status != "early":
                state = "running" if status == "running" else "stopped"
            who = "" if seeds == 1 else f"{len(found)} of {seeds} seeds "
            texts.append(who + words.format(f"{min(found):,}", f"{group.planned:,}"))
    return state, "; ".join(texts)


def _exactly(values: Sequence[float], show: Show) -> str:
    """Mean ± deviation of counts, or the count alone if all seeds have the same."""
    return show(values[0]) if len(set(values)) == 1 else f"{show(fmean(values))} ± {show(stdev(values))}"


def _mean_seconds(values: Sequence[float]) -> str:
    return f"{human_seconds(fmean(values))} ± {human_seconds(stdev(values))}"


_SHOWN: tuple[tuple[str, str, Show, Spread], ...] = (
    ("iteration", "iterations", "{:,.0f}".format, partial(_exactly, show="{:,.0f}".format)),
    ("loss", "risk", "{:.4g}".format, with_spread),
    ("accuracy", "test accuracy (%)", lambda v: f"{100 * v:.2f}", lambda vs: with_spread([100 * v for v in vs], 2)),
    ("test_loss", label("test_loss"), "{:.4g}".format, with_spread),
    ("consensus_error", "consensus error", "{:.3g}".format, with_spread),
    ("gradient_norm", "gradient norm", "{:.3g}".format, with_spread),
    ("bytes_sent", "sent", human_bytes, partial(_exactly, show=human_bytes)),
    ("seconds", "seconds", human_seconds, _mean_seconds),
    ("simulated_seconds", "simulated seconds", human_seconds, _mean_seconds),
)
"""Key in the metrics, head of the column, and how one value and the values of several seeds are shown."""


def ends_table(groups: Sequence[Group]) -> Table:
    """How the runs of each label ended: mean ± deviation over the seeds, none if one of them has no value."""
    added = added_columns(run.metrics[-1] for g in groups for run in g.runs if len(run.metrics))
    own = tuple((name, label(name), "{:.4g}".format, with_spread) for name in added)
    shown = [entry for entry in (*_SHOWN[:4], *own, *_SHOWN[4:]) if any(last_values(g, entry[0]) for g in groups)]
    several = any(len(g.runs) > 1 for g in groups)
    rows = []
    for g in groups:
        cells = [_cell(last_values(g, key), len(g.runs), show, spread) for key, _, show, spread in shown]
        rows.append((g.label, *([str(len(g.runs))] * several), *cells, ending_of(g)[1] or "finished"))
    columns = ("method", *(["seeds"] * several), *(title for _, title, _, _ in shown), "state")
    note = "Mean ± sample standard deviation over the seeds." if several else ""
    return Table("At the last evaluation", columns, rows, note)


def last_values(group: Group, key: str) -> list[float]:
    """The finite values of the last evaluation, one per seed that has one."""
    rows = [run.metrics[-1] for run in group.runs if len(run.metrics)]
    return [float(row[key]) for row in rows if finite_or_none(row.get(key)) is not None]


def _cell(values: Sequence[float], seeds: int, show: Show, spread: Spread) -> str:
    """The value, or its mean ± deviation; none if a seed has no value, since a mean over the others would flatter."""
    if len(values) < seeds or not values:
        return ABSENT
    return show(values[0]) if seeds == 1 else spread(values)
