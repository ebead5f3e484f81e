"""A table of texts, for the terminal and the page, and as Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerdescent._util.files import write_atomically
from peerdescent.report.formatting import ABSENT

if TYPE_CHECKING:
    from rich.table import Table as RichTable

_NUMBER = r"[-−+]?(\d{1,3}(,\d{3})+|\d+)?(\.?\d+)?([eE][-−+]?\d+)?"
_NUMERIC = re.compile(rf"{_NUMBER}(\s*±\s*{_NUMBER})?\s*(%|s|ms|[kMGTPE]?B|×)?")


@dataclass(frozen=True)
class Table:
    """A table of texts. Columns that hold only numbers are aligned to the right.

    Args:
        title: the line above it.
        columns: the heads.
        rows: one text per column; `backticks` enclose code.
        note: the line below it.
        best: (row, column) of the cells shown in bold.
        data: column → values at full precision, which the CSV holds in place of the texts.

    >>> table = Table("Ends", ("method", "loss"), [("d2", "0.5"), ("d-sgd-1", "0.75")], best={(0, 1)})
    >>> print(table.to_markdown())
    | method | loss |
    | :--- | ---: |
    | d2 | **0.5** |
    | d-sgd-1 | 0.75 |
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""
    best: Collection[tuple[int, int]] = frozenset()
    data: Mapping[str, Sequence[Any]] = field(default_factory=dict)

    @cached_property
    def numeric(self) -> list[bool]:
        """Which columns hold only numbers; units and deviations are allowed.

        >>> rows = [("2-step", "0.5 ± 0.01", "82.2 kB"), ("b", "–", "0 B")]
        >>> Table("", ("method", "loss", "sent"), rows).numeric
        [False, True, True]
        """
        columns = [[cell(row[number]) for row in self.rows] for number in range(len(self.columns))]
        return [
            any(text != ABSENT for text in column) and all(text == ABSENT or _is_number(text) for text in column)
            for column in columns
        ]

    def to_rich(self, without: Collection[str] = (), title: str | None = None) -> RichTable:
        """The table for a terminal; print it with a `rich.console.Console`.

        Args:
            without: columns to leave out where a terminal has no room.
            title: replaces that of the table.

        >>> Table("", ("method", "loss"), [("d2", "0.5")]).to_rich(without=["loss"]).row_count
        1
        """
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        title = self.title if title is None else title
        # narrow gaps, so that all columns fit into the usual 80 characters
        look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}
        table = RichTable(title=Text(title) if title else None, title_style="bold", title_justify="left", **look)
        shown = [number for number, name in enumerate(self.columns) if name not in without]
        for number in shown:
            name = self.columns[number]
            if self.numeric[number]:  # as narrow as possible: heads break between words, numbers never
                width = max(map(len, [*name.split(), *(row[number] for row in self.rows)]))
                table.add_column(Text(name), justify="right", width=width)
            else:
                table.add_column(Text(name), overflow="fold")
        for place, row in enumerate(self.rows):
            # Text, not markup: a method may be called "[red]"
            table.add_row(*(Text(row[i], style="bold" if (place, i) in self.best else "") for i in shown))
        return table

    def to_markdown(self) -> str:
        r"""The table in GitHub's Markdown.

        >>> print(Table("", ("a|b",), [("x_1, `y_1`",)]).to_markdown())
        | a\|b |
        | :--- |
        | x\_1, `y_1` |
        """
        lines = [[_markdown(name) for name in self.columns]]
        lines.append(["---:" if right else ":---" for right in self.numeric])
        for place, row in enumerate(self.rows):
            texts = [_markdown(text) for text in row]
            lines.append([f"**{text}**" if (place, i) in self.best else text for i, text in enumerate(texts)])
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def to_csv(self) -> str:
        """The table for other programs: `data` if there is any, else the texts.

        >>> Table("", ("loss",), [("0.33",)], data={"loss": [1 / 3]}).to_csv()
        'loss\\n0.3333333333333333\\n'
        """
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(list(self.data) or self.columns)
        writer.writerows(zip(*self.data.values(), strict=True) if self.data else self.rows)
        return file.getvalue()

    def to_latex(self) -> str:
        r"""The table as a LaTeX `tabular`; the document needs the package booktabs.

        >>> print(Table("", ("method", "loss"), [("d_2", "5.00e-04")]).to_latex())
        \begin{tabular}{lr}
        \toprule
        method & loss \\
        \midrule
        d\_2 & $5.00 \times 10^{-4}$ \\
        \bottomrule
        \end{tabular}
        """
        alignment = "".join("r" if right else "l" for right in self.numeric)
        lines = [[_latex(name) for name in self.columns]]
        for place, row in enumerate(self.rows):
            lines.append([_latex_cell(text, (place, i) in self.best) for i, text in enumerate(row)])
        head, *body = [" & ".join(line) + r" \\" for line in lines]
        begin, end = rf"\begin{{tabular}}{{{alignment}}}", r"\end{tabular}"
        return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end])

    def write(self, path: Path, suffixes: Sequence[str] = ("csv", "md", "tex")) -> None:
        """Write one file per format, next to each other; `path` has no suffix."""
        path.parent.mkdir(parents=True, exist_ok=True)
        forms = {"csv": self.to_csv, "md": self.to_markdown, "tex": self.to_latex}
        for suffix in suffixes:
            text = forms[suffix]().rstrip("\n") + "\n"
            write_atomically(path.with_name(f"{path.name}.{suffix}"), text.encode())


