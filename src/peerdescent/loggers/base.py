"""What all loggers share: where they write, which rows they start with, and the numbers of a row."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.runs.metrics import Row
from peerdescent.training.callbacks import Callback

if TYPE_CHECKING:
    from peerdescent.training.loop import Run
    from peerdescent.training.result import Result


class Logger(Callback):
    """A callback that writes every evaluation somewhere. A resumed run goes on after the rows that it kept.

    Args:
        place: where to write; None is a place in the run folder.
        name: of the place in the run folder.
    """

    def __init__(self, place: str | os.PathLike[str] | None, name: str) -> None:
        if place is not None and (not isinstance(place, str | os.PathLike) or not str(place) or "\0" in str(place)):
            raise InputError(f"{type(self).__name__} got {described(place)}: expected a path, or None.")
        self._given, self._name = None if place is None else Path(place), name

    def place_of(self, run: Run) -> Path:
        """Where the numbers of this run go."""
        if self._given is not None:
            return self._given
        if run.recorder.folder is None:
            raise InputError(f"{type(self).__name__}() writes into the run folder: give it a path, or train an out.")
        return run.recorder.folder.path / self._name

    def on_start(self, run: Run) -> None:
        """Open the log; also after a process was lost, when some rows are taken back."""
        self.close()
        self.open(run, self.place_of(run), list(run.recorder.metrics))

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Write the row."""
        self.write(row)

    def on_end(self, run: Run, result: Result) -> None:
        """Close the log."""
        self.close()

    @abstractmethod
    def open(self, run: Run, place: Path, kept: Sequence[Row]) -> None:
        """Begin; `kept` are the rows of earlier attempts that count."""

    @abstractmethod
    def write(self, row: Row) -> None:
        """Write one evaluation."""

    @abstractmethod
    def close(self) -> None:
        """Write what is still held; may be called twice."""


def numbers_of(row: Row) -> dict[str, float | None]:
    """The numbers of a row, those of single agents as name/agent; None where one is absent.

    >>> numbers_of({"iteration": 5, "loss": 0.5, "accuracy": None, "agent_loss": [1.0, 2.0], "note": "text"})
    {'iteration': 5, 'loss': 0.5, 'accuracy': None, 'agent_loss/0': 1.0, 'agent_loss/1': 2.0}
    """
    found: dict[str, float | None] = {}
    for name, value in row.items():
        if isinstance(value, list | tuple):
            found.update({f"{name}/{i}": one for i, one in enumerate(value) if _is_number(one)})
        elif _is_number(value):
            found[name] = value
    return found


def _is_number(value: object) -> bool:
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))
