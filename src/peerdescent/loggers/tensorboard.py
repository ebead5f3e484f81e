"""Event files for TensorBoard."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerdescent._util import toml
from peerdescent._util.extras import require
from peerdescent._util.files import make_folder
from peerdescent.errors import InputError
from peerdescent.loggers.base import Logger, numbers_of
from peerdescent.runs.log_files import EVENTS_NAME, EVENTS_SUFFIX, TENSORBOARD_FOLDER
from peerdescent.runs.metrics import Row

if TYPE_CHECKING:
    from peerdescent.training.loop import Run


class TensorBoard(Logger):
    """Writes scalars that `tensorboard --logdir FOLDER` shows, one step per iteration that was evaluated.

    A resumed run marks the steps after its checkpoint as void, so that no step counts twice.

    Args:
        folder: for the event files; None is `tensorboard/` in the run folder.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        require("tensorboard", "TensorBoard logs", "tensorboard")
        super().__init__(folder, TENSORBOARD_FOLDER)
        self._writer: Any = None

    def open(self, run: Run, place: Path, kept: Sequence[Row]) -> None:
        """Open an event file; where none is yet, it begins with the rows that count."""
        from torch.utils.tensorboard import SummaryWriter

        try:
            make_folder(place)
            before = any(EVENTS_NAME.fullmatch(path.name) for path in place.iterdir())
            purge = (kept[-1]["iteration"] + 1 if kept else 0) if before else None
            self._writer = SummaryWriter(str(place), purge_step=purge, filename_suffix=EVENTS_SUFFIX)
        except OSError as error:
            raise InputError(f"cannot write to {place}: {error.strerror or error}.") from error
        if not before or not kept:
            described = toml.dumps(dict(run.plan.description)).decode()
            self._writer.add_text("experiment", f"```\n{described}```", 0)
        for row in () if before else kept:
            self.write(row)

    def write(self, row: Row) -> None:
        """One scalar per number; absent ones are left out."""
        for name, value in numbers_of(row).items():
            if value is not None and name != "iteration":
                self._writer.add_scalar(name, value, row["iteration"])
        self._writer.flush()

    def close(self) -> None:
        """Close the event file."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
