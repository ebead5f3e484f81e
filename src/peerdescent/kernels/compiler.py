"""From C source to a function in this process, with the local compiler and a cache of what it made."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import platform
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from peerdescent.kernels import library_cache

FLAGS = (
    "-O3",
    "-funroll-loops",
    "-march=native",
    "-ffp-contract=fast",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-shared",
    "-fPIC",
)
TIMEOUT = 120.0
"""Seconds for one kernel; on an idle machine the compiler needs less than one."""


class CompilerError(RuntimeError):
    """There is no compiler, or it failed: use the eager step."""


def find_compiler() -> str:
    """The path of the C compiler: $CC, cc, gcc or clang."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise CompilerError("no C compiler found (looked for $CC, cc, gcc, clang)")


def load(text: str, symbol: str) -> Any:
    """The function of that name in this source, compiled unless it is in the cache.

    Raises:
        CompilerError: it cannot be compiled or loaded here.

    >>> load("long twice(long a) { return 2 * a; }", "twice")(21)
    42
    """
    found = _find(text, symbol, find_compiler())
    if isinstance(found, CompilerError):
        raise CompilerError(str(found))
    return found


@functools.cache
def _find(text: str, symbol: str, compiler: str) -> Any:
    """The function, or the error: a compiler that failed or timed out is not asked for the same again."""
    identity = "\n".join([text, compiler, *FLAGS, _machine()])
    with contextlib.suppress(CompilerError):  # damage that the digest cannot show: compile it again
        if (cached := library_cache.read(identity)) is not None:
            return _function(cached, symbol)
    try:
        library = _compile(compiler, text)
        function = _function(library, symbol)
    except CompilerError as error:
        return CompilerError(str(error))  # without its traceback, which would keep folders and sources alive
    library_cache.write(identity, library)
    return function


def _compile(compiler: str, text: str) -> bytes:
    """The bytes of a shared library."""
    reason = "there is no folder for temporary files"
    for folder in _work_folders():
        source, made = folder / "kernel.c", folder / "kernel.so"
        try:
            source.write_text(text)
            reason = _run([compiler, *FLAGS, "-o", str(made), str(source), "-lm"])
            if not reason:
                return made.read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
        except subprocess.TimeoutExpired:
            raise CompilerError(f"{compiler} did not finish within {TIMEOUT:g} s") from None
    raise CompilerError(f"{compiler} failed: {reason}")


def _run(command: list[str]) -> str:
    """Run the compiler; return why it failed, or an empty text."""
    with subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,  # so that the processes it starts can be ended with it
    ) as process:
        try:
            _, said = process.communicate(timeout=TIMEOUT)
        except BaseException:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    if not process.returncode and Path(command[command.index("-o") + 1]).exists():
        return ""
    lines = said.decode(errors="replace").strip().splitlines() or ["it produced no output"]
    return "".join(c if c.isprintable() else "?" for c in lines[0][:200])


def _function(library: bytes, symbol: str) -> Any:
    """The function of that name in a library, loaded from a copy that no other process can change."""
    reason = "there is no folder for temporary files"
    for folder in _work_folders():
        copy = folder / "kernel.so"
        try:
            copy.write_bytes(library)
            return getattr(ctypes.CDLL(str(copy)), symbol)
        except (OSError, AttributeError) as error:
            reason = str(error).replace(str(folder), "…").splitlines()[0][:200]
    raise CompilerError(f"the compiled library cannot be loaded: {reason}")


def _work_folders() -> Iterator[Path]:
    """Temporary folders to work in, each removed when the next is asked for: in the cache, then the system's.

    A full disk and a disk without permission to execute may spoil either of them.
    """
    for parent in (library_cache.folder(), None):
        try:
            made = tempfile.TemporaryDirectory(prefix=library_cache.TEMPORARY, dir=parent, ignore_cleanup_errors=True)
        except OSError:
            continue
        with made as folder:
            yield Path(folder)


@functools.cache
def _machine() -> str:
    """What -march=native depends on: different hosts may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
