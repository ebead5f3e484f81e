"""The recorder: the rows and notes of a run, in memory and, if there is one, in its folder."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from peerdescent.runs.folder import RunFolder
from peerdescent.runs.metrics import Metrics, Row, diverged
from peerdescent.training.callbacks import Callback
from peerdescent.training.early_stopping import STOPPED_EARLY

if TYPE_CHECKING:
    from peerdescent.training.loop import Run
    from peerdescent.training.result import Result


class Recorder(Callback):
    """The rows and notes of one run. Rank 0 keeps them; elsewhere there are no rows."""

    def __init__(self) -> None:
        self.metrics = Metrics()
        self.notes: list[str] = []
        self.folder: RunFolder | None = None

    def write_to(self, folder: RunFolder, description: Mapping[str, Any], rows: Sequence[Row]) -> None:
        """Write into a folder what is run, and go on after these rows of it."""
        folder.describe(dict(description))
        folder.keep(rows)
        self.folder, self.metrics = folder, Metrics(rows)

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Keep the row."""
        self.metrics.rows.append(row)
        if self.folder is not None:
            self.folder.append(row)

    def on_end(self, run: Run, result: Result) -> None:
        """Write how the run ended."""
        if self.folder is not None:
            early = {"status": STOPPED_EARLY} if result.stopped_early else {}
            self.folder.finish({**result.summary(), **early, "diverged": result.diverged, "notes": self.notes})

    def record_stop(self, run: Run) -> None:
        """Write that the user has stopped the run, and where, with the numbers of this iteration if there are any."""
        if self.folder is not None:
            evaluated = len(self.metrics) > 0 and self.metrics[-1]["iteration"] == run.k
            last = self.metrics[-1] if evaluated else {}
            shown = {key: value for key, value in last.items() if not key.startswith("agent_")}
            stopped = {"iteration": run.k, "status": "stopped", "diverged": False, "notes": self.notes}
            self.folder.finish({**shown, **stopped})

    def rewind(self, iteration: int) -> None:
        """Drop the rows after an iteration."""
        self.metrics = Metrics([row for row in self.metrics if row["iteration"] <= iteration])
        if self.folder is not None:
            self.folder.rewind(iteration)

    def note(self, text: str) -> None:
        """Something that whoever reads the records should know, shown at once."""
        self.notes.append(text)
        warnings.warn(text, stacklevel=3)

    def note_at_end(self, *texts: str) -> None:
        """The same, shown with the results only, and once."""
        self.notes += [text for text in texts if text not in self.notes]

    @property
    def diverged(self) -> bool:
        """Whether the last row of an earlier attempt was no longer finite."""
        return len(self.metrics) > 0 and diverged(self.metrics[-1])

    @property
    def rose(self) -> bool:
        """Whether the loss is higher than at the start."""
        return len(self.metrics) > 0 and bool(self.metrics[-1]["loss"] > self.metrics[0]["loss"])
