"""A table of all evaluations as comma-separated values."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent._util.files import make_folder, naming, write_atomically
from peerdescent.errors import InputError
from peerdescent.loggers.base import Logger, numbers_of
from peerdescent.runs.folder import recording
from peerdescent.runs.log_files import CSV_FILE
from peerdescent.runs.metrics import Row

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

FIRST = "iteration"


class CSV(Logger):
    """Writes one line per evaluation; nothing stands for an absent number, nan and inf for those that are not finite.

    Args:
        path: the file; None is `metrics.csv` in the run folder. A file that holds no such table is left alone.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        super().__init__(path, CSV_FILE)
        self._file: Path | None = None
        self._columns: list[str] = []
        self._rows: list[dict[str, float | None]] = []

    def open(self, run: Run, place: Path, kept: Sequence[Row]) -> None:
        """Write the rows that count; another file of that name is refused."""
        if os.path.lexists(place) and not (place.is_file() and _is_table(place)):
            raise InputError(f"{place} exists and is no table of metrics: choose another name.")
        try:
            make_folder(place.parent)
        except OSError as error:
            raise InputError(f"cannot write to {place.parent}: {error.strerror}.") from error
        self._file, self._rows = place, [numbers_of(row) for row in kept]
        self._columns = list(dict.fromkeys(name for row in self._rows for name in row))
        if self._columns:
            self._write_all()

    def write(self, row: Row) -> None:
        """Append a line; a new column makes the whole table anew."""
        assert self._file is not None
        numbers = numbers_of(row)
        self._rows.append(numbers)
        new = [name for name in numbers if name not in self._columns]
        if new:
            self._columns += new
            return self._write_all()
        with recording(), naming(self._file), open(self._file, "ab") as file:
            file.write(self._text([numbers]))
        return None

    def close(self) -> None:
        """Nothing is held."""

    def _write_all(self) -> None:
        assert self._file is not None
        with recording():
            write_atomically(self._file, _line(self._columns) + self._text(self._rows))

    def _text(self, rows: Sequence[dict[str, float | None]]) -> bytes:
        return b"".join(_line([row.get(name) for name in self._columns]) for row in rows)


def _line(values: Sequence[object]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(values)
    return text.getvalue().encode()


def _is_table(file: Path) -> bool:
    with open(file, "rb") as opened:
        start = opened.read(len(FIRST) + 1)
    return start in (b"", FIRST.encode() + b",", FIRST.encode() + b"\n")
