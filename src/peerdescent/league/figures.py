"""The figures of the league: critical differences of mean ranks, and losses against simulated seconds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from peerdescent._util.extras import needed_for
from peerdescent.league import ranks
from peerdescent.league.ranks import Numbers
from peerdescent.league.standings import Result, Results, Standing
from peerdescent.league.tasks import Task
from peerdescent.report.drawing import finalize_layout, label_text, new_figure
from peerdescent.report.figures import thin_log_ticks
from peerdescent.report.style import curve_style

with needed_for("figures"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

TITLES = {"iterations": "equal iterations", "bytes": "equal bytes", "seconds": "equal simulated seconds"}
HIGHLIGHTED = 6
"""Curves that have a colour; the others are grey."""
POINTS = 81
ROW = 0.19
"""The height of a name in a diagram, in inches."""
DARK, GREY, REFERENCE = "0.15", "0.82", "black"


def critical_differences(standings: Sequence[Standing]) -> Figure:
    """One diagram per criterion: methods by their mean rank; a bar joins those that Nemenyi's test does not tell apart.

    >>> losses = np.array([[[0.1], [0.2], [0.3]], [[0.1], [0.2], [0.4]]])
    >>> figure = critical_differences([Standing("bytes", ["one", "two"], ["a", "b", "c"], losses)])
    >>> figure.axes[0].get_title(loc="left")
    'equal bytes'
    """
    rows = [_rows(one) for one in standings]
    figure = new_figure(9.0, sum(ROW * count + 0.75 for count in rows))
    figure.set_layout_engine("constrained", h_pad=0.08)
    panels = figure.subplots(len(standings), 1, squeeze=False, height_ratios=rows)[:, 0]
    for axes, one, count in zip(panels, standings, rows, strict=True):
        _diagram(axes, one, count)
    finalize_layout(figure)
    return figure


def _bars(one: Standing) -> list[tuple[int, int]]:
    return ranks.groups(one.mean_ranks.tolist(), one.critical_difference)


def _rows(one: Standing) -> float:
    """The height of a diagram, in rows: the critical difference, the axis, the bars, the names."""
    return 4.0 + 0.6 * len(_bars(one)) + math.ceil(len(one.methods) / 2)


def _diagram(axes: Axes, one: Standing, height: float) -> None:
    """Ranks on an axis at the top, the best on the left; names in two columns below, joined to their ranks by lines."""
    k = len(one.methods)
    span = float(k - 1)
    axes.set(xlim=(1 - 0.42 * span, k + 0.42 * span), ylim=(-(height - 2.2), 2.2))
    axes.set_axis_off()
    axes.set_title(TITLES[one.criterion], loc="left", fontsize=10.5, fontweight="bold", color=DARK)
    axes.plot([1, k], [0, 0], color=DARK, linewidth=1.1)
    step = max(1, round(k / 12))
    for tick in [1, *range(1 + step, k - step // 2, step), k]:
        axes.plot([tick, tick], [0, 0.28], color=DARK, linewidth=0.9)
        axes.text(tick, 0.36, str(tick), ha="center", va="bottom", fontsize=8, color=DARK)
    _ruler(axes, one, span)
    bars, ordered = _bars(one), sorted(one.mean_ranks.tolist())
    for number, (first, last) in enumerate(bars):
        y = -0.45 - 0.6 * number
        axes.plot([ordered[first] - 0.008 * span, ordered[last] + 0.008 * span], [y, y], color=DARK, linewidth=3.2)
    _names(axes, one, -0.9 - 0.6 * len(bars), span)


def _ruler(axes: Axes, one: Standing, span: float) -> None:
    """The critical difference as a length above the axis; a longer one than the axis is written only."""
    difference = one.critical_difference
    text = f"critical difference {difference:.1f}"
    if difference > span:
        axes.text(1, 1.75, f"{text}, wider than the axis", va="center", fontsize=8, color=DARK)
        return
    axes.plot([1, 1 + difference], [1.75, 1.75], color=DARK, linewidth=1.4)
    for end in (1, 1 + difference):
        axes.plot([end, end], [1.55, 1.95], color=DARK, linewidth=1.4)
    axes.text(1 + difference + 0.015 * span, 1.75, text, va="center", fontsize=8, color=DARK)


def _names(axes: Axes, one: Standing, top: float, span: float) -> None:
    k = len(one.order)
    half = (k + 1) // 2
    for place, method in enumerate(one.order):
        left = place < half
        y = top - 0.5 - (place if left else k - 1 - place)
        rank = float(one.mean_ranks[method])
        edge = 1 - 0.03 * span if left else k + 0.03 * span
        axes.plot([rank, rank, edge], [0, y, y], color="0.55", linewidth=0.7, zorder=1)
        text = label_text(one.methods[method])
        shown = f"{text}  {rank:.1f}" if left else f"{rank:.1f}  {text}"
        at = edge - 0.008 * span if left else edge + 0.008 * span
        axes.text(at, y, shown, ha="right" if left else "left", va="center", fontsize=8.5, color=DARK)


def seconds_figure(
    results: Results,
    tasks: Sequence[Task],
    highlighted: Sequence[str],
    others: Sequence[str],
    references: Sequence[str],
) -> Figure:
    """The mean loss over the seeds against simulated seconds, one panel per task and one row per data set.

    Args:
        results: of all methods.
        tasks: that all have played.
        highlighted: methods with a colour.
        others: methods in grey.
        references: centralized methods, dashed and black.
    """
    data = list(dict.fromkeys(task.data for task in tasks))
    columns = max(sum(task.data == name for task in tasks) for name in data)
    figure = new_figure(max(6.4, 2.9 * columns), 2.35 * len(data) + 1.1)
    panels = figure.subplots(len(data), columns, squeeze=False, sharey="row")
    for row, name in zip(panels, data, strict=True):
        shown: list[float] = []
        for axes, task in zip(row, [task for task in tasks if task.data == name], strict=False):
            drawn = [(method, GREYED) for method in others]
            drawn += [(method, _look(number)) for number, method in enumerate(highlighted)]
            drawn += [(method, DASHED) for method in references]
            shown += _panel(axes, task, {method: results[str(task), method] for method, _ in drawn}, dict(drawn))
        for axes in row[sum(task.data == name for task in tasks) :]:
            axes.set_visible(False)
        if shown:
            row[0].set_ylim(min(shown) / 1.15, 1.15 * max(shown))
        row[0].set_ylabel("training loss")
        thin_log_ticks(row[0])
    for axes in panels[-1]:
        axes.set_xlabel("simulated seconds")
    _legend(figure, highlighted, references, bool(others))
    finalize_layout(figure)
    return figure


GREYED: Mapping[str, Any] = {"color": GREY, "linewidth": 0.8, "zorder": 1}
DASHED: Mapping[str, Any] = {"color": REFERENCE, "linewidth": 1.4, "linestyle": (0, (4, 2)), "zorder": 4}


def _look(number: int) -> Mapping[str, Any]:
    style = curve_style(number)
    return {**style, "linewidth": 1.5, "markersize": 4.2, "markevery": (4 + 2 * number, POINTS // 5), "zorder": 3}


def _panel(
    axes: Axes, task: Task, results: Mapping[str, Result], looks: Mapping[str, Mapping[str, Any]]
) -> list[float]:
    """Draw the curves of a task; returns where they begin and their smallest losses, which the axis must show."""
    end = max((result.budgets or {}).get("seconds", 0.0) for result in results.values())
    grid = np.linspace(0.0, end or 1.0, POINTS)
    shown: list[float] = []
    for method, result in results.items():
        if result.diverged or result.refused:
            continue
        losses = _mean_loss(result, grid)
        axes.plot(grid, losses, **looks[method])
        shown += [float(np.nanmin(losses)), float(losses[0])]
    axes.set_title(f"{task.data}, {task.partition}\n{task.graph}", fontsize=8.5, color=DARK)
    axes.set_yscale("log")
    axes.set_xlim(0, end or 1.0)
    axes.grid(color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=8)
    return shown


def _mean_loss(result: Result, grid: Numbers) -> Numbers:
    """The mean over the seeds at these times; nothing where a run had ended before."""
    rows = [np.interp(grid, curve.needed["seconds"], curve.losses, right=np.nan) for curve in result.curves]
    return np.asarray(np.mean(rows, axis=0), dtype=np.float64)


def _legend(figure: Figure, highlighted: Sequence[str], references: Sequence[str], others: bool) -> None:
    looks = [_look(number) for number in range(len(highlighted))] + [DASHED] * len(references)
    handles = [Line2D([], [], **{key: v for key, v in look.items() if key != "markevery"}) for look in looks]
    names = [label_text(name) for name in highlighted]
    names += [f"{label_text(name)} (centralized)" for name in references]
    if others:
        handles.append(Line2D([], [], **GREYED))
        names.append("all other methods")
    style: dict[str, Any] = {"frameon": False, "fontsize": 9, "handlelength": 3.2}
    fitting = int(figure.get_figwidth() * 12.5 / (max(map(len, names)) + 9))
    figure.legend(handles, names, loc="outside lower center", ncols=max(1, min(len(names), fitting)), **style)
