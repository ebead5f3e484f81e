"""A table of texts as files for other programs: CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pandas as pd

from peerdescent.files import write_atomically
from peerdescent.report.page import TableBlock


def markdown(table: TableBlock) -> str:
    """The table in GitHub's Markdown.

    >>> print(markdown(TableBlock("", ("method", "loss"), [("d2", "0.5")])))
    | method | loss |
    | --- | --- |
    | d2 | 0.5 |
    """
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def write(table: TableBlock, path: Path) -> None:
    """The table in all three forms, beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    latex = pd.DataFrame(table.rows, columns=list(table.columns)).to_latex(index=False, escape=True)
    for suffix, content in ((".csv", text.getvalue()), (".md", markdown(table) + "\n"), (".tex", latex)):
        write_atomically(path.with_suffix(suffix), content.encode())
