"""Processes that must not outlive their parent."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator

LOOK_EVERY = 0.2
"""Seconds."""


@contextlib.contextmanager
def ending_with_parent() -> Iterator[None]:
    """Within this context, the process exits soon after its parent has ended; for the main thread."""
    parent = os.getppid()

    def look(*_: object) -> None:
        if os.getppid() != parent:
            os._exit(0)

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_EVERY, LOOK_EVERY)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
