"""What a child of the fuzzer does: prepare its case, lock itself in, run it, and end like a program."""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import hashlib
import io
import json
import os
import resource
import signal
import stat
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import NoReturn

from tests.support.fuzz.cases import Case, Place

MEMORY = 4 << 30
NOT_PREPARED = 99
"""The exit code of a case whose files could not be made: a bug of the fuzzer."""
RUNNING = "running"
"""The file that says that the case itself runs."""
STRIKES = (signal.SIGINT, signal.SIGTERM)
"""Signals that mean the command: what comes before and after it is the fuzzer's."""
NEW_MOUNTS, BIND, PRIVATE_BELOW = 0x00020000, 0x1000, (1 << 18) | (1 << 14)


def run_case(case: Case, place: Place) -> NoReturn:
    """In a forked child: run a case and end the process with its exit code."""
    os.setsid()
    signal.pthread_sigmask(signal.SIG_BLOCK, STRIKES)
    code = NOT_PREPARED
    try:
        _redirect(place)
        case.prepare(place)
        (place.root / "before.json").write_text(json.dumps(contents(place)))
        _lock_in(case, place)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, STRIKES)
        (place.root / RUNNING).touch()
        if case.real:
            os.execve(sys.executable, [sys.executable, "-m", "peerdescent", *case.argv], dict(os.environ))
        code = _call_python(case.code) if case.code else _call_command(case)
        signal.pthread_sigmask(signal.SIG_BLOCK, STRIKES)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(code)


def _redirect(place: Place) -> None:
    """Output goes to files, input comes from nowhere."""
    for number, path in enumerate(("/dev/null", place.root / "stdout", place.root / "stderr")):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    sys.stdin = io.TextIOWrapper(io.BufferedReader(io.FileIO(0, closefd=False)), encoding="utf-8")
    sys.stdout, sys.stderr = (
        io.TextIOWrapper(io.BufferedWriter(io.FileIO(number, "w", closefd=False)), "utf-8", "backslashreplace")
        for number in (1, 2)
    )
    faulthandler.enable(sys.stderr)


def _lock_in(case: Case, place: Place) -> None:
    """The case's own environment, folder, shared memory and limits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    private_memory(place.memory)
    variables = place.environment(case.environment)
    os.environ.clear()
    os.environ.update(variables)
    tempfile.tempdir = None  # found anew from the case's own variables
    os.chdir(place.here)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (case.largest_file, case.largest_file))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def private_memory(folder: Path) -> bool:
    """Show a folder as /dev/shm to this process and its children; False where only the administrator may."""
    libc = ctypes.CDLL(None, use_errno=True)
    try:
        return (
            libc.unshare(NEW_MOUNTS) == 0
            and libc.mount(b"none", b"/", None, PRIVATE_BELOW, None) == 0
            and libc.mount(os.fsencode(folder), b"/dev/shm", None, BIND, None) == 0
        )
    except AttributeError:  # not Linux
        return False


def _call_command(case: Case) -> int:
    """The exit code of a command, in this process."""
    from peerdescent.cli.main import main
    from peerdescent.experiments import run as running

    if not case.drawn and hasattr(running, "_draw"):
        running._draw = lambda *_: None
    sys.argv = ["peerdescent", *case.argv]
    try:
        main()
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _call_python(code: str) -> int:
    """0 if the code ends well, with an error of peerdescent, or with a call that Python itself refuses."""
    from peerdescent.errors import PeerdescentError

    scope = {"__name__": "case"}
    try:
        exec(compile(code, "<case>", "exec"), scope)
    except PeerdescentError as error:
        print(f"{type(error).__name__}: {error}")
    except TypeError as error:
        last = error.__traceback__
        while last is not None and last.tb_next is not None:
            last = last.tb_next
        if last is None or last.tb_frame.f_code.co_filename != "<case>":
            traceback.print_exc()
            return 1
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def contents(place: Place) -> dict[str, str]:
    """Every file and folder of a case, with what it is or a digest of it."""
    found: dict[str, str] = {}
    for folder, folders, names in os.walk(place.root):
        for name in (*folders, *names):
            path = Path(folder, name)
            found[str(path.relative_to(place.root))] = _seen(path)
    return found


def _seen(path: Path) -> str:
    kind = path.lstat()
    if stat.S_ISREG(kind.st_mode):
        return hashlib.sha1(path.read_bytes()).hexdigest() if kind.st_size < 1 << 24 else f"{kind.st_size} bytes"
    return f"link to {os.readlink(path)}" if stat.S_ISLNK(kind.st_mode) else stat.filemode(kind.st_mode)[0]
