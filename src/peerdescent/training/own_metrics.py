"""Metrics of the user's own: what they may be called, and that other processes can have them."""

from __future__ import annotations

import pickle
from collections.abc import Mapping

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.problems.scores import Metrics
from peerdescent.runs.metrics import COLUMNS

RESERVED = (*COLUMNS, "epochs", "agents", "diverged", "notes", "status")
"""Names that rows, summaries and pages use themselves."""
PREFIXES = ("agent_", "ema_")
"""How the columns of single agents and of the moving average begin."""
LONGEST = 40


def check_metrics(metrics: object, pickled: bool = False) -> Metrics:
    """Return the metrics given to `train`, by name.

    Args:
        metrics: functions by name, or None.
        pickled: whether they are sent to processes that are started here.

    Raises:
        InputError: a name is taken, or something is not a function that these processes can have.

    >>> check_metrics({"loss": len})
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: the metric 'loss' has the name of a column of every run: choose another one.
    """
    if metrics is None:
        return {}
    if not isinstance(metrics, Mapping):
        raise InputError(f'metrics is {described(metrics)}: expected functions by name, such as {{"f1": f1_score}}.')
    for name, metric in metrics.items():
        if not isinstance(name, str) or not name.strip() or len(name) > LONGEST or not name.isprintable():
            raise InputError(f"a metric is called {described(name)}: expected a text of at most {LONGEST} characters.")
        if name in RESERVED:
            raise InputError(f"the metric {name!r} has the name of a column of every run: choose another one.")
        if name.startswith(PREFIXES):
            raise InputError(f"the metric {name!r} begins with agent_ or ema_, like other columns: choose another one.")
        if not callable(metric):
            raise InputError(f"the metric {name!r} is {described(metric)}: expected a function that returns a number.")
        if pickled:
            _check_pickles(name, metric)
    return dict(metrics)


def _check_pickles(name: str, metric: object) -> None:
    try:
        pickle.dumps(metric)
    except Exception as error:  # whatever the parts of a user's object raise
        raise InputError(
            f"the metric {name!r} cannot be sent to other processes: define it with `def` at the top level of a "
            "module, not as a lambda or inside a function."
        ) from error
