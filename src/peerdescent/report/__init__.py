"""What a reader sees of runs: figures, tables and one HTML page.

Names are imported when they are used: tables need no plotting library.

>>> from peerdescent import train, report
>>> run = train("quadratic", "ring:5", "d-sgd-1", iterations=50)
>>> figure = report.comparison({"d-sgd-1": run.metrics})
>>> print(report.summary_table({"d-sgd-1": run.summary()}).to_csv().splitlines()[0])
method,iterations,loss,accuracy_percent,consensus_error,bytes_sent,seconds,note
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerdescent.report.drawing import save, topology
    from peerdescent.report.figures import comparison
    from peerdescent.report.formatting import human_bytes
    from peerdescent.report.summary import summary_table
    from peerdescent.report.tables import Table

__all__ = ["Table", "comparison", "human_bytes", "save", "summary_table", "topology"]

_HOMES = {
    "Table": "tables",
    "comparison": "figures",
    "human_bytes": "formatting",
    "save": "drawing",
    "summary_table": "summary",
    "topology": "drawing",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
