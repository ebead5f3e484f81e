"""The report on placements: a table of predicted and measured biases, what theory says of them, one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent.report.page import Claim, Section
from peerdescent.report.style import COLOURS, MARKERS
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.placement import (
    AFTER,
    BEFORE,
    CIRCLING,
    ETA,
    GRAPH,
    HALVINGS,
    NOTHING,
    SETTLING,
    TRANSFORMS,
    Cell,
    Cells,
    Key,
    methods,
)
from peerdescent.reproduce.results import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Where a nonlinearity may stand: every method, before and after its correction"
AGREES = 1e-6
SMOOTH = ("power 0.7", "clip 0.3")
NEAR = 5 * ETA
"""How far a method may be from its prediction that circles at about its step size."""
RULE = (
    f"A prediction agrees if every agent ends within {AGREES:g} of it, a bias counts from {AGREES:g} on. Signs and "
    f"unit lengths after a correction circle at about the step size, which is {ETA:g} and is halved {HALVINGS} times."
)
NOTE = (
    "Each cell: the distance of the mean of the predicted fixed point from the optimum (0 is unbiased), and in "
    "brackets the largest distance of an agent from its prediction at the end of the run. With a question mark: "
    "theory predicts no single fixed point (signs before a correction can balance on a whole interval; methods such "
    "as Adam), and the cell has the measured distance of the mean from the optimum. Before: the transform acts on "
    "local gradients; after: on the corrected direction, only for methods that have one."
)


def write_report(found: Cells, out: Path, command: str, shortened: bool = False) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    block, figure = table(found), _figure(found)
    text = (
        f"Heterogeneous quadratic costs with exact gradients on {GRAPH}: {SETTLING:,} iterations, {CIRCLING:,} of a "
        "method that theory says does not settle. Distances are the largest over the coordinates."
    )
    section = Section("Predicted and measured", text, tables=[block], pictures={"Measured bias": figure})
    chapter = writing.Chapter(section, {"placement": figure}, {"placement": block})
    return writing.write(out, TITLE, command, RULE, list(claims(found, shortened)), [chapter])


def table(found: Cells) -> Table:
    """Methods × placements."""
    columns = [(NOTHING, BEFORE), *((what, place) for what in TRANSFORMS for place in (BEFORE, AFTER))]
    heads = [what if what == NOTHING else f"{what} {place}" for what, place in columns]
    rows = [(f"`{name}`", *(str(found.get((name, what, place), "–")) for what, place in columns)) for name in methods()]
    return Table("Bias by method and placement", ("method", *heads), rows, NOTE)


def claims(found: Cells, shortened: bool = False) -> Iterator[Claim]:
    """What theory says, and what came out."""
    known = {key: one for key, one in found.items() if one.predicted is not None}
    plain = {name: one.predicted for (name, what, _), one in known.items() if what == NOTHING}
    biased = {name: bool(method.bias) for name, method in methods().items()}

    def within(one: Cell, distance: float) -> bool:
        return one.off is not None and one.off < distance

    def stays(key: Key, one: Cell) -> bool:
        return abs((one.predicted or 0.0) - (plain[key[0]] or 0.0)) < AGREES

    def claim(text: str, how: str, chosen: Callable[[Key, Cell], bool], holds: Callable[[Key, Cell], bool]) -> Claim:
        tested = {key: one for key, one in known.items() if chosen(key, one)}
        bad = [f"{_place(key)}: {one}" for key, one in tested.items() if not holds(key, one)]
        word = NOT_TESTABLE if shortened else NOT_REPRODUCED if bad else REPRODUCED
        count = f"{len(tested) - len(bad)} of {len(tested)}"
        return Claim(text, how, word, f"{count}; not {'; '.join(bad)}" if bad else count)

    yield claim(
        "A method that settles ends at its predicted fixed point.", f"every agent within {AGREES:g}.",
        lambda key, one: not one.circles, lambda key, one: within(one, AGREES),
    )  # fmt: skip
    yield claim(
        "Powers and clips after the correction leave the fixed point where it is, and the method goes there.",
        f"the predicted point; every agent within {AGREES:g} of it.",
        lambda key, one: key[2] == AFTER and key[1] in SMOOTH, lambda key, one: stays(key, one) and within(one, AGREES),
    )  # fmt: skip
    yield claim(
        "So do signs and unit lengths after the correction, but they circle around it.",
        f"the predicted point; every agent within {NEAR:g} of it.",
        lambda key, one: key[2] == AFTER and key[1] not in SMOOTH,
        lambda key, one: stays(key, one) and within(one, NEAR),
    )  # fmt: skip
    yield claim(
        "Before the correction, on local gradients, every transform biases every method.",
        "predicted bias; a central server is left out, which transforms the mean gradient.",
        lambda key, one: key[2] == BEFORE and key[1] != NOTHING and key[0] != "c-sgd",
        lambda key, one: (one.predicted or 0.0) > AGREES,
    )  # fmt: skip
    yield claim(
        "Without a transform a method is biased if and only if its card says so.", "predicted bias.",
        lambda key, one: key[1] == NOTHING, lambda key, one: ((one.predicted or 0.0) > AGREES) == biased[key[0]],
    )  # fmt: skip


def _place(key: Key) -> str:
    name, what, place = key
    return name if what == NOTHING else f"{name}, {what} {place}"


def _figure(found: Cells) -> Figure:
    """The measured distance of the mean from the optimum: one row per method, one panel per place."""
    from peerdescent.report.drawing import finalize_layout, new_figure

    names = list(methods())
    figure = new_figure(8.4, 0.22 * len(names) + 1.6)
    panels = figure.subplots(1, 2, sharex=True, sharey=True)
    for panel, place in zip(panels, (BEFORE, AFTER), strict=True):
        for kind, what in enumerate((NOTHING, *TRANSFORMS)):
            own = BEFORE if what == NOTHING else place
            dots = [(found[key].measured, y) for y, name in enumerate(names) if (key := (name, what, own)) in found]
            panel.scatter(
                [min(max(x, 1e-12), 10.0) for x, _ in dots], [y for _, y in dots], s=16, alpha=0.8,
                color=COLOURS[kind], marker=MARKERS[kind], label=what if place == BEFORE else None,
            )  # fmt: skip
        panel.set_title(f"{place} the correction", fontsize=9)
        panel.set_xscale("log")
        panel.set_xlabel("measured distance of x̄ from the optimum")
        panel.grid(color="#e6e6e6")
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_yticks(range(len(names)), names, fontsize=7)
    panels[0].invert_yaxis()
    figure.legend(loc="outside lower center", ncols=5, frameon=False, fontsize=8)
    finalize_layout(figure)
    return figure
