"""The table of a run's evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, overload

from peerdescent._util.extras import needed_for
from peerdescent._util.numbers import finite_or_none

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
COLUMNS = ("iteration", "loss", "accuracy", "consensus_error", "gradient_norm", "bytes_sent", "seconds")
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
