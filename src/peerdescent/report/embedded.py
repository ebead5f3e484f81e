"""What is embedded in the page: the points of the curves, thinned and rounded, and drawings of graphs."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.numbers import finite_or_none
from peerdescent.graphs import AnyGraph, DirectedGraph, Graph, GraphSequence
from peerdescent.report import quantities
from peerdescent.report.layout import LABELLED, WeightedGraph, arrow_heads, frames, positions
from peerdescent.report.quantities import added_columns
from peerdescent.runs.metrics import COLUMNS as METRICS_COLUMNS
from peerdescent.runs.metrics import Metrics, Row, diverged

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from peerdescent.report.page import Curves

POINTS = 400
"""The maximum number of points per curve."""
DIGITS = 5
COLUMNS = tuple(name for name in METRICS_COLUMNS[1:] if name != "evaluation_seconds")
MOST_EDGES = 5000
WIDTH = 480.0
"""The width of a drawing, in units of its view box."""


def short(value: Any) -> float | None:
    """The number with five significant digits; None if it is absent or not finite.

    >>> short(0.123456789), short(27_139_212_345.0), short(float("nan")), short(None)
    (0.12346, 27139000000, None, None)
    """
    if finite_or_none(value) is None:
        return None
    rounded = float(f"{float(value):.{DIGITS}g}")
    if not math.isfinite(rounded):  # rounding overflows for the very largest numbers
        return float(value)
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded


def picture(figure: Figure) -> str:
    """A figure as a data URL."""
    from peerdescent.report import drawing

    return "data:image/png;base64," + base64.b64encode(drawing.rendered(figure, "png")).decode()


def thin(count: int, most: int = POINTS) -> list[int]:
    """At most `most` of `count` indices, evenly spaced, both ends included.

    >>> thin(3), thin(9, 3)
    ([0, 1, 2], [0, 4, 8])
    """
    return np.unique(np.linspace(0, count - 1, min(count, most)).round().astype(int)).tolist() if count else []


def looks(charts: Iterable[Curves]) -> dict[str, int]:
    """A number for every label on the page, which sets its colour, line and marker in all charts."""
    labels = dict.fromkeys(label for chart in charts for label in chart.runs)
    return {label: number for number, label in enumerate(labels)}


def chart(curves: Curves, looks: dict[str, int]) -> dict[str, Any]:
    """A chart as the script of the page reads it."""
    drawn = []
    for label, tables in curves.runs.items():
        state, mark = curves.endings.get(label) or ending(tables, curves.planned.get(label))
        mean = _mean(tables) if len(tables) > 1 else None
        seeds = [_seed(table) for table in tables]
        drawn.append({"label": label, "look": looks[label], "state": state, "mark": mark, "seeds": seeds, "mean": mean})
    return {"title": curves.title, "epoch": short(curves.batches_per_epoch), "curves": drawn}


def ending(tables: Sequence[Metrics], planned: int | None = None) -> tuple[str, str]:
    """How the runs of a label ended: done, diverged or running, and a text for the reader.

    >>> ending([Metrics([{"iteration": 0, "loss": 1.0}, {"iteration": 400, "loss": None}])], 3000)
    ('diverged', 'diverged at k = 400')
    >>> ending([Metrics([{"iteration": 1200, "loss": 1.0}])], 3000)
    ('running', 'still running: 1,200 of 3,000 iterations')
    """
    broken = [table[-1]["iteration"] for table in tables if diverged(table)]
    finite = [table[-1]["iteration"] if len(table) else 0 for table in tables if not diverged(table)]
    going = [k for k in finite if planned is not None and k < planned]
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
    """The numbers of one run; one that diverged keeps its last finite row and the row after it."""
    failed = diverged(metrics)
    kept = thin(len(metrics) - failed, POINTS - failed) + [len(metrics) - 1] * failed
    rows = [metrics[index] for index in kept]
    columns = {name: [short(row.get(name)) for row in rows] for name in (*COLUMNS, *added_columns(metrics))}
    filled = {name: column for name, column in columns.items() if any(value is not None for value in column)}
    bands = {} if failed else {name: _agents(rows, name) for name in filled if f"agent_{name}" in rows[-1]}
    agents = {"agents": bands} if bands else {}
    return {"iteration": [row["iteration"] for row in rows], **filled, **agents, "diverged": failed}


def _agents(rows: Sequence[Row], name: str) -> dict[str, list[float | None]]:
    """The lowest and the highest agent at each evaluation."""
    found = [[v for v in row.get(f"agent_{name}") or [] if finite_or_none(v) is not None] for row in rows]
    return {key: [short(end(each, default=None)) for each in found] for key, end in (("low", min), ("high", max))}


def added_labels(charts: Iterable[Curves]) -> dict[str, str]:
    """The columns that not every run has, with what they are called."""
    tables = [table for chart in charts for tables in chart.runs.values() for table in tables]
    return {name: quantities.label(name) for name in added_columns(row for table in tables for row in table)}


def _mean(tables: Sequence[Metrics]) -> dict[str, Any] | None:
    """Mean, standard deviation and minimum over the seeds, at the iterations that all of them have."""
    by_iteration = [{row["iteration"]: row for row in table if not diverged(row)} for table in tables]
    common = sorted(set.intersection(*(set(rows) for rows in by_iteration)))
    if not common:
        return None
    picked = [common[index] for index in thin(len(common))]
    numbers: dict[str, Any] = {"iteration": picked}
    for name in (*COLUMNS, *added_columns(row for table in tables for row in table)):
        values = np.array([[_number(rows[k].get(name)) for k in picked] for rows in by_iteration])
        if np.isfinite(values).all(axis=0).any():
            found = {"mean": values.mean(axis=0), "std": values.std(axis=0, ddof=1), "min": values.min(axis=0)}
            numbers[name] = {key: [short(value) for value in array] for key, array in found.items()}
    return numbers


def _number(value: Any) -> float:
    return math.nan if finite_or_none(value) is None else float(value)


def caption(weighted: WeightedGraph) -> str:
    """Size, degrees, diameter and spectrum in one line."""
    edges = max(len(graph.edges) for graph in frames(weighted.graph))
    cut = f" Only {MOST_EDGES:,} of its {edges:,} edges are drawn." if edges > MOST_EDGES else ""
    return weighted.caption().replace("\n", "; ") + "." + cut


def drawing_of(graph: AnyGraph) -> str:
    """The graph as inline SVG, agents numbered from 0; of a sequence the first rounds, three in a row.

    >>> from peerdescent.graphs import parse
    >>> drawing_of(parse("ring:3")).count("<circle")
    3
    >>> drawing_of(parse("matching:3")).count("<circle")
    18
    """
    places, height = _scaled(graph)
    if isinstance(graph, GraphSequence):
        inner, height = _rounds(graph, places, height)
    else:
        inner = _one(graph, places)
    name = escape(f"Graph {graph}")
    return f'<svg class="graph" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="{name}">{inner}</svg>'


def _rounds(sequence: GraphSequence, places: NDArray[np.float64], height: float) -> tuple[str, float]:
    """The first rounds, each with its number below, and the height of all."""
    shown = frames(sequence)
    columns, label = min(len(shown), 3), 40.0
    cell = height + label
    made = []
    for round, graph in enumerate(shown):
        row, column = divmod(round, columns)
        place = f"translate({column * WIDTH / columns:.1f} {row * cell / columns:.1f}) scale({1 / columns:.4f})"
        name = f'<text class="round" x="{WIDTH / 2:.0f}" y="{height + label / 2:.0f}">round {round}</text>'
        heads = ""
        if isinstance(sequence, DirectedGraph):
            heads = _arrows(sequence.arcs(round).pairs, places)
            name = name if sequence.period > 1 else ""
        made.append(f'<g transform="{place}">{_one(graph, places)}{heads}{name}</g>')
    return "".join(made), -(-len(shown) // columns) * cell / columns


def _arrows(pairs: NDArray[np.int64], places: NDArray[np.float64]) -> str:
    """The heads of directed edges."""
    corners = arrow_heads(places, pairs[thin(len(pairs), MOST_EDGES)], 12.0)
    path = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}L{e:.1f} {f:.1f}Z" for (a, b), (c, d), (e, f) in corners)
    return f'<path class="arrows" fill="currentColor" fill-opacity="0.6" d="{path}"/>'


def _one(graph: Graph, places: NDArray[np.float64]) -> str:
    """The edges, agents and numbers of a graph."""
    radius = 13.0 if graph.n <= 20 else 8.5 if graph.n <= LABELLED else max(2.0, 60 / math.sqrt(graph.n))
    edges = graph.pairs[thin(len(graph.edges), MOST_EDGES)]
    lines = "".join(f"M{a:.1f} {b:.1f}L{c:.1f} {d:.1f}" for (a, b), (c, d) in places[edges])
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>' for x, y in places)
    numbers = ""
    if graph.n <= LABELLED:
        numbers = "".join(f'<text x="{x:.1f}" y="{y:.1f}">{agent}</text>' for agent, (x, y) in enumerate(places))
    return f'<path class="edges" d="{lines}"/>{dots}<g font-size="{1.08 * radius:.1f}">{numbers}</g>'


def _scaled(graph: AnyGraph) -> tuple[NDArray[np.float64], float]:
    """The agents' positions in the drawing, y pointing down, and its height."""
    places = positions(graph) * [1, -1]
    places = places - places.min(axis=0)
    margin = 20.0
    size = places.max(axis=0)
    scale = (WIDTH - 2 * margin) / max(float(size.max()), 1e-9)
    places, size = places * scale, size * scale
    height = max(2 * margin + float(size[1]), 4 * margin)
    offset = np.array([(WIDTH - size[0]) / 2, (height - size[1]) / 2])
    return places + offset, height
