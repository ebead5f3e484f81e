"""What a reader sees of runs: figures and tables.

>>> from peerdescent import train, report
>>> run = train("quadratic", "ring:5", "d-sgd-1", iterations=50)
>>> figure = report.comparison({"d-sgd-1": run.metrics})
>>> print(report.to_csv(report.summary_rows({"d-sgd-1": run.summary()})).splitlines()[0])
method,iterations,loss,accuracy_percent,consensus_error,bytes_sent,seconds,note
"""

from peerdescent.report.figures import comparison, save, topology
from peerdescent.report.tables import human_bytes, summary_rows, to_csv, to_latex, to_markdown, to_rich

__all__ = [
    "comparison",
    "human_bytes",
    "save",
    "summary_rows",
    "to_csv",
    "to_latex",
    "to_markdown",
    "to_rich",
    "topology",
]
