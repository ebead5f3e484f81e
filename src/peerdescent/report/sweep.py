"""What a reader sees of a sweep: a row per method and grid point, and curves with bands over the seeds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from peerdescent._util.numbers import finite_or_none
from peerdescent.report.ends import ending_of, ends_table, last_values
from peerdescent.report.runs import Group, Run
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import Metrics, diverged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MOST_CURVES = 8
"""More than so many curves in one panel cannot be told apart."""
WIDE = 100.0
"""How far above the others a curve with diverged seeds may go before the panel cuts it off."""


def sweep_table(groups: Sequence[Group], title: str = "") -> Table:
    """How the runs at each grid point ended, mean ± deviation over the seeds; the lowest mean risk of all is bold.

    A label of which a seed diverged has no mean, and its state says how many did. The CSV holds the means and
    deviations at full precision.
    """
    table = ends_table(groups)
    column = table.columns.index("risk") if "risk" in table.columns else None
    means = {place: mean for place, group in enumerate(groups) if (mean := mean_loss(group)) < math.inf}
    lowest = min(means.values(), default=math.inf)
    best = {
        (place, column) for place, mean in means.items() if mean == lowest and column is not None and len(means) > 1
    }
    return replace(table, title=title, best=best, data=_data(groups))


def mean_loss(group: Group) -> float:
    """The mean of the last loss over the seeds; infinite if one of them diverged or has none."""
    values = last_values(group, "loss")
    broken = any(diverged(run.metrics) for run in group.runs)
    return math.inf if broken or len(values) < len(group.runs) else fmean(values)


def _data(groups: Sequence[Group]) -> dict[str, list[Any]]:
    """By column, one value per label; None where a seed has no number."""
    names = ["loss", "accuracy", "consensus_error", "gradient_norm", "bytes_sent", "seconds"]
    names += ["simulated_seconds"] * any(last_values(group, "simulated_seconds") for group in groups)
    rows: list[dict[str, Any]] = []
    for group in groups:
        row: dict[str, Any] = {"method": group.label, "seeds": len(group.runs)}
        row["diverged"] = sum(diverged(run.metrics) for run in group.runs)
        for name in names:
            values = last_values(group, name)
            whole = len(values) == len(group.runs) and not row["diverged"]
            row[name] = fmean(values) if whole else None
            row[f"{name}_deviation"] = finite_or_none(stdev(values)) if whole and len(values) > 1 else None
        rows.append({**row, "state": ending_of(group)[1] or "finished"})
    return {key: [row[key] for row in rows] for key in rows[0]} if rows else {}


def sweep_figure(groups: Sequence[Group], title: str = "") -> Figure:
    """Loss and, where there is one, accuracy: the mean over the seeds as a line, one deviation as a band.

    Of more than eight labels, the best grid point of each method is drawn, and if those are too many, the best of them.
    """
    from peerdescent.report.drawing import finalize_layout
    from peerdescent.report.figures import thin_log_ticks
    from peerdescent.report.seeds import learning_curves

    shown, remark = _chosen(groups)
    curves = {_name(group): _tables(group) for group in shown}
    every = [table for tables in curves.values() for table in tables]
    keys = [key for key in ("loss", "accuracy") if any(finite_or_none(v) is not None for t in every for v in t[key])]
    text = "\n".join(part for part in (title, remark) if part)
    timed = all(value is not None for table in every for value in table["simulated_seconds"])
    against = ("iteration", *["simulated_seconds"] * timed)
    figure = learning_curves(curves, keys or ("loss",), title=text, against=against)
    settled = [v for g in shown if math.isfinite(mean_loss(g)) for t in _tables(g) for v in t["loss"]]
    figure.set_layout_engine("constrained")
    broken = len(settled) < sum(len(table) for table in every)
    for axes in figure.axes[: len(against)]:  # the panels of the loss
        if settled and broken and axes.get_ylim()[1] > WIDE * max(settled) > 0:
            axes.set_ylim(top=WIDE * max(settled))
        if axes.get_yscale() == "log":
            thin_log_ticks(axes)
    finalize_layout(figure)
    return figure


def _chosen(groups: Sequence[Group]) -> tuple[list[Group], str]:
    """The labels that are drawn, and a remark if they are not all."""
    if len(groups) <= MOST_CURVES:
        return list(groups), ""
    best: dict[str, Group] = {}
    for group in groups:
        method = group.first.method
        if method not in best or mean_loss(group) < mean_loss(best[method]):
            best[method] = group
    if len(best) == 1:  # one method: its best points, in the order of the grid
        ranked = sorted(range(len(groups)), key=lambda place: (mean_loss(groups[place]), place))[:MOST_CURVES]
        return [groups[place] for place in sorted(ranked)], f"the best {MOST_CURVES} of {len(groups)} grid points"
    kept = sorted(best.values(), key=mean_loss)[:MOST_CURVES]
    ordered = [group for group in best.values() if group in kept]
    few = "" if len(best) <= MOST_CURVES else f", the best {MOST_CURVES} of {len(best)} methods"
    return ordered, f"each method at its best grid point{few}"


def _name(group: Group) -> str:
    broken = sum(diverged(run.metrics) for run in group.runs)
    if not broken:
        return group.label
    return f"{group.label} ({'diverged' if len(group.runs) == 1 else f'{broken} of {len(group.runs)} diverged'})"


def _tables(group: Group) -> list[Metrics]:
    """The metrics per seed, without the rows that are no longer finite."""
    return [_finite(run) for run in group.runs]


def _finite(run: Run) -> Metrics:
    return Metrics([row for row in run.metrics if finite_or_none(row.get("loss")) is not None])