def cell(value: object) -> str:
    """The text of a cell: a dash for anything absent or not finite.

    >>> cell(None), cell("nan"), cell("0.5")
    ('–', '–', '0.5')
    """
    text = "" if value is None else str(value).strip()
    return ABSENT if text.lower() in ("", "none", "nan", "inf", "-inf", "<na>", "nat") else text


def _is_number(text: str) -> bool:
    return any(letter.isdigit() for letter in text) and _NUMERIC.fullmatch(text) is not None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _markdown(text: str) -> str:
    """Special characters escaped, except in code; a bar would end the cell even there."""
    parts = re.split(r"(`[^`]+`)", _one_line(text))
    plain = [re.sub(r"([\\`*_\[\]<>|~#$&])", r"\\\1", part) for part in parts[::2]]
    code = [part.replace("|", r"\|") for part in parts[1::2]]
    return "".join(part for pair in zip(plain, [*code, ""], strict=True) for part in pair)


_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
    # Greek letters without a LaTeX command, since they look like Latin ones
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)),
    **{"–": "--", "—": "---", "…": r"\dots{}", "−": r"\ensuremath{-}", "×": r"\ensuremath{\times}"},
    "±": r"\ensuremath{\pm}",
}


def _latex(text: str) -> str:
    return "".join(
        _LATEX.get(letter, letter) if letter.isascii() else _beyond_ascii(letter) for letter in _one_line(text)
    )


def _beyond_ascii(letter: str) -> str:
    """Greek letters as mathematics, since pdflatex does not accept them as text."""
    found = re.fullmatch(r"GREEK (SMALL|CAPITAL) LETTER (\w+)", unicodedata.name(letter, ""))
    if found is None or letter in _LATEX:
        return _LATEX.get(letter, letter)
    name = found[2].lower().replace("lamda", "lambda")
    return rf"\ensuremath{{\{name if found[1] == 'SMALL' else name.capitalize()}}}"


def _latex_cell(text: str, best: bool) -> str:
    power = re.fullmatch(r"(-?[\d.]+)e([+-]\d+)", text)
    if power:
        number = rf"{power[1]} \times 10^{{{int(power[2])}}}"
        return rf"$\mathbf{{{number}}}$" if best else f"${number}$"
    return rf"\textbf{{{_latex(text)}}}" if best else _latex(text)
