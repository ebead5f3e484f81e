"""Local processes for a run: this one becomes rank 0, the others are started here and end with it."""

from __future__ import annotations

import contextlib
import ctypes
import multiprocessing
import os
import pickle
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn

from torch.distributed import TCPStore  # type: ignore[attr-defined]

from peerdescent.distributed.exchange import PeerLostError
from peerdescent.distributed.process_group import ProcessGroup, RankError
from peerdescent.distributed.rendezvous import HERE, join, join_torchrun, under_torchrun
from peerdescent.distributed.shared_memory import shared_memory_folder
from peerdescent.errors import DivergedError, InputError, PeerdescentError

GRACE = 5.0
"""Seconds that a process has to end by itself after the run."""
LAST_WORDS = 30.0
"""Seconds that rank 0 has to say what went wrong."""
SLOW_START = timedelta(minutes=10)
"""Many interpreters on few processors take long to start, and here one sees whether they live."""
Job = Callable[..., object]


@contextlib.contextmanager
def workers(count: int, job: Job, *arguments: Any) -> Iterator[ProcessGroup]:
    """A group of `count` processes on this machine; all but this one call job(group, *arguments).

    The job and its arguments are pickled. This process must do the same things in the same order.
    """
    store = TCPStore(HERE, 0, is_master=True, wait_for_workers=False, timeout=timedelta(seconds=30))
    context = multiprocessing.get_context("spawn")
    started: list[BaseProcess] = []
    with shared_memory_folder() as memory, _ended(started):
        for rank in range(1, count):
            place = rank, count, store.port, os.getpid(), memory
            process = context.Process(target=_work, args=(*place, job, arguments))
            try:
                process.start()
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                raise InputError(
                    f"what is to be trained cannot be sent to other processes ({error}): define it at the top level of "
                    "a module, or start the processes by torchrun."
                ) from error
            started.append(process)
        with joined(join(store, 0, count, SLOW_START, lambda: _look_after(started))) as group:
            group.shared_folder = memory
            yield group
        for rank, child in enumerate(started, 1):
            if rank in group.lost():  # it may have stopped, and would not hear that it should end
                child.kill()
            child.join(GRACE)


@contextlib.contextmanager
def _ended(started: list[BaseProcess]) -> Iterator[None]:
    """Nothing that was started here lives on."""
    try:
        yield
    finally:
        for child in started:
            if child.is_alive():
                child.terminate()
                child.join(GRACE)
            if child.is_alive():  # a stopped process does not hear that it should end
                child.kill()
                child.join()


@contextlib.contextmanager
def joined(group: ProcessGroup) -> Iterator[ProcessGroup]:
    """A group to work in; what this process ends with is left for the others, and what they ended with is raised."""
    clean = False
    try:
        yield group
        clean = True
    except PeerLostError as error:
        if not group.cut_off:
            group.raise_failure()  # it says why the other is gone
        raise group.verdict(error) from error
    except PeerdescentError as error:
        group.record_failure(error)
        clean = isinstance(error, DivergedError)  # all of them end with it
        raise
    except BaseException as error:
        group.record_failure(PeerdescentError(f"{type(error).__name__}: {error}"))
        raise
    finally:
        group.close(clean)


@contextlib.contextmanager
def torchrun() -> Iterator[ProcessGroup | None]:
    """The processes that torchrun started this one among; None where it did not.

    What goes wrong is said by rank 0 alone; the others end with the same exit code.
    """
    if not under_torchrun():
        yield None
        return
    group = join_torchrun()
    if not group.is_rank_zero:
        warnings.simplefilter("ignore")
    try:
        with joined(group):
            yield group
    except PeerdescentError as error:
        if not group.is_rank_zero and (isinstance(error, RankError) or not group.abandoned):
            _linger(group, error.exit_code)
        raise
    finally:
        if group.is_rank_zero:
            with contextlib.suppress(RuntimeError):
                group.store.set("ended", "")


def _linger(group: ProcessGroup, code: int) -> NoReturn:
    """End after rank 0, with an exit code: torchrun stops all others as soon as one fails, and rank 0 is to speak."""
    signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
    end = time.monotonic() + LAST_WORDS
    with contextlib.suppress(RuntimeError):
        while time.monotonic() < end and not group.store.check(["ended"]):
            time.sleep(0.05)
        time.sleep(1)  # what rank 0 prints comes after it has left
    os._exit(code)


def end_with(parent: int) -> None:
    """Let this process die with its parent: if that is killed, its workers must not go on writing."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)


def _look_after(started: list[BaseProcess]) -> None:
    for rank, process in enumerate(started, 1):
        if process.exitcode is not None:
            why = f"it ended at its start with exit code {process.exitcode}"
            raise PeerLostError({rank: why}, f"the run has lost process {rank}: {why}.")


def _work(
    rank: int, count: int, port: int, parent: int, memory: Path | None, job: Job, arguments: tuple[Any, ...]
) -> None:
    end_with(parent)
    warnings.simplefilter("ignore")  # the parent says them
    try:
        store = TCPStore(HERE, port, is_master=False, timeout=timedelta(seconds=30))
        with joined(join(store, rank, count, SLOW_START)) as group:
            group.shared_folder = memory
            job(group, *arguments)
    except PeerdescentError as error:
        os._exit(error.exit_code)  # rank 0 has found the sentence in the store
