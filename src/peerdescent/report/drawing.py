"""Pictures of graphs, and what all pictures share: colours, safe texts and saving."""

from __future__ import annotations

import io
import os
import threading
from pathlib import Path
from typing import Any

import matplotlib
import networkx as nx
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.mathtext import MathTextParser
from numpy.typing import NDArray

from peerdescent._util.files import write_atomically
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, spectrum

# Okabe and Ito's, told apart by colour-blind eyes, without the yellow that vanishes on paper
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LABELLED = 60
"""Up to this many agents a graph is drawn with their numbers."""
_turns = threading.Lock()
"""Threads take turns at drawing: matplotlib's parser of mathematics and its settings are global."""


def readable(text: str) -> str:
    """The text as matplotlib should take it: mathematics where dollars enclose such, else as it stands."""
    if "$" in text:
        try:
            with _turns:
                MathTextParser("path").parse(text)
        except ValueError:
            return text.replace("$", r"\$")
    return text


def finalize_layout(figure: Figure) -> None:
    """Lay the figure out for good: every further layout would move things by a hair, and change the bytes.

    Who changes a figure afterwards can say `figure.set_layout_engine("constrained")`.
    """
    engine = figure.get_layout_engine()
    if engine is not None:
        with _turns:
            engine.execute(figure)
    figure.set_layout_engine("none")


def topology(graph: Graph) -> Figure:
    """The graph, agents numbered from 1, with its size, diameter and Laplacian eigenvalues underneath.

    >>> from peerdescent.graphs import ring
    >>> print(topology(ring(4)).axes[0].get_xlabel())
    4 agents, 4 edges, degree 2, diameter 2
    unit Laplacian: ρ(L) = 4, ρ₂(L) = 2
    """
    roomy = graph.n <= 20
    figure = Figure(figsize=(5.4, 5.4) if roomy else (6.8, 6.8), layout="constrained")
    axes = figure.subplots()
    places = places_of(graph)
    # beyond some thousands, edges as vectors make a file that no viewer opens
    many = len(graph.edges) > 5000
    width = min(1.3, max(0.35, 200 / (1 + len(graph.edges))))
    lines = LineCollection(list(places[graph.pairs]), colors="0.6", linewidths=width, rasterized=many, zorder=1)
    axes.add_collection(lines)
    area = 330 if roomy else 150 if graph.n <= LABELLED else max(4, 4000 / graph.n)
    dots: dict[str, Any] = {"color": COLOURS[0], "edgecolors": "white", "linewidths": 0.4, "clip_on": False}
    axes.scatter(places[:, 0], places[:, 1], s=area, zorder=2, **dots)
    if graph.n <= LABELLED:
        text: dict[str, Any] = {"color": "white", "size": 10 if roomy else 7, "ha": "center", "va": "center_baseline"}
        for number, (x, y) in enumerate(places, start=1):
            axes.text(x, y, str(number), zorder=3, **text)
    _frame(axes, places)
    axes.set_title(readable(graph.spec), pad=14)
    axes.set_xlabel(caption_of(graph), color="0.25", labelpad=10)
    finalize_layout(figure)
    return figure


def _frame(axes: Axes, places: NDArray[np.float64]) -> None:
    """Room for all agents; where they stand in a row, also across it, so that the words keep clear."""
    centre, half = (places.max(axis=0) + places.min(axis=0)) / 2, np.ptp(places, axis=0) / 2
    half = np.maximum(1.08 * half, 0.3 * half.max() or 1.0)
    (left, bottom), (right, top) = centre - half, centre + half
    axes.set(aspect="equal", xlim=(left, right), ylim=(bottom, top), xticks=[], yticks=[])
    axes.spines[:].set_visible(False)


def caption_of(graph: Graph) -> str:
    """Size, diameter and Laplacian eigenvalues, in two lines."""
    ends = spectrum(graph.laplacian("unit"), graph.mixing())
    low, high = int(graph.degrees.min()), int(graph.degrees.max())
    size = str(graph).rpartition("(")[2].rstrip(")")  # "10 agents, 11 edges", singular where it is one
    degree = f"degree {low}" if low == high else f"degree {low}–{high}"
    return (
        f"{size}, {degree}, diameter {graph.diameter()}\nunit Laplacian: ρ(L) = {ends.rho:.4g}, ρ₂(L) = {ends.rho2:.4g}"
    )


def places_of(graph: Graph) -> NDArray[np.float64]:
    """Where the agents stand: n×2, the same at every call."""
    kind, *numbers = graph.spec.split(":")
    if kind == "grid":
        rows, columns = map(int, numbers)
        down, across = np.divmod(np.arange(rows * columns), columns)
        return np.stack([across, -down], axis=1).astype(np.float64)
    found = _layout(graph, kind)
    return np.array([found[agent] for agent in range(graph.n)], dtype=np.float64)


def _layout(graph: Graph, kind: str) -> Any:
    g, n = graph.to_networkx(), graph.n
    if kind == "path" or n == 2:  # an arc, since a line would use none of the height
        angles = np.linspace(np.pi, 0, n)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1)
    hub = int(graph.degrees.argmax())
    if len(graph.edges) == n - 1 and graph.degrees[hub] == n - 1:
        return nx.shell_layout(g, [[hub], [agent for agent in g if agent != hub]])
    if graph.degrees.max() == graph.degrees.min() == 2:  # a ring, however its agents are numbered
        return nx.circular_layout(list(nx.dfs_preorder_nodes(g, 0)))
    if len(graph.edges) == n * (n - 1) // 2 or kind in ("exponential", "ws"):
        return nx.circular_layout(g)
    if n <= 150:
        return nx.kamada_kawai_layout(g, weight=None)
    # spring forces cost n² per step: the larger the graph, the fewer the steps
    return nx.spring_layout(g, weight=None, seed=0, iterations=max(5, min(100, 100_000 // n)))


FORMATS: dict[str, dict[str, Any]] = {"png": {}, "pdf": {"CreationDate": None}, "svg": {"Date": None}}
"""What figures can be saved as, and what is left out so that the same data give the same bytes."""


def save(figure: Figure, path_without_suffix: str | os.PathLike[str]) -> list[Path]:
    """Write a figure as PNG and as PDF with embedded TrueType fonts; the same data gives the same bytes.

    >>> import tempfile
    >>> from peerdescent.graphs import ring
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     [path.name for path in save(topology(ring(3)), f"{folder}/ring.3")]
    ['ring.3.png', 'ring.3.pdf']
    """
    stem = Path(path_without_suffix)
    # joined by hand: with_suffix would take the 3 of ring.3 for a suffix
    return [save_as(figure, stem.with_name(f"{stem.name}.{suffix}")) for suffix in ("png", "pdf")]


def save_as(figure: Figure, file: str | os.PathLike[str]) -> Path:
    """Write a figure into one file, whose name says what kind it is: .png, .pdf or .svg."""
    path = Path(file)
    suffix = path.suffix[1:].lower()
    if suffix not in FORMATS:
        raise InputError(f"the figure {path} has no kind of picture in its name: end it in .png, .svg or .pdf.")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, rendered(figure, suffix))
    except OSError as error:
        raise InputError(f"cannot write the figure {path}: {error.strerror or error}.") from error
    return path


def rendered(figure: Figure, suffix: str) -> bytes:
    """A figure as the bytes of a file of that format."""
    file = io.BytesIO()
    with _turns, matplotlib.rc_context({"pdf.fonttype": 42, "svg.hashsalt": "peerdescent"}):
        figure.savefig(file, format=suffix, dpi=150, metadata=FORMATS[suffix])
    return file.getvalue()
