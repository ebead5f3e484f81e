"""How runs ended, one row per method."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peerdescent._util.numbers import finite_or_none
from peerdescent.report.formatting import ABSENT, human_bytes, human_seconds
from peerdescent.report.quantities import added_columns, label
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import diverged

Row = dict[str, Any]


@dataclass(frozen=True)
class _Column:
    """A column: its key in a row, its head, how its values are shown, and which of them is the best."""

    key: str
    title: str
    show: Callable[[Any], str] = str
    best: Callable[[list[float]], float] | None = None
    communicates: bool = False
    """Only methods that send something compete: a centralized method would always win."""


# wall time is not compared: other processes on the machine disturb it
_COLUMNS = (
    _Column("method", "method"),
    _Column("iterations", "iterations", lambda v: f"{v:,}"),
    _Column("loss", "final risk", lambda v: f"{v:.4g}", min),
    _Column("accuracy_percent", "test accuracy (%)", lambda v: f"{v:.2f}", max),
    _Column("consensus_error", "consensus error", lambda v: f"{v:.2e}" if v else "0", min, True),
    _Column("bytes_sent", "sent", human_bytes, min, True),
    _Column("seconds", "seconds", human_seconds),
    _Column("note", "note"),
)
_SIMULATED = _Column("simulated_seconds", "simulated seconds", human_seconds)
_TEST_LOSS = _Column("test_loss", label("test_loss"), lambda v: f"{v:.4g}", min)


def _columns(results: Mapping[str, Mapping[str, Any]]) -> tuple[_Column, ...]:
    """The columns of all runs, and after the accuracy those that these runs have besides."""
    tested = [_TEST_LOSS] if any(summary.get("test_loss") is not None for summary in results.values()) else []
    own = [_Column(name, label(name), lambda v: f"{v:.4g}") for name in added_columns(results.values())]
    timed = any(summary.get("simulated_seconds") is not None for summary in results.values())
    return (*_COLUMNS[:4], *tested, *own, *_COLUMNS[4:-1], *[_SIMULATED] * timed, _COLUMNS[-1])


def summary_table(results: Mapping[str, Mapping[str, Any]], title: str = "") -> Table:
    """How each method ended, the best of each column in bold; empty columns are left out.

    Test loss, metrics of the user's own and those of a moving average have a column where a run has them. The CSV has
    every column, and numbers at full precision: bytes as bytes, accuracy in percent, nothing where a
    number is absent or not finite.

    Args:
        results: by method, the last evaluation as `Result.summary` returns it, or the content of `summary.json`;
            its entries `diverged` and `notes` become the note.
        title: the line above the table.

    >>> results = {"a": {"iteration": 9, "loss": 0.5, "notes": ["short"]}, "b": {"iteration": 9, "loss": 0.25}}
    >>> print(summary_table(results).to_markdown())
    | method | iterations | final risk | note |
    | :--- | ---: | ---: | :--- |
    | a | 9 | 0.5 | short |
    | b | 9 | **0.25** |  |
    >>> print(summary_table(results).to_csv().splitlines()[1])
    a,9,0.5,,,,,short
    """
    columns = _columns(results)
    rows = [_row(method, summary, columns[1:-1]) for method, summary in results.items()]
    shown = [
        column for column in columns if column.key == "method" or any(row[column.key] not in (None, "") for row in rows)
    ]
    texts = [tuple(_text(column, row[column.key]) for column in shown) for row in rows]
    best = {(place, number) for number, column in enumerate(shown) for place in _best(column, rows)}
    data = {column.key: [row[column.key] for row in rows] for column in columns}
    return Table(title, tuple(column.title for column in shown), texts, best=best, data=data)


def _row(method: str, summary: Mapping[str, Any], numbers: Sequence[_Column]) -> Row:
    row: Row = {"method": method}
    row.update({column.key: finite_or_none(summary.get(column.key)) for column in numbers})
    row["iterations"] = summary.get("iteration")
    accuracy = finite_or_none(summary.get("accuracy"))
    row["accuracy_percent"] = None if accuracy is None else 100 * accuracy
    notes = [str(note) for note in summary.get("notes") or ()]
    noted = any(note.startswith("diverged") for note in notes)
    row["note"] = "; ".join(["diverged"] * (diverged(summary) and not noted) + notes)
    return row


def _text(column: _Column, value: Any) -> str:
    return ABSENT if value is None else column.show(value)


def _best(column: _Column, rows: Sequence[Row]) -> list[int]:
    """The rows with the best value: all whose text equals the best one's, and none if every text is the same."""
    if column.best is None:
        return []
    texts = {place: column.show(row[column.key]) for place, row in enumerate(rows) if _competes(column, row)}
    if len(set(texts.values())) < 2:
        return []
    best = column.show(column.best([rows[place][column.key] for place in texts]))
    return [place for place, text in texts.items() if text == best]


def _competes(column: _Column, row: Row) -> bool:
    failed = row["note"].startswith("diverged")
    return not (failed or row[column.key] is None or (column.communicates and row["bytes_sent"] == 0))
