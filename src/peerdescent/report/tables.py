"""How runs ended, as one table: for the terminal, Markdown, CSV and LaTeX."""

from __future__ import annotations

import csv
import io
import math
import re
import statistics
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from peerdescent.errors import InputError

Row = dict[str, Any]
UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")
ABSENT = "–"


def byte_unit(n: float) -> tuple[float, str]:
    """The decimal unit in which n bytes are best read, and its size.

    >>> byte_unit(54_000_000)
    (1000000.0, 'MB')
    """
    for power, unit in enumerate(UNITS):
        if float(f"{n / 1000**power:.3g}") < 1000:  # as it will be shown: 999.9 kB reads 1 MB
            return 1000.0**power, unit
    return 1000.0 ** (len(UNITS) - 1), UNITS[-1]


def human_bytes(n: float) -> str:
    """A number of bytes with three digits and a decimal unit.

    >>> human_bytes(0), human_bytes(999), human_bytes(82_240), human_bytes(1_085_568_000)
    ('0 B', '999 B', '82.2 kB', '1.09 GB')
    """
    if not (math.isfinite(n) and n >= 0):
        raise InputError(f"a number of bytes cannot be {n}: give a finite number, 0 or more.")
    size, unit = byte_unit(n)
    value = n / size
    digits = 0 if size == 1 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"


def with_spread(values: Sequence[float], decimals: int | None = None) -> str:
    """The mean over the seeds, and ± the standard deviation if there are several.

    Args:
        values: one per seed.
        decimals: how many both have; unless given, the mean has four digits and the deviation one.

    >>> with_spread([0.5, 0.6]), with_spread([1, 40]), with_spread([92.5, 93.5], 2), with_spread([0.5])
    ('0.55 ± 0.07', '20.5 ± 30', '93.00 ± 0.71', '0.5')
    """
    mean = statistics.fmean(values)
    deviation = statistics.stdev(values) if len(values) > 1 else None
    if decimals is not None:
        return f"{mean:.{decimals}f}" + (f" ± {deviation:.{decimals}f}" if deviation is not None else "")
    return f"{mean:.4g}" + (f" ± {float(f'{deviation:.1g}'):g}" if deviation is not None else "")


@dataclass(frozen=True)
class _Column:
    """A column: where its values stand, what it is called, how they are shown, and which is best."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    best: Callable[[list[float]], float] | None = None
    communicates: bool = False
    """Only methods that send something compete: a centralized one would win without playing."""


_COLUMNS = (
    _Column("method", "method"),
    _Column("iterations", "iterations", lambda v: f"{v:,}"),
    _Column("loss", "final risk", lambda v: f"{v:.4g}", min),
    _Column("accuracy_percent", "test accuracy (%)", lambda v: f"{v:.2f}", max),
    _Column("consensus_error", "consensus error", lambda v: f"{v:.2e}" if v else "0", min, True),
    _Column("bytes_sent", "sent", human_bytes, min, True),
    _Column("seconds", "seconds", lambda v: f"{v:.2f}" if v < 100 else f"{v:,.0f}", min),
    _Column("note", "note"),
)
_NUMBERS = tuple(column.key for column in _COLUMNS[1:-1])


def summary_rows(results: Mapping[str, Mapping[str, Any]]) -> list[Row]:
    """One row per method, with plain numbers: accuracy in percent, None for what is absent or not finite.

    Args:
        results: by method, the last evaluation as `Result.summary` gives it, or a folder's `summary.json`;
            the entries `diverged` and `notes`, where present, become the row's note.

    >>> rows = summary_rows({"d-sgd-1": {"iteration": 9, "loss": 0.5, "accuracy": 0.9, "notes": ["short"]}})
    >>> rows[0]["iterations"], rows[0]["accuracy_percent"], rows[0]["seconds"], rows[0]["note"]
    (9, 90.0, None, 'short')
    """
    return [_row(method, summary) for method, summary in results.items()]


def _row(method: str, summary: Mapping[str, Any]) -> Row:
    row: Row = {"method": method}
    row.update({key: _finite(summary.get(key)) for key in _NUMBERS})
    row["iterations"] = summary.get("iteration")
    accuracy = _finite(summary.get("accuracy"))
    row["accuracy_percent"] = None if accuracy is None else 100 * accuracy
    broke = bool(summary.get("diverged", "loss" in summary and row["loss"] is None))
    notes = [str(note) for note in summary.get("notes") or ()]
    said = any(note.startswith("diverged") for note in notes)
    row["note"] = "; ".join(["diverged"] * (broke and not said) + notes)
    return row


def _finite(value: Any) -> Any:
    return value if value is not None and math.isfinite(value) else None


def to_rich(rows: Sequence[Row], title: str = "") -> Table:
    """The table for a terminal; print it with a `rich.console.Console`.

    >>> to_rich(summary_rows({"d-sgd-1": {"iteration": 9, "loss": 0.5}})).row_count
    1
    """
    # narrow gaps, so that all columns fit into the usual 80 characters
    look: dict[str, Any] = {"box": box.SIMPLE_HEAD, "padding": (0, 1, 0, 0), "pad_edge": False}
    table = Table(title=Text(title) if title else None, title_style="bold", **look)
    for column in _shown(rows):
        if column.key in ("method", "note"):
            table.add_column(column.title, overflow="fold")
        else:  # as narrow as it can be: titles break between words, numbers never
            wide = max(map(len, [*column.title.split(), *(_text(column, row[column.key]) for row in rows)]))
            table.add_column(column.title, justify="right", width=wide)
    for cells in _cells(rows):
        # Text, not markup: a method may be called "[red]"
        table.add_row(*(Text(text, style="bold" if best else "") for text, best in cells))
    return table


def to_markdown(rows: Sequence[Row]) -> str:
    """The table in GitHub's Markdown.

    >>> ends = {"a": {"iteration": 9, "loss": 0.5}, "b": {"iteration": 9, "loss": 0.25}}
    >>> print(to_markdown(summary_rows(ends)))
    | method | iterations | final risk |
    | :--- | ---: | ---: |
    | a | 9 | 0.5 |
    | b | 9 | **0.25** |
    """
    columns = _shown(rows)
    lines = [[column.title for column in columns]]
    lines.append([":---" if column.key in ("method", "note") else "---:" for column in columns])
    for cells in _cells(rows):
        texts = [(re.sub(r"([\\`*_\[\]<>|~#$&])", r"\\\1", _one_line(text)), best) for text, best in cells]
        lines.append([f"**{text}**" if best else text for text, best in texts])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def to_csv(rows: Sequence[Row]) -> str:
    """The table for other programs: every column, numbers in full, bytes as bytes, absent values empty.

    >>> print(to_csv(summary_rows({"a, b": {"iteration": 9, "loss": 0.5}})).splitlines()[1])
    "a, b",9,0.5,,,,,
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, [column.key for column in _COLUMNS], extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return file.getvalue()


