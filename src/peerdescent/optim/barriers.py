"""Which threads are in torch.distributed.barrier(): another process may wait for their next step meanwhile.

The stack of a thread would tell, too, but CPython 3.11 can crash when one thread walks the frames of another.
"""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any

import torch.distributed as dist

_calls = itertools.count(1)
_inside: dict[int, int] = {}
"""The call in which each thread is."""


def call_in(thread_id: int) -> int | None:
    """Which call of a barrier for all processes a thread is in; None if it is in none."""
    return _inside.get(thread_id)


def watch() -> None:
    """From now on, know the calls of `torch.distributed.barrier`; a program that has imported the name keeps its own.

    >>> watch()
    >>> first = dist.barrier
    >>> watch()
    >>> dist.barrier is first, first.__name__
    (True, 'barrier')
    """
    if hasattr(dist.barrier, "watched_by_peerdescent"):
        return
    wrapped = _watched(dist.barrier)
    dist.barrier = dist.distributed_c10d.barrier = wrapped


def _watched(barrier: Any) -> Any:
    @functools.wraps(barrier)
    def watched(group: dist.ProcessGroup | None = None, *arguments: Any, **options: Any) -> Any:
        if group is not None and group is not dist.group.WORLD:
            return barrier(group, *arguments, **options)
        thread = threading.get_ident()
        _inside[thread] = next(_calls)
        try:
            return barrier(group, *arguments, **options)
        finally:
            del _inside[thread]

    watched.watched_by_peerdescent = True  # type: ignore[attr-defined]
    return watched
