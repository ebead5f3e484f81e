"""Python files that experiments load: running them, and refusing those that only a file asks for."""

from __future__ import annotations

import importlib.util
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path

from peerdescent._util.files import read_file
from peerdescent.errors import InputError, PeerdescentError

MOST_BYTES = 16 << 20
LONGEST_MESSAGE = 300


class UntrustedError(InputError):
    """An experiment file asks to run Python code, and the user has not agreed to that."""


def check_trust(paths: Sequence[str], source: str, trust: bool) -> None:
    """Refuse the `load` key of a file, which may be a stranger's, unless the user trusts it.

    >>> check_trust(["m.py"], "a.toml", trust=False)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    peerdescent.experiments.user_code.UntrustedError: a.toml loads m.py, which runs Python code: read it, then ad...
    """
    if paths and not trust:
        raise UntrustedError(
            f"{source} loads {', '.join(map(str, paths))}, which runs Python code: read it, then add --trust "
            "(in Python, trust=True)."
        )


def load_methods(path: str) -> None:
    """Run a Python file that registers the user's own methods or problems.

    Raises:
        InputError: the file cannot be read, or anything goes wrong in it; the message names the file and the line.
    """
    spec = importlib.util.spec_from_file_location(f"peerdescent_user_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(f"load = {path!r}: expected a Python file, whose name ends in .py.")
    content = read_file(Path(path), "Python file", MOST_BYTES)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)  # dataclasses look their module up
    try:
        exec(compile(content, path, "exec", dont_inherit=True), module.__dict__)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever goes wrong in a user's file, they need to know what and where
        del sys.modules[spec.name]
        raise InputError(f"load = {path!r} failed{_line(error, path)}: {_message(error)}") from error


def _line(error: BaseException, path: str) -> str:
    """Where in the file it failed: the innermost line that is in it."""
    if isinstance(error, SyntaxError) and error.filename == path:
        return f" in line {error.lineno}"
    lines = [line for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_code.co_filename == path]
    return f" in line {lines[-1]}" if lines else ""


def _message(error: BaseException) -> str:
    if isinstance(error, PeerdescentError):
        return str(error)
    lines = traceback.format_exception_only(error)  # unlike str(), it works for every exception
    text = " ".join((lines[-1] if isinstance(error, SyntaxError) else "".join(lines)).split())
    return f"{text[:LONGEST_MESSAGE]}…" if len(text) > LONGEST_MESSAGE else text
