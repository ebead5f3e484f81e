"""From C source to a shared library, with the local compiler, cached in the user's cache folder."""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from peerdescent._util.cache import cache_folder

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


class CompilerError(RuntimeError):
    """There is no compiler, or it failed: use the eager step."""


def find_compiler() -> str:
    """The path of the C compiler: $CC, cc, gcc or clang."""
    for name in (os.environ.get("CC", ""), "cc", "gcc", "clang"):
        if name and (path := shutil.which(name)):
            return path
    raise CompilerError("no C compiler found (looked for $CC, cc, gcc, clang)")


@functools.cache
def load(text: str) -> ctypes.CDLL:
    """The shared library for this source, compiled unless it is in the cache.

    >>> load("long twice(long a) { return 2 * a; }").twice(21)
    42
    """
    compiler = find_compiler()
    identity = "\n".join([text, compiler, *FLAGS, _machine()])
    target = cache_folder() / f"{hashlib.sha256(identity.encode()).hexdigest()[:24]}.so"
    if not target.exists():
        _compile(compiler, text, target)
    try:
        return ctypes.CDLL(str(target))
    except OSError:  # a damaged file in the cache: compile it again
        _compile(compiler, text, target)
    try:
        return ctypes.CDLL(str(target))
    except OSError as error:
        raise CompilerError(f"the library that {compiler} made cannot be loaded: {error}") from error


def _compile(compiler: str, text: str, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        source, made = Path(folder, "kernel.c"), Path(folder, "kernel.so")
        source.write_text(text)
        command = [compiler, *FLAGS, "-o", str(made), str(source), "-lm"]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise CompilerError(f"{compiler} cannot be run: {error.strerror}") from error
        if done.returncode or not made.exists():
            reason = (done.stderr.strip() or "it produced no output").splitlines()[0]
            raise CompilerError(f"{compiler} failed: {reason}")
        made.replace(target)  # a rename is atomic: another process never sees a partial library


@functools.cache
def _machine() -> str:
    """What -march=native depends on: different hosts may share a home folder."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line for line in lines if line.startswith(("flags", "Features")))
    except (OSError, StopIteration):
        return f"{platform.machine()} {platform.processor()} {platform.node()}"
