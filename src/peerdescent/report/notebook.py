"""Results as a notebook shows them: small tables with a curve of the loss, as HTML that loads nothing."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any

from peerdescent._util.numbers import finite_or_none
from peerdescent.report.embedded import thin
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import Metrics, diverged

WIDTH, HEIGHT = 140.0, 28.0
POINTS = 120
"""The maximum number of points of a small curve."""
_CELL = "padding:2px 12px 2px 0;border:0;background:none;vertical-align:middle;white-space:nowrap"
"""Colours are those of the notebook, light or dark."""


def sparkline(values: Sequence[float | None], label: str = "") -> str:
    """A small curve; logarithmic where all numbers are positive and far apart. What is not finite is left out.

    >>> sparkline([1.0, 0.5, None, 0.25]).count("<svg"), sparkline([None])
    (1, '')
    """
    points = [(i, float(v)) for i, v in enumerate(values) if finite_or_none(v) is not None and v is not None]
    if len(points) < 2:
        return ""
    points = [points[i] for i in thin(len(points), POINTS)]
    numbers = [value for _, value in points]
    log = min(numbers) > 0 and max(numbers) > 10 * min(numbers)
    heights = [math.log10(value) if log else value for value in numbers]
    low, high, last = min(heights), max(heights), max(1, len(values) - 1)
    span = (high - low) or 1.0
    path = " ".join(
        f"{2 + (WIDTH - 4) * i / last:.1f},{2 + (HEIGHT - 4) * (high - y) / span:.1f}"
        for (i, _), y in zip(points, heights, strict=True)
    )
    name = escape(f"{label} from {numbers[0]:.4g} to {numbers[-1]:.4g}".strip())
    return (
        f'<svg width="{WIDTH:.0f}" height="{HEIGHT:.0f}" viewBox="0 0 {WIDTH:.0f} {HEIGHT:.0f}" role="img" '
        f'aria-label="{name}"><title>{name}</title><polyline points="{path}" fill="none" stroke="#0072B2" '
        'stroke-width="1.5"/></svg>'
    )


def result_html(title: str, facts: Mapping[str, str], metrics: Metrics, notes: Sequence[str] = ()) -> str:
    """One run: what it was, its last numbers, the curve of its loss, and its notes.

    >>> "<b>d2&lt;</b>" in result_html("d2<", {"loss": "0.5"}, Metrics())
    True
    """
    shown = dict(facts)
    rows = "".join(_pair(name, escape(text)) for name, text in shown.items())
    curve = sparkline(metrics["loss"], "loss")
    rows += _pair("loss over time", curve) if curve else ""
    state = " diverged" if diverged(metrics) else ""
    below = "".join(f'<div style="margin-top:4px">note: {escape(note)}</div>' for note in notes)
    body = f'<table style="border:0;margin:4px 0;font-size:inherit"><tbody>{rows}</tbody></table>'
    return f"<div><b>{escape(title)}</b>{state}{body}{below}</div>"


def table_html(table: Table, curves: Mapping[str, Metrics] | None = None, without: Collection[str] = ()) -> str:
    """A table, the best cells bold; by the label in the first column, the curve of the loss in a last one.

    Args:
        table: what is shown.
        curves: by label, the metrics of its curve.
        without: columns to leave out, so that the table fits a notebook.
    """
    kept = [i for i, name in enumerate(table.columns) if name not in without]
    drawn = [sparkline(curves[row[0]]["loss"], "loss") if curves and row[0] in curves else "" for row in table.rows]
    heads = [*(table.columns[i] for i in kept), *(["loss over time"] if any(drawn) else [])]
    right = [*(table.numeric[i] for i in kept), False]
    head = "".join(_th(name, right[i]) for i, name in enumerate(heads))
    lines = []
    for place, row in enumerate(table.rows):
        cells = [
            f"<b>{escape(text)}</b>" if (place, i) in table.best else escape(text)
            for i, text in enumerate(row)
            if i in kept
        ]
        cells += [drawn[place]] if any(drawn) else []
        lines.append("<tr>" + "".join(_td(text, right[i]) for i, text in enumerate(cells)) + "</tr>")
    title = f"<b>{escape(table.title)}</b>" if table.title else ""
    note = f"<div>{escape(table.note)}</div>" if table.note else ""
    body = f"<thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody>"
    return f'<div>{title}<table style="border:0;margin:4px 0;font-size:inherit">{body}</table>{note}</div>'


def facts_of(last: Mapping[str, Any], iterations: int) -> dict[str, str]:
    """The numbers of the last evaluation that there are, in words."""
    from peerdescent.report.formatting import human_bytes, human_seconds

    shown: dict[str, Any] = {
        "iterations": (last.get("iteration"), lambda v: f"{v:,} of {iterations:,}" if v < iterations else f"{v:,}"),
        "loss": (last.get("loss"), lambda v: f"{v:.4g}"),
        "test accuracy": (last.get("accuracy"), lambda v: f"{100 * v:.2f} %"),
        "consensus error": (last.get("consensus_error"), lambda v: f"{v:.3g}"),
        "sent": (last.get("bytes_sent"), human_bytes),
        "computing time": (last.get("seconds"), lambda v: f"{human_seconds(v)} s"),
        "simulated time": (last.get("simulated_seconds"), lambda v: f"{human_seconds(v)} s"),
    }
    return {name: show(value) for name, (value, show) in shown.items() if finite_or_none(value) is not None}


def _pair(name: str, content: str) -> str:
    return f'<tr style="background:none">{_td(escape(name), False)}{_td(content, False)}</tr>'


def _td(content: str, right: bool) -> str:
    return f'<td style="{_CELL};text-align:{"right" if right else "left"}">{content}</td>'


def _th(name: str, right: bool) -> str:
    return f'<th style="{_CELL};text-align:{"right" if right else "left"}">{escape(name)}</th>'
