"""What the page carries within: the curves' numbers, few and short, and drawings of graphs."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from peerdescent.graphs import Graph
from peerdescent.report import drawing
from peerdescent.runs.metrics import Metrics, Row

if TYPE_CHECKING:
    from peerdescent.report.page import Curves

POINTS = 400
"""The most points that a curve is drawn with."""
DIGITS = 5
QUANTITIES = ("loss", "accuracy", "consensus_error", "gradient_norm")
WATCHED = ("loss", "consensus_error", "gradient_norm")
"""A run ends when one of these is no longer finite."""
COLUMNS = (*QUANTITIES, "bytes_sent", "seconds")
MOST_EDGES = 5000
WIDTH = 480.0
"""Of a drawing, in its own units."""


def short(value: Any) -> float | None:
    """The number with five digits; None where there is none.

    >>> short(0.123456789), short(27_139_212_345.0), short(float("nan")), short(None)
    (0.12346, 27139000000, None, None)
    """
    if not finite(value):
        return None
    rounded = float(f"{float(value):.{DIGITS}g}")
    if not math.isfinite(rounded):  # the very largest numbers are rounded beyond all
        return float(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def picture(figure: Figure) -> str:
    """A figure as an address that holds all of it."""
    return "data:image/png;base64," + base64.b64encode(drawing.rendered(figure, "png")).decode()


def finite(value: Any) -> bool:
    """Whether there is a number, and a finite one."""
    return value is not None and math.isfinite(value)


def thin(count: int, most: int = POINTS) -> list[int]:
    """At most so many of `count` positions, evenly, with both ends.

    >>> thin(3), thin(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist() if count else []


def diverged(metrics: Metrics) -> bool:
    """Whether the run ended by leaving the finite numbers."""
    return bool(len(metrics)) and not _sound(metrics[-1])


def _sound(row: Row) -> bool:
    return all(finite(row[key]) for key in WATCHED if key in row)


def looks(charts: Iterable[Curves]) -> dict[str, int]:
    """A number for every label of the page, which decides its colour, line and marker in all charts."""
    labels = dict.fromkeys(label for chart in charts for label in chart.runs)
    return {label: number for number, label in enumerate(labels)}


def chart(curves: Curves, looks: dict[str, int]) -> dict[str, Any]:
    """A chart as the page's script reads it."""
    drawn = []
    for label, tables in curves.runs.items():
        state, mark = ending(tables, curves.planned.get(label))
        mean = _mean(tables) if len(tables) > 1 else None
        seeds = [_seed(table) for table in tables]
        drawn.append({"label": label, "look": looks[label], "state": state, "mark": mark, "seeds": seeds, "mean": mean})
    return {"title": curves.title, "epoch": short(curves.batches_per_epoch), "curves": drawn}


def ending(tables: Sequence[Metrics], planned: int | None = None) -> tuple[str, str]:
    """How the runs of a label ended: done, diverged or running, and the words for it.

    >>> ending([Metrics([{"iteration": 0, "loss": 1.0}, {"iteration": 400, "loss": None}])], 3000)
    ('diverged', 'diverged at k = 400')
    >>> ending([Metrics([{"iteration": 1200, "loss": 1.0}])], 3000)
    ('running', 'still running: 1,200 of 3,000 iterations')
    """
    broken = [table[-1]["iteration"] for table in tables if diverged(table)]
    sound = [table[-1]["iteration"] if len(table) else 0 for table in tables if not diverged(table)]
    going = [k for k in sound if planned is not None and k < planned]
    words = []
    if broken and len(tables) == 1:
        words.append(f"diverged at k = {broken[0]:,}")
    elif broken:
        words.append(f"{len(broken)} of {len(tables)} seeds diverged, the first at k = {min(broken):,}")
    if going:
        who = "" if len(tables) == 1 else f"{len(going)} of {len(tables)} seeds "
        words.append(f"{who}still running: {min(going):,} of {planned:,} iterations")
    state = "diverged" if broken else "running" if going else "done"
    return state, "; ".join(words)


def _seed(metrics: Metrics) -> dict[str, Any]:
    """One run's numbers. One that diverged keeps its last finite point as well as the row it broke at."""
    broke = diverged(metrics)
    kept = thin(len(metrics) - broke, POINTS - broke) + [len(metrics) - 1] * broke
    rows = [metrics[index] for index in kept]
    columns = {name: [short(row.get(name)) for row in rows] for name in COLUMNS}
    filled = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    return {"iteration": [row["iteration"] for row in rows], **filled, "diverged": broke}


def _mean(tables: Sequence[Metrics]) -> dict[str, Any] | None:
    """Mean, deviation and smallest value over the seeds, as far as all of them go."""
    by_iteration = [{row["iteration"]: row for row in table if _sound(row)} for table in tables]
    common = sorted(set.intersection(*(set(rows) for rows in by_iteration)))
    if not common:
        return None
    picked = [common[index] for index in thin(len(common))]
    numbers: dict[str, Any] = {"iteration": picked}
    for name in COLUMNS:
        values = np.array([[_number(rows[k].get(name)) for k in picked] for rows in by_iteration])
        if np.isfinite(values).all(axis=0).any():
            found = {"mean": values.mean(axis=0), "std": values.std(axis=0, ddof=1), "min": values.min(axis=0)}
            numbers[name] = {key: [short(value) for value in array] for key, array in found.items()}
    return numbers


def _number(value: Any) -> float:
    return float(value) if finite(value) else math.nan


def caption(graph: Graph) -> str:
    """Size, degrees, diameter and spectrum, in words."""
    hidden = len(graph.edges) - MOST_EDGES
    cut = f" Only {MOST_EDGES:,} of its {len(graph.edges):,} edges are drawn." if hidden > 0 else ""
    return drawing.caption_of(graph).replace("\n", "; ") + "." + cut


def drawing_of(graph: Graph) -> str:
    """The graph as inline SVG, agents numbered from 1.

    >>> from peerdescent.graphs import ring
    >>> drawing_of(ring(3)).count("<circle")
    3
    """
    places, height = _scaled(graph)
    radius = 13.0 if graph.n <= 20 else 8.5 if graph.n <= drawing.LABELLED else max(2.0, 60 / math.sqrt(graph.n))
    edges = graph.pairs[thin(len(graph.edges), MOST_EDGES)]
    lines = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in places[edges])
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in places)
    numbers = ""
    if graph.n <= drawing.LABELLED:
        named = enumerate(places, start=1)
        numbers = "".join(f'<text x="{x:.1f}" y="{y:.1f}">{number}</text>' for number, (x, y) in named)
    name = escape(f"Graph {graph}")
    return (
        f'<svg class="graph" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{name}">'
        f'<path class="edges" d="{lines}"/>{dots}<g font-size="{1.08 * radius:.1f}">{numbers}</g></svg>'
    )


def _scaled(graph: Graph) -> tuple[NDArray[np.float64], float]:
    """Places within the drawing, top down, and its height."""
    places = drawing.places_of(graph) * [1, -1]
    places = places - places.min(axis=0)
    margin = 20.0
    size = places.max(axis=0)
    scale = (WIDTH - 2 * margin) / max(float(size.max()), 1e-9)
    places, size = places * scale, size * scale
    height = max(2 * margin + float(size[1]), 4 * margin)
    offset = np.array([(WIDTH - size[0]) / 2, (height - size[1]) / 2])
    return places + offset, height
