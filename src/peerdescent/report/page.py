"""One HTML page that shows runs and what they prove: a single file which needs no network.

A page is plain data, so that anything can fill it; `render` turns it into text, `write` into a file.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Literal

from jinja2 import Environment
from markupsafe import Markup
from matplotlib.figure import Figure

from peerdescent._util.files import write_atomically
from peerdescent.errors import InputError
from peerdescent.graphs import Graph
from peerdescent.report import embedded
from peerdescent.report.drawing import COLOURS
from peerdescent.runs.metrics import Metrics

ABSENT = "–"
ICONS = {"reproduced": "✓", "not reproduced": "✗", "not testable": "?"}
"""Beside its colour and its word every verdict has a sign."""
_NUMBER = r"[-−+]?(\d{1,3}(,\d{3})+|\d+)?(\.?\d+)?([eE][-−+]?\d+)?"
_NUMERIC = re.compile(rf"{_NUMBER}(\s*±\s*{_NUMBER})?\s*(%|s|ms|[kMGTPE]?B|×)?")


@dataclass(frozen=True)
class Claim:
    """Something that was said, how it was tested, and what came out."""

    text: str
    how: str
    verdict: Literal["reproduced", "not reproduced", "not testable"] | str
    evidence: str


@dataclass(frozen=True)
class Curves:
    """One chart: by label, one table of metrics per seed.

    Args:
        title: what stands above it.
        runs: label → one table per seed.
        batches_per_epoch: iterations that make an epoch, which lets the reader count in epochs.
        planned: label → iterations asked for; a run that has fewer and did not diverge is still going.
    """

    title: str
    runs: Mapping[str, Sequence[Metrics]]
    batches_per_epoch: float | None = None
    planned: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class TableBlock:
    """A table of texts; columns that hold numbers are aligned to the right."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""


@dataclass(frozen=True)
class Section:
    """A part of the page. Blank lines in `text` separate paragraphs, `backticks` enclose code.

    `pictures` are figures that stand still, by what they show; `curves` are interactive.
    """

    title: str
    text: str = ""
    curves: Sequence[Curves] = ()
    graphs: Sequence[Graph] = ()
    tables: Sequence[TableBlock] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """Everything a reader sees.

    Args:
        title: the heading.
        command: what to type to make the page again.
        claims: the summary; may be empty.
        sections: the parts, in order.
        environment: machine and versions.
        notes: what the reader should know besides.
    """

    title: str
    command: str
    claims: Sequence[Claim]
    sections: Sequence[Section]
    environment: Mapping[str, str]
    notes: Sequence[str] = ()


def render(page: Page) -> str:
    """The page as one HTML text.

    >>> text = render(Page("a < b", "peerdescent report runs/a", [], [], {}))
    >>> "<h1>a &lt; b</h1>" in text
    True
    """
    curves = [chart for section in page.sections for chart in section.curves]
    looks = embedded.looks(curves)
    charts = [embedded.chart(chart, looks) for chart in curves]
    template = _environment().from_string(_asset("page.html"))
    return template.render(
        page=page,
        counts=_counts(page.claims),
        unfinished=any("still running" in curve["mark"] for chart in charts for curve in chart["curves"]),
        payload=Markup(to_script({"colours": COLOURS, "charts": charts})),
        css=Markup(_asset("page.css")),
        js=Markup(_asset("page.js")),
        plotly=Markup(_plotly() if curves else ""),
    )


def write(page: Page, path: Path) -> None:
    """Write the page, all of it or nothing."""
    if path.is_dir():
        raise InputError(f"cannot write the page {path}: it is a folder; name a file in it.")
    text = render(page)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise InputError(f"cannot write the page {path}: {error.strerror or error}.") from error


def to_script(payload: object) -> str:
    r"""JSON that can stand inside a script element, whatever texts it holds.

    >>> to_script({"label": "</script>"})
    '{"label":"\\u003c/script>"}'
    """
    text = json.dumps(payload, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", r"\u003c")


def prose(text: str) -> Markup:
    """Paragraphs, with code between backticks.

    >>> prose("one & `two`")
    Markup('<p>one &amp; <code>two</code></p>')
    """
    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return Markup("".join(f"<p>{_inline(part)}</p>" for part in paragraphs))


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def cell(value: object) -> str:
    """A table's cell: what is absent or not a finite number is a dash.

    >>> cell(None), cell("nan"), cell("0.5")
    ('–', '–', '0.5')
    """
    text = "" if value is None else str(value).strip()
    return ABSENT if text.lower() in ("", "none", "nan", "inf", "-inf", "<na>", "nat") else text


def numeric(table: TableBlock) -> list[bool]:
    """Which columns hold numbers only, units and deviations allowed.

    >>> numeric(TableBlock("", ("method", "risk", "sent"), [("2-step", "0.5 ± 0.01", "82.2 kB"), ("b", "–", "0 B")]))
    [False, True, True]
    """
    columns = [[cell(row[number]) for row in table.rows] for number in range(len(table.columns))]
    return [
        any(text != ABSENT for text in column) and all(text == ABSENT or _is_number(text) for text in column)
        for column in columns
    ]


def _is_number(text: str) -> bool:
    return any(letter.isdigit() for letter in text) and _NUMERIC.fullmatch(text) is not None


def _counts(claims: Sequence[Claim]) -> dict[str, int]:
    """How often each verdict was given, the known ones first."""
    verdicts = [claim.verdict for claim in claims]
    order = dict.fromkeys([*(known for known in ICONS if known in verdicts), *verdicts])
    return {verdict: verdicts.count(verdict) for verdict in order}


def _environment() -> Environment:
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        prose=prose,
        inline=lambda text: Markup(_inline(text)),
        cell=cell,
        numeric=numeric,
        drawing=lambda graph: Markup(embedded.drawing_of(graph)),
        caption=embedded.caption,
        picture=embedded.picture,
        icon=lambda verdict: ICONS.get(verdict, "•"),
        kind=lambda verdict: verdict.replace(" ", "-") if verdict in ICONS else "other",
    )
    return environment


def _asset(name: str) -> str:
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    from plotly.offline import get_plotlyjs  # type: ignore[import-untyped, unused-ignore]

    return str(get_plotlyjs())
