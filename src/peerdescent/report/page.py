"""One HTML page that shows runs and what they prove: a single file that needs no network.

A page is plain data; `render` turns it into HTML, `write` into a file.
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
from typing import TYPE_CHECKING, Literal

from peerdescent._util.extras import needed_for
from peerdescent._util.files import write_atomically
from peerdescent.errors import InputError
from peerdescent.report import embedded
from peerdescent.report.layout import WeightedGraph
from peerdescent.report.style import COLOURS
from peerdescent.report.tables import Table, cell
from peerdescent.runs.metrics import Metrics

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup
    from matplotlib.figure import Figure

ICONS = {"reproduced": "✓", "not reproduced": "✗", "not testable": "?"}
"""Every verdict has an icon next to its colour and its word."""


@dataclass(frozen=True)
class Claim:
    """A claim, how it is tested, and the outcome."""

    text: str
    how: str
    verdict: Literal["reproduced", "not reproduced", "not testable"] | str
    evidence: str


@dataclass(frozen=True)
class Curves:
    """One chart: by label, one table of metrics per seed.

    Args:
        title: the line above it.
        runs: label → one table per seed.
        batches_per_epoch: iterations per epoch, which adds epochs to the x axes.
        planned: label → iterations requested; a run with fewer that did not diverge is still running.
        endings: label → how its runs ended, if `planned` is not enough to tell: a state and a text, as `ending` has it.
    """

    title: str
    runs: Mapping[str, Sequence[Metrics]]
    batches_per_epoch: float | None = None
    planned: Mapping[str, int] = field(default_factory=dict)
    endings: Mapping[str, tuple[str, str]] = field(default_factory=dict)


@dataclass(frozen=True)
class Section:
    """A section of the page. Blank lines in `text` separate paragraphs, `backticks` enclose code.

    `curves` are interactive charts; `pictures` are static figures, by caption.
    """

    title: str
    text: str = ""
    curves: Sequence[Curves] = ()
    graphs: Sequence[WeightedGraph] = ()
    tables: Sequence[Table] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    pictures: Mapping[str, Figure] = field(default_factory=dict)


@dataclass(frozen=True)
class Page:
    """The whole page.

    Args:
        title: the heading.
        command: the command that makes the page again.
        claims: the summary; may be empty.
        sections: in order.
        environment: machine and versions.
        notes: anything else the reader should know.
    """

    title: str
    command: str
    claims: Sequence[Claim]
    sections: Sequence[Section]
    environment: Mapping[str, str]
    notes: Sequence[str] = ()


def render(page: Page) -> str:
    """The page as HTML.

    >>> text = render(Page("a < b", "peerdescent report runs/a", [], [], {}))
    >>> "<h1>a &lt; b</h1>" in text
    True
    """
    with needed_for("HTML pages"):
        from markupsafe import Markup

    curves = [chart for section in page.sections for chart in section.curves]
    looks = embedded.looks(curves)
    charts = [embedded.chart(chart, looks) for chart in curves]
    template = _environment().from_string(_asset("page.html"))
    return template.render(
        page=page,
        counts=_counts(page.claims),
        unfinished=any("still running" in curve["mark"] for chart in charts for curve in chart["curves"]),
        payload=Markup(to_script({"colours": COLOURS, "charts": charts, "added": embedded.added_labels(curves)})),
        css=Markup(_asset("page.css")),
        js=Markup(_asset("page.js")),
        plotly=Markup(_plotly() if curves else ""),
    )


def write(page: Page, path: Path) -> None:
    """Write the page to a file; a failure leaves no partial file."""
    if path.is_dir():
        raise InputError(f"cannot write the page {path}: it is a folder; give the name of a file.")
    text = render(page)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, text.encode())
    except OSError as error:
        raise InputError(f"cannot write the page {path}: {error.strerror or error}.") from error


def to_script(payload: object) -> str:
    r"""JSON that is safe inside a script element, whatever texts it holds.

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
    from markupsafe import Markup

    paragraphs = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    return Markup("".join(f"<p>{_inline(part)}</p>" for part in paragraphs))


def _inline(text: str) -> str:
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", escape(text))


def _counts(claims: Sequence[Claim]) -> dict[str, int]:
    """The number of claims per verdict, known verdicts first."""
    verdicts = [claim.verdict for claim in claims]
    order = dict.fromkeys([*(known for known in ICONS if known in verdicts), *verdicts])
    return {verdict: verdicts.count(verdict) for verdict in order}


def _environment() -> Environment:
    with needed_for("HTML pages"):
        from jinja2 import Environment
        from markupsafe import Markup

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters.update(
        prose=prose,
        inline=lambda text: Markup(_inline(text)),
        cell=cell,
        drawing=lambda weighted: Markup(embedded.drawing_of(weighted.graph)),
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
    with needed_for("HTML pages"):
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped, unused-ignore]

    return str(get_plotlyjs())
