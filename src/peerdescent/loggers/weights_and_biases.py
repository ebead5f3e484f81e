"""Runs for Weights & Biases."""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peerdescent._util.extras import require
from peerdescent._util.files import make_folder
from peerdescent._util.validation import check_choice
from peerdescent.errors import InputError
from peerdescent.loggers.base import Logger, numbers_of
from peerdescent.runs.log_files import WANDB_FOLDER, WANDB_RUN, remove_wandb_run, wandb_runs
from peerdescent.runs.metrics import Row

if TYPE_CHECKING:
    from peerdescent.training.loop import Run

MODES = ("online", "offline", "disabled")


class WandB(Logger):
    """Writes a run of Weights & Biases, one step per iteration that was evaluated.

    Offline, a run that is resumed replaces what it wrote before, so that no step is there twice, and
    `wandb sync FOLDER/wandb/offline-run-*` uploads it. Online, it continues the run of the same id.

    Args:
        project: its name there; None takes WANDB_PROJECT, or peerdescent.
        mode: "online", "offline" or "disabled"; None takes WANDB_MODE, or "offline": nothing is sent unless asked for.
        folder: where wandb makes its folder `wandb`; None is the run folder.
        **options: anything else that `wandb.init` takes, such as name, group or tags.
    """

    def __init__(
        self,
        project: str | None = None,
        mode: str | None = None,
        folder: str | os.PathLike[str] | None = None,
        **options: Any,
    ) -> None:
        require("wandb", "Weights & Biases logs", "wandb")
        super().__init__(None if folder is None else Path(folder) / WANDB_FOLDER, WANDB_FOLDER)
        self.project = project or os.environ.get("WANDB_PROJECT") or "peerdescent"
        self.mode = check_choice("mode", mode or os.environ.get("WANDB_MODE") or "offline", MODES)
        self._options = options
        self._run: Any = None

    def open(self, run: Run, place: Path, kept: Sequence[Row]) -> None:
        """Start a run of wandb, under the id of an earlier attempt if this one goes on after it."""
        import wandb

        try:
            make_folder(place)
        except OSError as error:
            raise InputError(f"cannot write to {place}: {error.strerror or error}.") from error
        before = wandb_runs(place) if kept else []
        found = WANDB_RUN.fullmatch(before[-1].name) if before else None
        identity = found["id"] if found else f"pd{uuid.uuid4().hex[:12]}"
        offline = self.mode == "offline"
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, save_code=False)
        options: dict[str, Any] = {"mode": self.mode, **self._options}
        try:
            self._run = wandb.init(
                project=self.project, dir=str(place.parent), id=identity,
                resume=None if offline else "allow", config=dict(run.plan.description), settings=quiet,
                reinit="create_new", **options,
            )  # fmt: skip
        except (wandb.errors.Error, TypeError, ValueError) as error:
            raise InputError(f"wandb cannot start: {error}; `wandb login`, or mode offline, may help.") from error
        logged = bool(before) and not offline
        for row in () if logged else kept:
            self.write(row)
        for earlier in before if offline else ():
            if earlier.name.endswith(identity) and earlier.resolve() != Path(self._run.dir).parent.resolve():
                remove_wandb_run(earlier)

    def write(self, row: Row) -> None:
        """One step; absent numbers are left out."""
        assert self._run is not None
        numbers = {name: value for name, value in numbers_of(row).items() if value is not None}
        self._run.log(numbers, step=row["iteration"])

    def close(self) -> None:
        """Finish the run of wandb."""
        if self._run is not None:
            self._run.finish()
            self._run = None
