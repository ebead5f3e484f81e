"""The report on communication: tables of errors and bytes, what was expected of them, one page."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent import algorithms, graphs
from peerdescent.algorithms import D2
from peerdescent.graphs import GraphSequence
from peerdescent.mixing.sequence_weights import SequenceWeights
from peerdescent.report.page import Claim, Section
from peerdescent.report.style import COLOURS, MARKERS
from peerdescent.report.tables import Table
from peerdescent.reproduce import writing
from peerdescent.reproduce.communication import (
    CASES,
    COMPRESSED,
    COMPRESSORS,
    DIVERGED,
    ETAS,
    GRAPHS,
    OVER_TIME,
    SHOWN,
    STEPS,
    Outcome,
)
from peerdescent.reproduce.results import NOT_REPRODUCED, NOT_TESTABLE, REPRODUCED
from peerdescent.theory.sequences import judge_rounds

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Communication: graphs over time and compressed messages, every method"
RULE = (
    "Each cell: the root mean square distance of the agents from the solution, relative to the solution, and what all "
    "agents have sent. An error above 1000 counts as divergence. Expected numbers are those of an independent program "
    "on other quadratics of the same kind: an error agrees if it is within a factor of 30, or if both are below 1e-10."
)
COSTS = "Heterogeneous quadratic costs (`quadratic`), exact gradients, double precision."
TEXTS = {
    OVER_TIME: f"{COSTS} 16 agents, 10 variables. Methods with η, α and β have α = 1/η and β = 1/(4η), so that "
    "η·α·L = I−W; rates that are schedules stay as they are. D² mixes with (I+W)/2 where the graph changes.",
    COMPRESSED: f"{COSTS} A ring of 10 agents, 200 variables, η = 0.05, α = 20, β = 1. The consensus step c is that of "
    "the rule, which `peerdescent explain` shows.",
    STEPS: f"{COSTS} A ring of 10 agents, 200 variables, η = 0.05, α = 20, β = 1, with several consensus steps c.",
}
EXACT = ("d2", "d-sgt-1", "d-sgt-2", "dsgpa-f")
"""Methods that reach the solution on every graph."""
REACHED = 1e-10
FACTOR = 30.0
EXPECTED: Mapping[tuple[str, float], Sequence[float | None]] = {
    ("none", 1.0): (4e-14, 3e-5, 1e-3, 2e-11),
    ("none", 0.3): (3e-14, 5e-3, 8e-4, 2e-11),
    ("qsgd:4", 1.0): (1e-14, 3e-5, 7e-5, 2e-11),
    ("qsgd:4", 0.3): (2e-14, 5e-3, 8e-4, 2e-11),
    ("topk:0.1", 1.0): (None, None, None, None),
    ("topk:0.1", 0.3): (2e-14, 5e-3, 8e-4, None),
    ("topk:0.01", 0.3): (None, None, math.nan, None),
    ("topk:0.01", 0.1): (6e2, 2e-1, 2e-1, None),
}
"""Expected errors of the methods in `SHOWN`; None diverges, NaN is not known."""
Outcomes = Mapping[tuple[str, str], Outcome]


def write_report(found: Outcomes, out: Path, command: str, shortened: bool = False) -> Path:
    """Write all files of the report below `out`; return the path of the page."""
    made = tables(found)
    pictures = {OVER_TIME: _figure(found, OVER_TIME), COMPRESSED: _figure(found, COMPRESSED)}
    chapters = []
    for name, table in made.items():
        drawn = {name: pictures[name]} if name in pictures else {}
        section = Section(
            table.title, TEXTS[name], tables=[table], pictures={table.title: drawn[name]} if drawn else {}
        )
        chapters.append(writing.Chapter(section, drawn, {name: table}))
    return writing.write(out, TITLE, command, RULE, claims(found, shortened), chapters)


def tables(found: Outcomes) -> dict[str, Table]:
    """All three tables by name."""
    over_time = [
        (name, [found[OVER_TIME, f"{name} on {graph} with {eta:g}"] for eta in ETAS for graph in GRAPHS])
        for name in algorithms.PRESETS
    ]
    compressed = [(name, [found[COMPRESSED, f"{name} with {q}"] for q in COMPRESSORS]) for name in algorithms.PRESETS]
    steps = [
        (f"`{compress}`, {text}", [found[STEPS, f"{label} with {compress} and {text}"] for label in SHOWN])
        for compress, c_values in CASES
        for text in ("the rule's c" if c is None else f"c = {c:g}" for c in c_values)
    ]
    heads = [f"{graph}, η = {eta:g}" for eta in ETAS for graph in GRAPHS]
    return {
        OVER_TIME: _table("Graphs over time", ("method", *heads), over_time),
        COMPRESSED: _table("Compressed messages", ("method", *COMPRESSORS), compressed),
        STEPS: _table("Compressed messages and consensus steps", ("messages", *SHOWN), steps),
    }


def _table(title: str, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[Outcome]]]) -> Table:
    """A table of outcomes; the reasons of those that were refused are numbered and follow in its note."""
    reasons: list[str] = []
    texts = []
    for name, outcomes in rows:
        cells = [name]
        for outcome in outcomes:
            if outcome.refused and outcome.refused not in reasons:
                reasons.append(outcome.refused)
            number = reasons.index(outcome.refused) + 1 if outcome.refused else 0
            cells.append(f"refused: reason {number}" if number else str(outcome))
        texts.append(cells)
    note = " ".join(f"Reason {number}: {reason}" for number, reason in enumerate(reasons, start=1))
    return Table(title, columns, texts, note)


def claims(found: Outcomes, shortened: bool = False) -> list[Claim]:
    """What was expected, and what came out."""
    made = [*_over_time(found), *_compressed(found), *_steps(found)]
    if not shortened:
        return made
    return [made[0], *(Claim(c.text, c.how, NOT_TESTABLE, f"shortened runs: {c.evidence}") for c in made[1:])]


def _over_time(found: Outcomes) -> Iterator[Claim]:
    moving = GRAPHS[1:]
    judged = {
        f"{graph}, η = {eta:g}": judge_rounds(
            D2(eta=eta), SequenceWeights(_sequence(graph), "metropolis", "metropolis")
        )
        for graph in moving
        for eta in ETAS
    }
    yield Claim(
        "D² with W itself, not (I+W)/2, diverges where the graph changes.",
        "stability of the recursion on flat costs, without a run.",
        _word(not any(each.stable for each in judged.values())),
        "; ".join(f"{where}: {each.reason}" for where, each in judged.items()),
    )
    for name in EXACT:
        ends = {
            f"{graph}, η = {eta:g}": found[OVER_TIME, f"{name} on {graph} with {eta:g}"]
            for eta in ETAS
            for graph in GRAPHS
        }
        yield Claim(
            f"{name} reaches the solution on {', '.join(GRAPHS)}.",
            f"relative error below {REACHED:g} in all six cells.",
            _word(all(each.error is not None and each.error < REACHED for each in ends.values())),
            "; ".join(f"{where}: {each}" for where, each in ends.items()),
        )


def _compressed(found: Outcomes) -> Iterator[Claim]:
    """With the rule's c, no method diverges that does not without compression."""
    for compress in COMPRESSORS[1:]:
        ends = {name: found[COMPRESSED, f"{name} with {compress}"] for name in algorithms.PRESETS}
        plain = {name: found[COMPRESSED, f"{name} with none"] for name in ends}
        broken = [name for name, each in ends.items() if each.diverged and not plain[name].diverged]
        refused = [name for name, each in ends.items() if each.refused]
        left_out = f" Refused: {', '.join(refused)}." if refused else ""
        yield Claim(
            f"With {compress} and the rule's c no method diverges that does not without compression.",
            "all methods that are not refused.",
            _word(not broken),
            (f"diverging: {', '.join(broken)}." if broken else f"none of {len(ends) - len(refused)}.") + left_out,
        )


