"""Worker processes: started fast, with the parent's environment, and never outliving it.

On Linux a fork server imports torch once per parent process; each worker is a fork of it and is ready in
milliseconds. The fork server only imports: it never runs a torch operation, since OpenMP threads do not survive a
fork.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerContext, SpawnContext
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
import torch

PRELOAD = ["peerdescent.distributed.fork_server"]
"""What every worker imports; the fork server imports it once for all."""
READ_AT_START = ("PYTHON", "LD_", "OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_", "ATEN_", "TORCH_", "PYTORCH_")
"""Prefixes of environment variables that the interpreter and libraries read when they are loaded."""
_server_environment: dict[str, str] = {}
"""The environment of this process when it started the fork server; empty before."""


def worker_context() -> ForkServerContext | SpawnContext:
    """How to start workers: from a fork server on Linux, as new interpreters elsewhere.

    A fork server has loaded its libraries already. If a variable that they read at that time has changed since,
    workers start as new interpreters, too.
    """
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    if not _server_environment:
        _server_environment.update(os.environ)
    if _read_at_start(os.environ) != _read_at_start(_server_environment):
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    return context


def _read_at_start(environment: os._Environ[str] | dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


class Environment:
    """The environment variables of this process; unpickling it in a worker sets them there.

    As the first argument of a worker's function it is set before the other arguments are unpickled, which may import
    modules that read it.
    """

    def __reduce__(self) -> tuple[object, tuple[dict[str, str]]]:
        return _set_environment, (dict(os.environ),)


def _set_environment(variables: dict[str, str]) -> Environment:
    for name in set(os.environ) - set(variables):
        del os.environ[name]
    os.environ.update(variables)
    return Environment()


def start_worker(job: Callable[..., object], *arguments: Any) -> BaseProcess:
    """Start a process that calls job(*arguments), both pickled."""
    process = worker_context().Process(target=job, args=arguments)
    with interrupts_blocked():
        try:
            process.start()
        except ValueError:  # a fork server takes at most 250 file descriptors, and each tensor needs one
            process = multiprocessing.get_context("spawn").Process(target=job, args=arguments)
            process.start()
    return process


@contextlib.contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Start processes with SIGINT blocked: Ctrl-C reaches only the parent, which ends its workers."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    resource_tracker.ensure_running()  # started meanwhile, it would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def prepare_worker() -> None:
    """Call this first in a worker: it ignores Ctrl-C, dies with its parent, and has its own random numbers."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    torch.default_generator.seed()  # forks start with the same state
    np.random.seed()  # noqa: NPY002 (the legacy generator is what forks share)
    threading.Thread(target=_die_with_parent, daemon=True, name="peerdescent-parent").start()


def _die_with_parent() -> None:
    """If the parent is killed, its workers must not go on writing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os.kill(os.getpid(), signal.SIGKILL)
