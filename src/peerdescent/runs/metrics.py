"""The table of a run's evaluations."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from peerdescent._util.extras import needed_for
from peerdescent._util.numbers import finite_or_none
from peerdescent.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
COLUMNS = (
    "iteration",
    "loss",
    "accuracy",
    "test_loss",
    "consensus_error",
    "gradient_norm",
    "bytes_sent",
    "seconds",
    "simulated_seconds",
    "evaluation_seconds",
)
FINITE = ("loss", "consensus_error", "gradient_norm")
"""The columns that stay finite as long as a run does not diverge."""


class Metrics(Sequence[Row]):
    """A table with one row per evaluation: a sequence of rows, with columns by name.

    >>> table = Metrics([{"iteration": 0, "loss": 2.0}, {"iteration": 10, "loss": 1.0}])
    >>> table["loss"], table[-1]["iteration"], len(table)
    ([2.0, 1.0], 10, 2)
    >>> table.to_pandas().shape
    (2, 2)
    """

    def __init__(self, rows: Sequence[Row] = ()) -> None:
        self.rows = list(rows)

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: slice) -> Sequence[Row]: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...

    def __getitem__(self, key: int | slice | str) -> Any:
        return [row.get(key) for row in self.rows] if isinstance(key, str) else self.rows[key]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __repr__(self) -> str:
        return f"Metrics({len(self)} rows: {', '.join(self.rows[-1]) if self.rows else ''})"

    def to_pandas(self) -> pd.DataFrame:
        """The table as a pandas DataFrame."""
        with needed_for("DataFrames"):
            import pandas as pd

        table: pd.DataFrame = pd.DataFrame(self.rows)
        return table


def diverged(record: Mapping[str, Any] | Metrics) -> bool:
    """Whether a run has diverged, by its table, by one row, or by its summary.

    A summary may record it under `diverged`; otherwise a loss, consensus error or gradient norm that is not finite
    (None in a file) means divergence. A table is judged by its last row; an empty one has not diverged.

    >>> diverged({"loss": 0.5}), diverged({"loss": None}), diverged({"loss": 0.5, "diverged": True})
    (False, True, True)
    >>> diverged(Metrics([{"loss": 0.5}, {"loss": 0.4, "gradient_norm": float("inf")}]))
    True
    """
    if isinstance(record, Metrics):
        return len(record) > 0 and diverged(record[-1])
    if "diverged" in record:
        return bool(record["diverged"])
    return any(finite_or_none(record[key]) is None for key in FINITE if key in record)


def parse_rows(content: bytes, source: str, required: Sequence[str] = ("iteration",)) -> Metrics:
    r"""The table in a file of JSON lines; a last line that a killed process left incomplete is dropped.

    Args:
        content: the file.
        source: its name, for messages.
        required: columns that every row must have.

    Raises:
        InputError: another line is damaged; the message names it and says what can be saved.

    >>> parse_rows(b'{"iteration": 0}\n{"iteration": 10}\n{"iterat', "metrics.jsonl")["iteration"]
    [0, 10]
    """
    *lines, torn = content.split(b"\n")  # a whole line ends with a newline
    rows: list[Row] = []
    for number, line in enumerate(lines, start=1):
        last = rows[-1]["iteration"] if rows else -1
        try:
            rows.append(_row(line, last, required))
        except (ValueError, RecursionError) as error:
            if number == len(lines) and not torn and not _is_json(line):
                break  # pages of one line may reach the disk in any order
            saved = f"the rows before it, up to iteration {last}, are intact; " if rows else ""
            reason = "nested too deeply" if isinstance(error, RecursionError) else error
            raise InputError(
                f"{source}, line {number} is not an evaluation ({reason}): {saved}restore the line, or save "
                f"{'them' if rows else 'the file'} elsewhere and start again with --overwrite."
            ) from None
    return Metrics(rows)


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line.decode("utf-8"))
    except ValueError:
        return False
    except RecursionError:
        pass
    return True


def _row(line: bytes, last: int, required: Sequence[str]) -> Row:
    """One row; raises ValueError if it is none, or not after iteration `last`."""
    try:
        row = json.loads(line.decode("utf-8"))
    except ValueError:
        raise ValueError("not JSON") from None
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")
    for key in required:
        if key not in row:
            raise ValueError(f"it has no {key}")
    for key in COLUMNS:
        if isinstance(row.get(key), bool) or not isinstance(row.get(key), int | float | None):
            raise ValueError(f"{key} = {str(row[key])[:20]!r} is not a number")
    if not isinstance(row["iteration"], int) or row["iteration"] <= last:
        raise ValueError(f"iteration {row['iteration']} after {last}" if last >= 0 else "not an iteration")
    return row
