"""What a run has measured and noted so far, in memory and, if there is one, in its folder."""

from __future__ import annotations

import warnings
from typing import Any

from peerdescent.errors import InputError
from peerdescent.runs.folder import RunFolder
from peerdescent.runs.metrics import Metrics, Row, diverged
from peerdescent.training.checkpoints import Checkpoint
from peerdescent.training.result import Result


class Recorder:
    """The rows and notes of one run. Rank 0 keeps them; elsewhere there are no rows."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.notes: list[str] = []
        self.folder: RunFolder | None = None

    def keep_in(self, folder: RunFolder, experiment: dict[str, Any], iteration: int) -> None:
        """Write into a folder what is run, and go on after the rows that it has up to an iteration."""
        folder.describe(experiment)
        self.folder, self.metrics = folder, folder.rewind(iteration)

    def add(self, row: Row) -> bool:
        """Append a row; returns whether its numbers are finite."""
        self.metrics.rows.append(row)
        if self.folder is not None:
            self.folder.append(row)
        return not diverged(row)

    def go_back(self, iteration: int) -> None:
        """Forget the rows after an iteration."""
        self.metrics = Metrics([row for row in self.metrics if row["iteration"] <= iteration])
        if self.folder is not None:
            self.folder.rewind(iteration)

    def note(self, text: str) -> None:
        """Something that whoever reads the records should know, said at once."""
        self.notes.append(text)
        warnings.warn(text, stacklevel=3)

    def note_in_the_end(self, *texts: str) -> None:
        """The same, shown with the results only, and once."""
        self.notes += [text for text in texts if text not in self.notes]

    def finish(self, result: Result) -> None:
        """Say how it ended."""
        if self.folder is not None:
            self.folder.finish({**result.summary(), "diverged": result.diverged, "notes": self.notes})

    @property
    def diverged(self) -> bool:
        """Whether the last row is no longer finite."""
        return diverged(self.metrics)

    @property
    def rose(self) -> bool:
        """Whether the loss is higher than at the start."""
        return len(self.metrics) > 0 and bool(self.metrics[-1]["loss"] > self.metrics[0]["loss"])


def check_continues(folder: RunFolder, same: bool, last: Checkpoint | None, iterations: int) -> None:
    """Refuse a folder that cannot be gone on with.

    Args:
        folder: where the records are.
        same: whether what it holds, if anything, is of the same experiment.
        last: the state that it has.
        iterations: how many are asked for.
    """
    if not same:
        raise InputError(f"{folder.path} holds a run of another experiment: choose another --out.")
    if last is not None and last.iteration > iterations:
        raise InputError(
            f"{folder.path} holds {last.iteration} iterations already: "
            "ask for at least as many, or choose another --out."
        )
    recorded = folder.last_iteration()
    if last is None and recorded > iterations:
        raise InputError(f"{folder.path} holds {recorded} iterations already: choose another --out.")
