"""A table of texts in the terminal, and as files for other programs: CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection
from pathlib import Path

import pandas as pd
from rich.table import Table
from rich.text import Text

from peerdescent._util.files import write_atomically
from peerdescent.report.page import TableBlock, numeric


def markdown(table: TableBlock) -> str:
    """The table in GitHub's Markdown.

    >>> print(markdown(TableBlock("", ("method", "loss"), [("d2", "0.5")])))
    | method | loss |
    | --- | --- |
    | d2 | 0.5 |
    """
    lines = [table.columns, ["---"] * len(table.columns), *table.rows]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)


def in_terminal(table: TableBlock, left_out: Collection[str] = (), title: str = "") -> Table:
    """The table as rich prints it, without the columns that only a page has room for."""
    shown = [i for i, name in enumerate(table.columns) if name not in left_out]
    right = numeric(table)
    made = Table(title=title or table.title, title_justify="left", box=None, pad_edge=False)
    for i in shown:
        made.add_column(Text(table.columns[i]), justify="right" if right[i] else "left", overflow="fold")
    for row in table.rows:
        made.add_row(*(Text(row[i]) for i in shown))
    return made


def write(table: TableBlock, path: Path) -> None:
    """The table in all three forms, beside each other."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    latex = pd.DataFrame(table.rows, columns=list(table.columns)).to_latex(index=False, escape=True)
    for suffix, content in ((".csv", text.getvalue()), (".md", markdown(table) + "\n"), (".tex", latex)):
        write_atomically(path.with_suffix(suffix), content.encode())
