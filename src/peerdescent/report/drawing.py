"""Graphs as matplotlib figures, and what all figures share: labels, layout and saving."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.extras import needed_for
from peerdescent._util.files import FULL_DISK, write_atomically
from peerdescent.errors import InputError
from peerdescent.graphs import AnyGraph, DirectedGraph, Graph, GraphSequence, Spectrum
from peerdescent.report.layout import LABELLED, WeightedGraph, arrow_heads, frames, positions
from peerdescent.report.style import COLOURS

with needed_for("figures"):
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PolyCollection
    from matplotlib.figure import Figure
    from matplotlib.mathtext import MathTextParser

_lock = threading.Lock()
"""Threads draw one at a time: matplotlib's parser of mathematics and its settings are global."""


def label_text(text: str) -> str:
    """The text as matplotlib should take it: mathematics where dollars enclose it, else literally."""
    if "$" in text:
        try:
            with _lock:
                MathTextParser("path").parse(text)
        except ValueError:
            return text.replace("$", r"\$")
    return text


class ShownFigure(Figure):
    """A figure that a notebook shows without pyplot."""

    def _repr_png_(self) -> bytes:
        return rendered(self, "png", dpi=80)


def new_figure(width: float, height: float) -> Figure:
    """An empty figure of a size in inches; call `finalize_layout` when it is complete."""
    return ShownFigure(figsize=(width, height), layout="constrained")


def finalize_layout(figure: Figure) -> None:
    """Lay out the figure once and for all: another layout would move things slightly and change the bytes.

    To change a figure afterwards, call `figure.set_layout_engine("constrained")`.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        with _lock:
            engine.execute(figure)
    figure.set_layout_engine("none")


def topology(graph: AnyGraph, spectrum: Spectrum | None = None, kind: str = "metropolis") -> Figure:
    """The graph, agents numbered from 0, with its size, diameter and the eigenvalues of L below.

    Args:
        graph: what to draw; of a sequence the first rounds, side by side.
        spectrum: that of the Laplacian in use; None computes that of `graph.laplacian(kind)`. A sequence has none.
        kind: the Laplacian's kind, for the caption; "matched" without a spectrum shows I−W.

    >>> from peerdescent.graphs import ring
    >>> print(topology(ring(4)).axes[0].get_xlabel())
    4 agents, 4 edges, degree 2, diameter 2
    metropolis Laplacian: ρ(L) = 1.333, ρ₂(L) = 0.6667
    """
    if isinstance(graph, GraphSequence):
        return _rounds(graph)
    weighted = WeightedGraph.build(graph, kind) if spectrum is None else WeightedGraph(graph, spectrum, kind)
    roomy = graph.n <= 20
    figure = new_figure(*((5.4, 5.4) if roomy else (6.8, 6.8)))
    axes = figure.subplots()
    places = positions(graph)
    _draw(axes, graph, places, 1.0)
    axes.set_title(label_text(graph.spec), pad=14)
    axes.set_xlabel(weighted.caption(), color="0.25", labelpad=10)
    finalize_layout(figure)
    return figure


def _rounds(sequence: GraphSequence) -> Figure:
    """The first rounds of a sequence, each with its number, the agents at the same places."""
    shown, places = frames(sequence), positions(sequence)
    stays = isinstance(sequence, DirectedGraph) and sequence.period == 1
    columns = len(shown) if len(shown) <= 3 else (len(shown) + 1) // 2
    rows = -(-len(shown) // columns)
    figure = new_figure(max(5.4, 3.0 * columns), 3.2 * rows + 1.2)
    figure.set_layout_engine("constrained", w_pad=0.15, h_pad=0.1)
    panels = figure.subplots(rows, columns, squeeze=False).ravel()
    for round, axes in enumerate(panels):
        if round < len(shown):
            _draw(axes, shown[round], places, 0.55)
            if isinstance(sequence, DirectedGraph):
                heads = arrow_heads(places, sequence.arcs(round).pairs, 0.09)
                axes.add_collection(PolyCollection(list(heads), facecolors="0.45", zorder=1.5))
            axes.set_title("" if stays else f"round {round}", size="medium", color="0.25")
        else:
            axes.set_visible(False)
    figure.suptitle(label_text(sequence.spec))
    figure.supxlabel(WeightedGraph(sequence, None).caption(), color="0.25", size="medium")
    finalize_layout(figure)
    return figure


def _draw(axes: Axes, graph: Graph, places: NDArray[np.float64], scale: float) -> None:
    """The agents and edges of a graph; `scale` is the size of the axes relative to a figure of one graph."""
    roomy = graph.n <= 20
    # beyond some thousands, edges as vectors make a file that no viewer opens
    many = len(graph.edges) > 5000
    width = min(1.3, max(0.35, 200 / (1 + len(graph.edges))))
    lines = LineCollection(list(places[graph.pairs]), colors="0.6", linewidths=width, rasterized=many, zorder=1)
    axes.add_collection(lines)
    area = scale * (330 if roomy else 150 if graph.n <= LABELLED else max(4, 4000 / graph.n))
    dots: dict[str, Any] = {"color": COLOURS[0], "edgecolors": "white", "linewidths": 0.4, "clip_on": False}
    axes.scatter(places[:, 0], places[:, 1], s=area, zorder=2, **dots)
    if graph.n <= LABELLED:
        text: dict[str, Any] = {
            "color": "white",
            "size": (10 if roomy else 7) * scale**0.5,
            "ha": "center",
            "va": "center_baseline",
        }
        for agent, (x, y) in enumerate(places):
            axes.text(x, y, str(agent), zorder=3, **text)
    _frame(axes, places)


def _frame(axes: Axes, places: NDArray[np.float64]) -> None:
    """Room for all agents; where they form a line, room across it too, so that text and agents do not overlap."""
    centre, half = (places.max(axis=0) + places.min(axis=0)) / 2, np.ptp(places, axis=0) / 2
    half = np.maximum(1.08 * half, 0.3 * half.max() or 1.0)
    (left, bottom), (right, top) = centre - half, centre + half
    axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


FORMATS: dict[str, dict[str, Any]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""The formats of saved figures, and the metadata to leave out so that the same data give the same bytes."""


def save(figure: Figure, path_without_suffix: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG and as PDF with embedded TrueType fonts; the same data give the same bytes.

    >>> import tempfile
    >>> from peerdescent.graphs import ring
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save(topology(ring(3)), f"{folder}/ring.3")]
    ['ring.3.png', 'ring.3.pdf']
    """
    stem = Path(path_without_suffix)
    # not with_suffix, which would take the 3 of ring.3 for a suffix
    return [save_as(figure, stem.with_name(f"{stem.name}.{suffix}")) for suffix in ("png", "pdf")]


def save_as(figure: Figure, file: str | os.PathLike[str]) -> Path:
    """Write a figure to one file, in the format of its suffix: .png, .pdf or .svg."""
    path = Path(file)
    suffix = path.suffix[1:].lower()
    if suffix not in FORMATS:
        raise InputError(f"the name of the figure {path} has no image format: end it in .png, .svg or .pdf.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, rendered(figure, suffix))
    except OSError as error:
        if error.errno in FULL_DISK:
            raise
        raise InputError(f"cannot write the figure {path}: {error.strerror or error}.") from error
    return path


def rendered(figure: Figure, suffix: str, dpi: float = 150) -> bytes:
    """A figure as the bytes of a file of that format."""
    file = io.BytesIO()
    with _lock, matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "peerdescent"}):
        figure.savefig(file, format=suffix, dpi=dpi, metadata=FORMATS[suffix])
    return file.getvalue()