def _steps(found: Outcomes) -> Iterator[Claim]:
    for (compress, c), expected in EXPECTED.items():
        ends = {label: found[STEPS, f"{label} with {compress} and c = {c:g}"] for label in SHOWN}
        pairs = [(ends[label], number) for label, number in zip(SHOWN, expected, strict=True)]
        tested = [(end, number) for end, number in pairs if not end.refused and not _unknown(number)]
        shown = ", ".join(
            f"{label} {'diverges' if number is None else f'{number:.0e}'}"
            for label, number in zip(SHOWN, expected, strict=True)
            if not _unknown(number)
        )
        yield Claim(
            f"{compress} with c = {c:g}: {shown}.",
            "each method that is not refused.",
            _word(all(_agrees(end, number) for end, number in tested)),
            "; ".join(f"{label}: {end}" for label, end in ends.items()),
        )


def _unknown(expected: float | None) -> bool:
    return expected is not None and math.isnan(expected)


def _agrees(end: Outcome, expected: float | None) -> bool:
    """Whether an error is as expected; None diverges."""
    if expected is None or end.error is None or end.diverged:
        return (expected is None) == end.diverged
    if max(end.error, expected) < REACHED:
        return True
    return expected / FACTOR <= end.error <= expected * FACTOR


def _sequence(text: str) -> GraphSequence:
    graph = graphs.parse(text)
    assert isinstance(graph, GraphSequence)
    return graph


def _word(holds: bool) -> str:
    return REPRODUCED if holds else NOT_REPRODUCED


def _figure(found: Outcomes, table: str) -> Figure:
    """The error of every method, one sign for each column of the table; what diverges is at the right end."""
    from peerdescent.report.drawing import finalize_layout, new_figure

    names = list(algorithms.PRESETS)
    series = {
        OVER_TIME: {
            f"{graph}, η = {eta:g}": [found[OVER_TIME, f"{name} on {graph} with {eta:g}"] for name in names]
            for eta in ETAS
            for graph in GRAPHS
        },
        COMPRESSED: {q: [found[COMPRESSED, f"{name} with {q}"] for name in names] for q in COMPRESSORS},
    }[table]
    figure = new_figure(7.2, 0.24 * len(names) + 1.6)
    axes = figure.subplots()
    for number, (label, ends) in enumerate(series.items()):
        _dots(axes, number, label, ends)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("relative error at the end; × diverges")
    axes.grid(color="#e6e6e6")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    finalize_layout(figure)
    return figure


def _dots(axes: Axes, number: int, label: str, ends: Sequence[Outcome]) -> None:
    colour = COLOURS[number % len(COLOURS)]
    known = [(max(end.error, 1e-17), place) for place, end in enumerate(ends) if end.error and not end.diverged]
    far = [place for place, end in enumerate(ends) if end.diverged]
    marker = MARKERS[number % len(MARKERS)]
    axes.scatter(
        [x for x, _ in known], [y for _, y in known], s=16, color=colour, marker=marker, label=label, alpha=0.8
    )
    axes.scatter([DIVERGED] * len(far), far, s=24, color=colour, marker="x")
