"""Runs side by side in one figure, made without pyplot, so that threads and notebooks do not interfere."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.extras import needed_for
from peerdescent._util.numbers import finite_or_none
from peerdescent.errors import InputError
from peerdescent.report.drawing import finalize_layout, label_text, new_figure
from peerdescent.report.formatting import byte_unit
from peerdescent.report.quantities import NOT_DRAWN, added_columns, label
from peerdescent.report.style import curve_style
from peerdescent.runs.metrics import Metrics, diverged

with needed_for("figures"):
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

Numbers = NDArray[np.float64]


class _Quantity(NamedTuple):
    """A column of the metrics, in the unit of its axis."""

    key: str
    label: str
    scale: float = 1.0
    """The factor from the metrics to the axis."""


@dataclass
class _Curve:
    """The metrics of one method and its line style."""

    label: str
    metrics: Metrics
    look: dict[str, Any]
    start: float
    """The fraction of the marker spacing before its first marker, so that markers of equal curves do not overlap."""

    def column(self, quantity: _Quantity) -> Numbers:
        """The values in the unit of the axis, NaN where they are absent or not finite."""
        values = np.array(self.metrics[quantity.key], dtype=np.float64) * quantity.scale
        return np.where(np.isfinite(values), values, np.nan)

    @property
    def name(self) -> str:
        """Its name in the legend."""
        text = label_text(self.label + " (diverged)" * self.diverged)
        return f" {text}" if text.startswith("_") else text  # legends hide what starts with an underscore

    @property
    def diverged(self) -> bool:
        """Whether the run diverged."""
        return diverged(self.metrics)

    @property
    def sends_nothing(self) -> bool:
        """Whether the method never sends a byte, as a centralized one."""
        return not any(self.metrics["bytes_sent"])

    def draw(self, axes: Axes, x: _Quantity, y: _Quantity, limits: tuple[float, float]) -> None:
        """Draw the line and, where the run diverged, a cross; beyond the limits the line follows the edge."""
        across, up = self.column(x), self.column(y)
        step = max(1, len(up) // 7)
        axes.plot(across, up, markevery=(int(self.start * step), step), label=self.label, **self.look)
        self._draw_agents(axes, across, y)
        log = axes.get_yscale() == "log"
        visible = np.flatnonzero(np.isfinite(across) & np.isfinite(up) & ((up > 0) | (not log)))
        if self.diverged and len(visible):
            end, colour = visible[-1], self.look["color"]
            inside = np.clip(up, *limits)
            beyond = np.where(inside == up, np.nan, inside)
            axes.plot(across, beyond, ":", color=colour, clip_on=False)
            cross = {"marker": "x", "markersize": 9, "markeredgewidth": 2.2, "color": colour}
            axes.plot([across[end]], [inside[end]], clip_on=False, zorder=5, **cross)

    def band(self, y: _Quantity) -> tuple[Numbers, Numbers] | None:
        """The lowest and the highest agent in the unit of the axis; None without them, or if the run diverged."""
        agents = self.metrics[f"agent_{y.key}"]
        if self.diverged or not any(agents):
            return None
        known = [[value for value in each or [] if finite_or_none(value) is not None] or [math.nan] for each in agents]
        low, high = (np.array([end(each) for each in known], dtype=np.float64) * y.scale for end in (min, max))
        return None if np.isnan(low).all() else (low, high)

    def _draw_agents(self, axes: Axes, across: Numbers, y: _Quantity) -> None:
        """Draw the band of all agents; the axis follows the lines alone."""
        if (band := self.band(y)) is not None:
            limits = axes.dataLim.frozen()
            axes.fill_between(across, *band, color=self.look["color"], alpha=0.13, linewidth=0)
            axes.dataLim.set(limits)


def comparison(curves: Mapping[str, Metrics], title: str = "") -> Figure:
    """Methods side by side: risk, test accuracy and consensus error against iterations, bytes sent and time.

    Test loss and metrics of the user's own have rows too. Where single agents were evaluated, a band reaches from the
    lowest to the highest of them. Rows and columns without any value are left out. A run that diverged ends in a
    cross; where its values would flatten all other curves, it follows the edge of the panel.

    Args:
        curves: the metrics of a run, by method.
        title: the line above the panels.

    >>> rows = [{"iteration": k, "loss": 0.5**k, "bytes_sent": 80 * k, "seconds": k} for k in range(9)]
    >>> figure = comparison({"d-sgd-1": Metrics(rows)})
    >>> [axes.get_xlabel() for axes in figure.axes]
    ['iteration', 'sent (B)', 'computing time (s)']
    """
    if not curves:
        raise InputError("there are no curves to draw: give at least one method and its metrics.")
    drawn = [_curve(number, len(curves), *item) for number, item in enumerate(curves.items())]
    columns, rows = _columns(drawn), _rows(drawn)
    names = [curve.name for curve in drawn]
    entries = max(1, min(5, len(names), int(38 * len(columns) / (max(map(len, names)) + 8))))
    height = 2.35 * len(rows) + 0.23 * math.ceil(len(names) / entries) + 0.8
    figure = new_figure(3.7 * len(columns) + 0.4, height)
    panels = figure.subplots(len(rows), len(columns), sharex="col", sharey="row", squeeze=False)
    for line, y in zip(panels, rows, strict=True):
        _row_of_panels(line, columns, y, drawn)
    for axes, x in zip(panels[-1], columns, strict=True):
        axes.set_xlabel(x.label)
    figure.align_ylabels()
    if title:
        figure.suptitle(label_text(title), fontsize=13)
    handles = [Line2D([], [], **curve.look) for curve in drawn]
    style = {"frameon": False, "fontsize": 9.5, "title_fontsize": 9, "handlelength": 3.6}
    remarks = _remarks(drawn, rows, columns) or None
    figure.legend(handles, names, loc="outside lower center", ncols=entries, title=remarks, **style)
    finalize_layout(figure)
    return figure


def _curve(number: int, of: int, label: str, metrics: Metrics) -> _Curve:
    style = curve_style(number)
    size = 7.0 if style["marker"] in "P*" else 5.0
    edge = {"markeredgecolor": "white", "markeredgewidth": 0.4}
    look = {**style, "linewidth": 1.5, "markersize": size, **edge}
    return _Curve(label, metrics, look, number / of)


def _columns(curves: list[_Curve]) -> list[_Quantity]:
    """The quantities on the x axes."""
    sent = max((float(n) for curve in curves for n in curve.metrics["bytes_sent"] if n), default=0.0)
    size, unit = byte_unit(sent)
    against = [_Quantity("iteration", "iteration")]
    if sent > 0:
        against.append(_Quantity("bytes_sent", f"sent ({unit})", 1 / size))
    times = (_Quantity("seconds", "computing time (s)"), _Quantity("simulated_seconds", "simulated seconds"))
    return [*against, *(time for time in times if _values(curves, time).size)]


def _rows(curves: list[_Curve]) -> list[_Quantity]:
    """The quantities on the y axes."""
    added = added_columns(row for curve in curves for row in curve.metrics)
    own = [_Quantity(name, label_text(label(name))) for name in added if not name.startswith(NOT_DRAWN)]
    wanted = (
        _Quantity("loss", "risk"),
        _Quantity("test_loss", label("test_loss")),
        _Quantity("accuracy", "test accuracy (%)", 100.0),
        *own,
        _Quantity("consensus_error", "consensus error"),
    )
    return [quantity for quantity in wanted if _values(curves, quantity).size] or [wanted[0]]


def _values(curves: list[_Curve], quantity: _Quantity) -> Numbers:
    """All finite values of all curves."""
    values: Numbers = np.concatenate([curve.column(quantity) for curve in curves] or [np.empty(0)])
    return values[np.isfinite(values)]


def _logarithmic(curves: list[_Curve], y: _Quantity) -> bool:
    values = _values(curves, y)
    if y.key == "consensus_error":  # zero where all agents start at one point, which should not forbid a log axis
        return bool((values > 0).any())
    return y.key in ("loss", "test_loss") and values.size > 0 and bool(0 < 10 * values.min() < values.max())


def _row_of_panels(line: Any, columns: list[_Quantity], y: _Quantity, curves: list[_Curve]) -> None:
    log = _logarithmic(curves, y)
    limits = _limits(curves, y, log)
    if log:
        line[0].set_yscale("log", nonpositive="mask")
    for axes, x in zip(line, columns, strict=True):
        for curve in curves:
            if not (x.key == "bytes_sent" and curve.sends_nothing):
                curve.draw(axes, x, y, limits)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(color="0.9", linewidth=0.7)
        axes.set_axisbelow(True)
        axes.tick_params(labelsize=9)
        axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10], integer=x.key == "iteration"))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    line[0].set_ylabel(y.label)
    if math.isfinite(limits[0]):
        line[0].set_ylim(*limits)
    if log:
        thin_log_ticks(line[0])


def _limits(curves: list[_Curve], y: _Quantity, log: bool) -> tuple[float, float]:
    """The limits of the axis where diverged runs would flatten the others; infinite where everything fits."""
    settled = _values([curve for curve in curves if not curve.diverged], y)
    broken = _values([curve for curve in curves if curve.diverged], y)
    if log:
        settled, broken = settled[settled > 0], broken[broken > 0]
    if settled.size and broken.size:
        low, high = float(settled.min()), float(settled.max())
        room = (high - low) or abs(high) or 1.0
        floor, ceiling = (low / 1e3, high * 1e3) if log else (low - room, high + room)
        if broken.min() < floor or broken.max() > ceiling:
            least, most = max(floor, min(low, broken.min())), min(ceiling, max(high, broken.max()))
            return (least / 1.5, most) if log else (least - room / 20, most)
    return -math.inf, math.inf


def thin_log_ticks(axes: Axes) -> None:
    """Few labels for any range: 1, 2, 5 within a factor of 40, powers of ten beyond."""
    low, high = axes.get_ylim()
    narrow = high < 1e3 * low
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if high < 40 * low else (1.0,), numticks=7))
    axes.yaxis.set_minor_formatter(NullFormatter())
    if narrow and low >= 1e-3 and high < 1e5:
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def _remarks(curves: list[_Curve], rows: list[_Quantity], columns: list[_Quantity]) -> str:
    """What the panels cannot show, in words."""
    remarks = []
    without = ", ".join(label_text(curve.label) for curve in curves if curve.sends_nothing)
    if without and any(x.key == "bytes_sent" for x in columns):
        remarks.append(f"Not shown against bytes sent, of which there are none: {without}.")
    if any(curve.band(y) is not None for curve in curves for y in rows):
        remarks.append("Bands reach from the lowest to the highest agent.")
    for y in rows:
        if y.key == "consensus_error" and _logarithmic(curves, y):
            zero = [curve for curve in curves if np.nanmax([*curve.column(y), -1.0]) == 0]
            if zero:
                names = ", ".join(label_text(curve.label) for curve in zero)
                remarks.append(f"Consensus error 0 throughout: {names}.")
    return "\n".join(remarks)
