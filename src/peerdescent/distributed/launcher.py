"""Start the processes of a run: this one becomes rank 0 of local workers, or joins those that torchrun started."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import time
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from torch.distributed import DistError, TCPStore  # type: ignore[attr-defined]

from peerdescent._util.validation import check_for_machine
from peerdescent.distributed.authentication import Token, random_token
from peerdescent.distributed.faults import Faults, with_restarts
from peerdescent.distributed.gloo import CONNECT_TIMEOUT
from peerdescent.distributed.process_group import ProcessGroup
from peerdescent.distributed.rendezvous import LOCALHOST, join, join_torchrun, local_store
from peerdescent.distributed.shared_memory import shared_memory_folder
from peerdescent.distributed.torchrun import under_torchrun
from peerdescent.distributed.worker_process import Environment, prepare_worker, start_worker
from peerdescent.errors import DivergedError, InputError, PeerdescentError, PeerLostError, RankError, StoppedError

EXIT_TIMEOUT = 5.0
"""Seconds that a worker has to exit by itself after the run."""
RANK_ZERO_TIMEOUT = 30.0
"""Seconds that rank 0 has to report what went wrong."""
LOCAL_JOIN_TIMEOUT = timedelta(minutes=10)
"""Many interpreters start slowly on few cores, and here a worker that dies is noticed at once."""
STOPPED_CODE = 128 + signal.SIGINT
Job = Callable[..., object]
T = TypeVar("T")


def launch(
    rank_zero: Callable[[ProcessGroup, int], T], job: Job, arguments: tuple[Any, ...], workers: int, faults: Faults
) -> T:
    """Call rank_zero(group, attempt) here, and job(group, attempt, *arguments) in local workers; returns its result.

    With faults.on_loss = "restart", a loss starts all processes again with the next attempt: 0, 1, 2, …

    Args:
        rank_zero: what this process does.
        job: what each worker does: the same operations on the group in the same order. It is pickled.
        arguments: more arguments of the job. They are pickled.
        workers: how many processes there are, this one included; one process needs no worker.
        faults: what to do when a process is lost.

    >>> launch(lambda group, attempt: (group.size, attempt), print, (), 1, Faults())
    (1, 0)
    """
    check_for_machine("workers", workers)
    if workers == 1:
        return rank_zero(ProcessGroup.single(), 0)
    return with_restarts(faults, lambda attempt: _launch_once(rank_zero, job, arguments, workers, attempt))


def _launch_once(
    rank_zero: Callable[[ProcessGroup, int], T], job: Job, arguments: tuple[Any, ...], count: int, attempt: int
) -> T:
    with workers(count, job, attempt, *arguments) as group:
        return rank_zero(group, attempt)


@contextlib.contextmanager
def workers(count: int, job: Job, *arguments: Any) -> Iterator[ProcessGroup]:
    """A group of `count` processes on this machine; all but this one call job(group, *arguments).

    The job and its arguments are pickled. This process must do the same operations in the same order.
    """
    store, token = local_store(), random_token()
    started: list[BaseProcess] = []
    with shared_memory_folder() as memory, _ended(started):
        for rank in range(1, count):
            started.append(_start(rank, count, store.port, token, memory, job, arguments))
        with joined(join(store, 0, count, token, LOCAL_JOIN_TIMEOUT, lambda: _check_alive(started))) as group:
            group.shared_folder = memory
            yield group
        for rank, child in enumerate(started, 1):
            if rank in group.lost():  # a stopped process would not exit by itself
                child.kill()
            child.join(EXIT_TIMEOUT)


def _start(
    rank: int, count: int, port: int, token: Token, memory: Path | None, job: Job, arguments: tuple[Any, ...]
) -> BaseProcess:
    try:
        return start_worker(_work, Environment(), rank, count, port, token, memory, job, arguments)
    except (pickle.PicklingError, AttributeError, TypeError, RuntimeError) as error:
        raise InputError(
            f"the job cannot be sent to other processes ({error}): define everything it uses at the top level of a "
            "module, or start the processes with torchrun."
        ) from error


@contextlib.contextmanager
def _ended(started: list[BaseProcess]) -> Iterator[None]:
    """End all processes that were started here."""
    try:
        yield
    finally:
        for child in started:
            if child.is_alive():
                child.kill()
                child.join()


@contextlib.contextmanager
def joined(group: ProcessGroup) -> Iterator[ProcessGroup]:
    """A group to work in; the others learn of the error that this process ends with, and theirs is raised here."""
    clean = False
    try:
        yield group
        clean = True
    except StoppedError:
        clean = True  # all processes end with it
        raise
    except PeerLostError as error:
        if not group.cut_off:
            group.raise_failure()  # it tells why the other process ended
        raise group.name_lost(error) from error
    except PeerdescentError as error:
        group.record_failure(error)
        clean = isinstance(error, DivergedError)  # all processes end with it
        raise
    except KeyboardInterrupt:
        failure = PeerdescentError("it was stopped.")
        failure.exit_code = STOPPED_CODE
        group.record_failure(failure)
        raise
    except BaseException as error:
        group.record_failure(PeerdescentError(f"{type(error).__name__}: {error}"))
        raise
    finally:
        group.close(clean)


@contextlib.contextmanager
def torchrun() -> Iterator[ProcessGroup | None]:
    """The group of processes that torchrun started; None if it did not start this one.

    Only rank 0 reports errors; the others end with the same exit code.
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
            _exit_after_rank_zero(group, error.exit_code)
        raise
    except StoppedError as error:
        if not group.is_rank_zero:
            _exit_after_rank_zero(group, error.exit_code)
        raise
    finally:
        if group.is_rank_zero:
            with contextlib.suppress(RuntimeError):
                group.entries.set("ended", True)


def _exit_after_rank_zero(group: ProcessGroup, code: int) -> NoReturn:
    """Exit once rank 0 has: torchrun stops all processes as soon as one fails, and rank 0 must report the error."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: os._exit(code))
    end = time.monotonic() + RANK_ZERO_TIMEOUT
    with contextlib.suppress(RuntimeError):
        while time.monotonic() < end and group.entries.find("ended") is None:
            time.sleep(0.05)
        time.sleep(1)  # rank 0 prints after it has left the group
    os._exit(code)


def _check_alive(started: list[BaseProcess]) -> None:
    for rank, process in enumerate(started, 1):
        if process.exitcode is not None:
            reason = f"it exited during start-up with exit code {process.exitcode}"
            raise PeerLostError({rank: reason}, f"the run has lost process {rank}: {reason}.")


def _work(
    _: Environment,
    rank: int,
    count: int,
    port: int,
    token: Token,
    memory: Path | None,
    job: Job,
    arguments: tuple[Any, ...],
) -> None:
    prepare_worker()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # sent to all processes of a job, the parent stops them together
    warnings.simplefilter("ignore")  # the parent shows them
    try:
        store = TCPStore(LOCALHOST, port, is_master=False, timeout=CONNECT_TIMEOUT)
        with joined(join(store, rank, count, token, LOCAL_JOIN_TIMEOUT)) as group:
            group.shared_folder = memory
            job(group, *arguments)
    except (PeerdescentError, StoppedError) as error:
        os._exit(error.exit_code)  # rank 0 finds the message in the store
    except DistError:  # the parent serves the store, and has ended
        os._exit(PeerdescentError.exit_code)