def to_latex(rows: Sequence[Row]) -> str:
    r"""The table as a LaTeX `tabular`; the document needs the package booktabs.

    >>> print(to_latex(summary_rows({"d_2": {"iteration": 9, "consensus_error": 5e-4}})))
    \begin{tabular}{lrr}
    \toprule
    method & iterations & consensus error \\
    \midrule
    d\_2 & 9 & $5.00 \times 10^{-4}$ \\
    \bottomrule
    \end{tabular}
    """
    columns = _shown(rows)
    alignment = "".join("l" if column.key in ("method", "note") else "r" for column in columns)
    lines = [[_latex(column.title) for column in columns]]
    lines += [[_latex_cell(*cell) for cell in cells] for cells in _cells(rows)]
    head, *body = [" & ".join(line) + r" \\" for line in lines]
    begin, end = rf"\begin{{tabular}}{{{alignment}}}", r"\end{tabular}"
    return "\n".join([begin, r"\toprule", head, r"\midrule", *body, r"\bottomrule", end])


def _shown(rows: Sequence[Row]) -> list[_Column]:
    """The columns with something in them."""
    return [
        column
        for column in _COLUMNS
        if column.key == "method" or any(row[column.key] not in (None, "") for row in rows)
    ]


def _cells(rows: Sequence[Row]) -> list[list[tuple[str, bool]]]:
    """The table as texts, row by row, and whether each is the best of its column."""
    columns = []
    for column in _shown(rows):
        texts = [_text(column, row[column.key]) for row in rows]
        best = _best(column, rows)
        columns.append([(text, text == best and _competes(column, row)) for text, row in zip(texts, rows, strict=True)])
    return [list(cells) for cells in zip(*columns, strict=True)]


def _text(column: _Column, value: Any) -> str:
    return ABSENT if value is None else column.show(value)


def _best(column: _Column, rows: Sequence[Row]) -> str | None:
    """How the best value reads: values that read the same share the honour, and where all do, none has it."""
    values = [row[column.key] for row in rows if _competes(column, row)]
    if column.best is None or len({column.show(value) for value in values}) < 2:
        return None
    return column.show(column.best(values))


def _competes(column: _Column, row: Row) -> bool:
    broke = row["note"].startswith("diverged")
    return not (broke or row[column.key] is None or (column.communicates and row["bytes_sent"] == 0))


def _one_line(text: str) -> str:
    return " ".join(text.split())


_LATEX = {
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
    **{"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': "''"},
    # Greek letters that LaTeX has no names for, since Latin ones look the same
    **dict(zip("ΑΒΕΖΗΙΚΜΝΟΡΤΧο", "ABEZHIKMNOPTXo", strict=True)),
    **{"–": "--", "—": "---", "…": r"\dots{}", "−": r"\ensuremath{-}", "×": r"\ensuremath{\times}"},
}


def _latex(text: str) -> str:
    return "".join(
        _LATEX.get(letter, letter) if letter.isascii() else _beyond_ascii(letter) for letter in _one_line(text)
    )


def _beyond_ascii(letter: str) -> str:
    """Greek letters as mathematics, since pdflatex stops at them."""
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
