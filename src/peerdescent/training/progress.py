"""Progress of a run in a notebook or a terminal; scripts and tests are silent unless they ask for it."""

from __future__ import annotations

import html
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.runs.metrics import Row
from peerdescent.training.callbacks import Callback

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

    from peerdescent.training.loop import Run

SECONDS = 0.1
"""Between two changes of what a notebook shows."""


def in_notebook() -> bool:
    """Whether this is a Jupyter notebook, without importing IPython."""
    return type(_shell()).__name__ == "ZMQInteractiveShell"


def automatic() -> bool:
    """Whether someone is watching: in a notebook, or typing at a prompt."""
    prompt = hasattr(sys, "ps1") or type(_shell()).__name__ == "TerminalInteractiveShell"
    return in_notebook() or (prompt and sys.stderr.isatty())


def _shell() -> object:
    return getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()


@contextmanager
def shown(progress: bool | None, name: str) -> Iterator[list[Callback]]:
    """The callback of a progress bar, or none; the bar is closed however the run ends.

    Args:
        progress: whether to show one; None decides by `automatic`.
        name: what the bar is called.
    """
    if progress is not None and not isinstance(progress, bool):
        raise InputError(f"progress is {described(progress)}: expected True, False or None.")
    if not (automatic() if progress is None else progress):
        yield []
    elif in_notebook():
        bar = NotebookBar(name)
        try:
            yield [bar]
        finally:
            bar.close()
    else:
        with bars() as several:
            yield [ProgressBar(several, name)]


def bars() -> Progress:
    """Lines of progress for a terminal, on stderr: what a script prints stays whole."""
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    text, state = TextColumn("{task.description:<17}"), TextColumn("{task.fields[state]}")
    columns = (text, BarColumn(), MofNCompleteColumn(), state, TimeRemainingColumn(compact=True))
    return Progress(*columns, console=Console(stderr=True, highlight=False, markup=False, emoji=False))


class ProgressBar(Callback):
    """One method's line in the progress display of a terminal."""

    def __init__(self, bars: Progress, name: str) -> None:
        self._bars, self._name = bars, name
        self._task: TaskID | None = None

    def on_start(self, run: Run) -> None:
        """Show the line; a resumed run starts where it was."""
        if self._task is None:
            self._task = self._bars.add_task(self._name, total=run.settings.iterations, state="")
        self._bars.update(self._task, completed=run.k)

    def on_progress(self, run: Run) -> None:
        """Move it."""
        if self._task is not None:
            self._bars.update(self._task, completed=run.k)

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Show the last loss and accuracy."""
        if self._task is not None:
            self._bars.update(self._task, completed=run.k, state=state_of(row))


class NotebookBar(Callback):
    """A bar below the cell of a notebook; it needs no widgets, and stays in the saved notebook."""

    def __init__(self, name: str) -> None:
        self._name, self._state, self._k, self._total = name, "", 0, 1
        self._handle: Any = None
        self._next = 0.0

    def on_start(self, run: Run) -> None:
        """Show the bar; a resumed run starts where it was."""
        self._k, self._total = run.k, run.settings.iterations
        self._draw()

    def on_progress(self, run: Run) -> None:
        """Move it, a few times a second."""
        self._k = run.k
        if time.monotonic() >= self._next:
            self._draw()

    def on_evaluation(self, run: Run, row: Row) -> None:
        """Show the last loss and accuracy."""
        self._k, self._state = run.k, state_of(row)
        if time.monotonic() >= self._next:
            self._draw()

    def close(self) -> None:
        """Show the end."""
        if self._handle is not None:
            self._draw()

    def _draw(self) -> None:
        display = import_module("IPython.display").display
        self._next = time.monotonic() + SECONDS
        count = f"{self._k:,}/{self._total:,}"
        text = f"{self._name}: {count}  {self._state}".rstrip()
        markup = (
            '<div style="display:flex;gap:10px;align-items:center">'
            f"<span>{html.escape(self._name)}</span>"
            f'<progress value="{self._k}" max="{max(1, self._total)}" style="width:220px"></progress>'
            f"<span>{count}</span><span>{html.escape(self._state)}</span></div>"
        )
        bundle = {"text/plain": text, "text/html": markup}
        if self._handle is None:
            self._handle = display(bundle, raw=True, display_id=True)
        else:
            self._handle.update(bundle, raw=True)


def state_of(row: Row) -> str:
    """The loss and accuracy of an evaluation.

    >>> state_of({"loss": 0.25, "accuracy": 0.9})
    'loss 0.25  accuracy 90.00 %'
    """
    accuracy = "" if row["accuracy"] is None else f"  accuracy {100 * row['accuracy']:.2f} %"
    return f"loss {row['loss']:.4g}{accuracy}"
