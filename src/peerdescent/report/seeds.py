"""Figures for a paper: the mean over seeds as a line, one standard deviation as a band."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.extras import needed_for
from peerdescent.errors import InputError
from peerdescent.report.drawing import finalize_layout, label_text, new_figure
from peerdescent.report.style import curve_style
from peerdescent.runs.metrics import Metrics

with needed_for("figures"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = NDArray[np.float64]
QUANTITIES = {"loss": ("training loss", 1.0), "accuracy": ("test accuracy (%)", 100.0)}


def learning_curves(
    runs: Mapping[str, Sequence[Metrics]],
    quantities: Sequence[str] = ("loss", "accuracy"),
    per_epoch: float | None = None,
    title: str = "",
    against: Sequence[str] = ("iteration",),
) -> Figure:
    """One panel per quantity, against iterations or, given the iterations per epoch, against epochs.

    With `against`, each quantity has a panel for each of these columns, "iteration" or "simulated_seconds"; of several
    seeds, the mean of their times counts.

    >>> table = Metrics([{"iteration": k, "loss": 1 / (k + 1), "accuracy": 0.5} for k in range(5)])
    >>> figure = learning_curves({"d-sgd-1": [table, table]}, per_epoch=2)
    >>> [axes.get_ylabel() for axes in figure.axes], figure.axes[0].get_xlabel()
    (['training loss', 'test accuracy (%)'], 'epoch')
    """
    if not runs:
        raise InputError("there are no curves to draw: give at least one method and its metrics.")
    columns = max(1, min(len(runs), int((3 + 2.6 * len(quantities)) * 16 / (max(map(len, runs)) + 9))))
    panels = [(key, x) for key in quantities for x in against]
    width, height = max(6.4, 5.2 * len(panels)), 3.9 + 0.22 * math.ceil(len(runs) / columns)
    figure = new_figure(width, height)
    for axes, (key, x) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels, strict=True):
        _panel(axes, runs, key, per_epoch if x == "iteration" else None, x)
    if title:
        figure.suptitle(label_text(title), fontsize=12)
    handles, labels = figure.axes[0].get_legend_handles_labels()
    style = {"frameon": False, "fontsize": 9, "handlelength": 3.4}
    figure.legend(handles, labels, loc="outside lower center", ncols=columns, **style)
    finalize_layout(figure)
    return figure


def _panel(
    axes: Axes, runs: Mapping[str, Sequence[Metrics]], key: str, per_epoch: float | None, against: str = "iteration"
) -> None:
    name, scale = QUANTITIES[key]
    for number, (label, tables) in enumerate(runs.items()):
        across, values = _stacked(tables, against).mean(axis=0), _stacked(tables, key)
        across, values = across / (per_epoch or 1), values * scale
        style = curve_style(number)
        markers: dict[str, Any] = {"markersize": 4.5, "markevery": max(1, len(across) // 8)}
        mean, deviation = values.mean(axis=0), values.std(axis=0, ddof=1) if len(values) > 1 else 0.0
        low = np.maximum(mean - deviation, values.min(axis=0))  # the band stays within the seeds:
        high = np.minimum(mean + deviation, values.max(axis=0))  # a loss below 0 has no meaning
        axes.plot(across, mean, label=label_text(label), linewidth=1.5, **style, **markers)
        axes.fill_between(across, low, high, color=style["color"], alpha=0.15, linewidth=0)
    axes.set(xlabel="epoch" if per_epoch else against.replace("_", " "), ylabel=name)
    axes.grid(color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
    if key == "loss" and all((_stacked(tables, key) > 0).all() for tables in runs.values()):
        axes.set_yscale("log")


def _stacked(tables: Sequence[Metrics], key: str) -> Numbers:
    """One row of values per seed, as far as all seeds came."""
    length = min(len(table) for table in tables)
    return np.array([table[key][:length] for table in tables], dtype=np.float64)
