"""The report on the linear speedup: slopes with verdicts, figures, one page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from peerdescent.report.layout import WeightedGraph
from peerdescent.report.page import Claim, Section
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.results import NOT_REPRODUCED, REPRODUCED
from peerdescent.reproduce.speedup import QUANTITIES, Fit, Setting, across, counts, graph_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "The linear speedup of DSGPA-F-PB, measured"
RULE = (
    "A bound holds unless the fitted slope is shallower than promised by more than its 95 % interval; steeper slopes "
    "are allowed. The rule was fixed before the runs; that only T > n³ counts, after a look at a shortened trial; "
    "T was cut to two decades to save time after some runs had ended; 64 agents with T = 300,000 came last. "
    "Theorem 1's parameters satisfy its printed conditions; its proof needs a far larger T besides."
)
COLUMNS = (
    *("parameters", "data", "γ", "quantity", "slope in"),
    *("promised", "slope (95 %)", "n^", "T^", "points", "verdict"),
)
NAMES = {"gradient": "mean ‖∇f(x̄)‖²", "consensus": "consensus error"}
WHOSE = {"theorem": "Theorem 1's parameters", "practical": "practical parameters"}
DATA = {"iid": "IID data", "heterogeneous": "heterogeneous data"}
COST = (
    "Costs are f_i(x) = ½‖x − c_i‖² + ½ Σ_j (1 − cos 2x_j) in 20 dimensions (`ripples`), with Gaussian gradient noise "
    "of variance 1 per entry; c_i = 0 for IID data, skewed centres of variance about 1 for heterogeneous data. Agents "
    "are the corners of a hypercube with Metropolis weights and start from the same point. η = √(n/T)."
)


def write_report(settings: Sequence[Setting], out: Path, command: str) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    chapters = [_chapter(parameters, settings) for parameters in WHOSE]
    return writing.write(out, TITLE, command, RULE, claims(settings), [c for c in chapters if c.figures])


def claims(settings: Sequence[Setting]) -> list[Claim]:
    """Return one claim per bound, parameters and data; a claim holds if it holds for every γ."""
    found = []
    for parameters, whose in WHOSE.items():
        for data in dict.fromkeys(setting.data for setting in settings):
            own = [s for s in settings if (s.parameters, s.data) == (parameters, data)]
            for quantity, (axis, promised) in QUANTITIES.items():
                if not own:
                    continue
                shown = "; ".join(f"γ = {s.gamma:g}: {_interval(s.fits[quantity])}" for s in own)
                holds = all(s.fits[quantity].word == REPRODUCED and not s.diverged for s in own)
                shown += f". {_left_out(own)}" if _left_out(own) else ""
                rate = "O(1/√(nT))" if quantity == "gradient" else "O(n/T)"
                text = f"Theorem 1: {NAMES[quantity]} is {rate}, {DATA[data]} with Gaussian noise, {whose}."
                how = f"slope in {axis} on logarithmic axes, promised {promised:g}."
                found.append(Claim(text, how, REPRODUCED if holds else NOT_REPRODUCED, shown))
    return found


def slopes(settings: Sequence[Setting]) -> Table:
    """Every fit with its verdict."""
    rows = [_row(setting, fit) for setting in settings for fit in setting.fits.values()]
    note = (
        "n^ and T^ are the exponents of n and of T in a fit of both; the promise is −0.5 each, and 1 and −1. "
        "Points with T ≤ n³, to which Theorem 1 does not apply, are drawn hollow and excluded from the fits."
    )
    return Table("Fitted slopes", COLUMNS, rows, f"{note} {_left_out(settings)}".strip())


def _left_out(settings: Sequence[Setting]) -> str:
    """Return a note on diverged points, which a slope through the other points would hide."""
    count = sum(setting.diverged for setting in settings)
    return f"Points with T > n³ that diverged and are in no fit: {count}." if count else ""


def _row(setting: Setting, fit: Fit) -> tuple[str, ...]:
    axis = QUANTITIES[fit.quantity][0]
    exponents = (f"{fit.exponent_n:+.2f}", f"{fit.exponent_t:+.2f}")
    known = (setting.parameters, setting.data, f"{setting.gamma:g}", NAMES[fit.quantity], axis, f"{fit.promised:g}")
    return (*known, _interval(fit), *exponents, str(fit.points), fit.word)


def _interval(fit: Fit) -> str:
    return f"{fit.slope:.2f} [{fit.low:.2f}, {fit.high:.2f}]"


def _chapter(parameters: str, settings: Sequence[Setting]) -> writing.Chapter:
    own = [setting for setting in settings if setting.parameters == parameters]
    figures = {
        f"{parameters}-{data}": _figure([s for s in own if s.data == data], f"{WHOSE[parameters]}, {DATA[data]}")
        for data in dict.fromkeys(setting.data for setting in own)
    }
    pictures = {f"{WHOSE[parameters]}, {DATA[name.rpartition('-')[2]]}": figure for name, figure in figures.items()}
    table = slopes(own)
    title = WHOSE[parameters][0].upper() + WHOSE[parameters][1:]
    section = Section(title, COST, graphs=[WeightedGraph.build(graph_of(8))], tables=[table], pictures=pictures)
    return writing.Chapter(section, figures, {f"slopes-{parameters}": table})


def _figure(settings: Sequence[Setting], title: str) -> Figure:
    """Above the gradient against nT, below the disagreement against T/n; one column per γ."""
    from peerdescent.report.drawing import finalize_layout, new_figure

    figure = new_figure(3.6 * len(settings) + 0.6, 6.6)
    axes = figure.subplots(2, len(settings), squeeze=False, sharey="row", sharex="row")
    sizes = sorted({cell.agents for setting in settings for cell in setting.cells})
    for column, setting in enumerate(settings):
        for row, quantity in enumerate(QUANTITIES):
            _panel(axes[row][column], setting, quantity, sizes)
    for row, quantity in enumerate(QUANTITIES):
        axes[row][0].set_ylabel(NAMES[quantity])
    figure.suptitle(title, fontsize=12)
    handles, labels = axes[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=len(labels), frameon=False, fontsize=9)
    finalize_layout(figure)
    return figure


def _panel(axes: Axes, setting: Setting, quantity: str, sizes: Sequence[int]) -> None:
    from matplotlib import colormaps

    fit, cells, means = setting.fits[quantity], setting.cells, setting.means[quantity]
    colours = colormaps["viridis"](np.linspace(0, 0.9, len(sizes)))
    for n, colour in zip(sizes, colours, strict=True):
        own = [i for i, cell in enumerate(cells) if cell.agents == n and (n > 1 or quantity == "gradient")]
        places, values = [across(quantity, cells[i]) for i in own], [means[i] for i in own]
        axes.loglog(places, values, "-", color=colour, lw=0.8)
        faces = [colour if counts(quantity, cells[i]) else "white" for i in own]
        axes.scatter(places, values, s=20, c=faces, edgecolors=[colour], zorder=3)
        axes.scatter([], [], s=20, color=[colour], label=f"n = {n}")
    fitted = [i for i, cell in enumerate(cells) if counts(quantity, cell)]
    x, y = np.array([across(quantity, cells[i]) for i in fitted]), np.array([means[i] for i in fitted])
    ends = np.array([x.min(), x.max()])
    promised = np.exp(np.log(y).mean()) * (ends / np.exp(np.log(x).mean())) ** fit.promised
    axes.loglog(ends, promised, "k--", lw=1.2, label="promised slope")
    axes.set_title(f"γ = {setting.gamma:g}: slope {_interval(fit)}, promised {fit.promised:g}", fontsize=9)
    axes.set_xlabel(QUANTITIES[quantity][0])
    axes.grid(color="#e6e6e6")
    axes.spines[["top", "right"]].set_visible(False)
