"""Ctrl-C and SIGTERM: a run that keeps records finishes its iteration first, so that it can save its state.

Handlers are installed in the main thread only, and put back. Python turns Ctrl-C into KeyboardInterrupt, and the
command line SIGTERM into StoppedError; handlers that a user has installed are left alone.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from peerdescent.errors import StoppedError


class StopRequest:
    """Whether the run was asked to stop, and by which signal."""

    signal = 0


def raise_stopped(number: int, frame: FrameType | None) -> NoReturn:
    """The command line's handler of SIGTERM."""
    raise StoppedError(number)


@contextlib.contextmanager
def terminable() -> Iterator[None]:
    """SIGTERM raises StoppedError, so that everything is cleaned up; for the command line."""
    if not _in_main_thread() or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, raise_stopped)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextlib.contextmanager
def deferred() -> Iterator[StopRequest]:
    """Note the first signal instead of raising at once, which could tear the state apart; the second one raises.

    A signal that nobody has acted on by the end is raised then.
    """
    request = StopRequest()
    if not _in_main_thread():
        yield request
        return
    ours = (signal.default_int_handler, raise_stopped)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    before = {number: handler for number, handler in before.items() if handler in ours}

    def note(number: int, frame: FrameType | None) -> None:
        if request.signal:
            _raise(number)
        request.signal = number

    for number in before:
        signal.signal(number, note)
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if request.signal:
        _raise(request.signal)


def _raise(number: int) -> NoReturn:
    raise StoppedError(number) if number != signal.SIGINT else KeyboardInterrupt


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
