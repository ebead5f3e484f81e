"""A report as files: an HTML page, the same in Markdown, figures, tables in three formats, claims as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent._util.files import write_atomically
from peerdescent.report import page
from peerdescent.report.page import Claim, Page, Section
from peerdescent.report.tables import Table
from peerdescent.runs.folder import environment

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CLAIMS_FILE = "claims.json"


@dataclass(frozen=True)
class Chapter:
    """A section of the page, with its figures and tables by file name."""

    section: Section
    figures: Mapping[str, Figure] = field(default_factory=dict)
    tables: Mapping[str, Table] = field(default_factory=dict)
    hidden: Mapping[str, Figure] = field(default_factory=dict)
    """Figures that are written but not shown in the Markdown."""


def write(
    out: Path,
    title: str,
    command: str,
    rule: str,
    claims: Sequence[Claim],
    chapters: Sequence[Chapter],
    facts: Mapping[str, str] | None = None,
) -> Path:
    """All files below `out`; returns the page's path. `facts` are shown with the environment."""
    from peerdescent.report import drawing

    for chapter in chapters:
        for stem, figure in {**chapter.figures, **chapter.hidden}.items():
            drawing.save(figure, out / "figures" / stem)
        for stem, table in chapter.tables.items():
            table.write(out / "tables" / stem)
    judged = Table("Claims", ("claim", "how it is tested", "verdict", "evidence"), [_cells(c) for c in claims])
    known = {**(facts or {}), **{key: str(value) for key, value in environment().items() if key != "command"}}
    page.write(Page(title, command, claims, [c.section for c in chapters], known, [rule]), out / "report.html")
    parts = [f"# {title}", f"Made by `{command}`. {rule}", *(["## Claims", judged.to_markdown()] if claims else [])]
    parts += [part for chapter in chapters for part in _markdown_parts(chapter)]
    machine = "\n".join(f"- {key}: {value}" for key, value in known.items())
    write_atomically(out / "README.md", ("\n\n".join([*parts, "## Environment", machine]) + "\n").encode())
    if claims:
        judged.write(out / "tables" / "claims")
        write_atomically(out / CLAIMS_FILE, json.dumps([asdict(claim) for claim in claims], indent=1).encode())
    return out / "report.html"


def recorded_claims(out: Path) -> list[Claim] | None:
    """Return the claims of the report in `out`; None if there is no report."""
    try:
        return [Claim(**claim) for claim in json.loads((out / CLAIMS_FILE).read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError):
        return None


def _markdown_parts(chapter: Chapter) -> list[str]:
    section = chapter.section
    parts = [f"## {section.title}"] + ([section.text] if section.text else [])
    parts += [f"![{section.title}](figures/{stem}.png)" for stem in chapter.figures]
    for table in chapter.tables.values():
        parts += [". ".join(text for text in (table.title, table.note) if text), table.to_markdown()]
    settings = [f"- {key}: {value}" for key, value in section.settings.items()]
    return parts + (["\n".join(settings)] if settings else [])


def _cells(claim: Claim) -> tuple[str, ...]:
    return claim.text, claim.how, claim.verdict, claim.evidence
