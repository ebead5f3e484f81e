"""What a command says when it is stopped: where it was, and how to go on."""

from __future__ import annotations

import shlex
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from peerdescent.distributed.torchrun import under_torchrun
from peerdescent.errors import StoppedError
from peerdescent.experiments.files import RUN_FILES


@contextmanager
def explained(advice: Callable[[], str]) -> Iterator[None]:
    """Ctrl-C and SIGTERM end what is done meanwhile with a sentence.

    Args:
        advice: how to go on; called when it is known what was recorded.
    """
    try:
        yield
    except KeyboardInterrupt as stop:
        number, k = (stop.signal, stop.iteration) if isinstance(stop, StoppedError) else (signal.SIGINT, None)
        where = "stopped" if k is None else f"stopped at iteration {k}"
        raise StoppedError(number, f"{where}; {advice()}", k) from None


def resume_command(command: str, folder: Path, workers: int) -> str:
    """How to go on with a run or a comparison in a folder."""
    if not any((folder / name).is_file() for name in RUN_FILES):
        return "nothing is recorded yet, the same command starts again."
    if under_torchrun():
        return f"the same command with --out {shlex.quote(str(folder))} --resume continues."
    words = ["peerdescent", command, str(folder), "--resume", *(["--workers", str(workers)] if workers > 1 else [])]
    return f"continue with: {shlex.join(words)}"
