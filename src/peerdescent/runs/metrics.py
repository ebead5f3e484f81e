"""The table of a run's evaluations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas as pd

Row = dict[str, Any]
COLUMNS = ("iteration", "loss", "accuracy", "consensus_error", "gradient_norm", "bytes_sent", "seconds")


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
        """The same as a pandas DataFrame."""
        import pandas as pd

        table: pd.DataFrame = pd.DataFrame(self.rows)
        return table
