"""Callbacks: what a run calls on its way. The recorder, checkpoints and progress bars are callbacks themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent.runs.metrics import Row

if TYPE_CHECKING:
    from peerdescent.training.loop import Run
    from peerdescent.training.result import Result


class Callback:
    """Override what you need; every hook gets the run, with its iteration count `run.k`, `run.state` and `run.plan`.

    `run.state["x"]` is the n×p matrix of the agents' points, live: read it, do not change it. In several processes
    the callbacks given to `train` are called in rank 0, whose state holds the rows of its own agents only.

    >>> from peerdescent import train
    >>> class Distance(Callback):
    ...     def on_evaluation(self, run, row):
    ...         row["distance"] = float(run.state["x"].norm())
    >>> result = train("quadratic", "ring:4", "d-sgd-1", iterations=10, eval_every=5, callbacks=[Distance()])
    >>> len(result.metrics["distance"])
    3
    """

    def on_start(self, run: Run) -> None:
        """Before the first iteration, after a checkpoint was restored."""

    def on_iteration(self, run: Run) -> None:
        """After every iteration; a callback that does not override it costs nothing."""

    def on_progress(self, run: Run) -> None:
        """After at most 100 iterations, and before every evaluation: for progress bars and clocks."""

    def on_evaluation(self, run: Run, row: Row) -> None:
        """After an evaluation, before its row is recorded: numbers that are added to it are recorded too."""

    def on_checkpoint(self, run: Run, path: Path) -> None:
        """After a checkpoint was written."""

    def on_end(self, run: Run, result: Result) -> None:
        """After the last iteration, also of a run that diverged."""


def may_add_columns(callback: Callback) -> bool:
    """Whether a callback may add numbers to rows: a user's own may, the package's do not."""
    kind = type(callback)
    return kind.on_evaluation is not Callback.on_evaluation and not kind.__module__.startswith("peerdescent.")


class CallbackList(Callback):
    """Several callbacks, called in order."""

    def __init__(self, callbacks: list[Callback]) -> None:
        self.callbacks = callbacks
        self.wants_iterations = any(type(each).on_iteration is not Callback.on_iteration for each in callbacks)

    def on_start(self, run: Run) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_start(run)

    def on_iteration(self, run: Run) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_iteration(run)

    def on_progress(self, run: Run) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_progress(run)

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_evaluation(run, row)

    def on_checkpoint(self, run: Run, path: Path) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_checkpoint(run, path)

    def on_end(self, run: Run, result: Result) -> None:
        """Call all of them."""
        for callback in self.callbacks:
            callback.on_end(run, result)
