"""Optional dependencies: a missing one ends with a sentence that says how to install it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from peerdescent.errors import InputError


@contextmanager
def needed_for(purpose: str, extra: str = "report") -> Iterator[None]:
    """Import optional packages inside this block; a missing one raises InputError.

    Args:
        purpose: what needs the packages, in the plural.
        extra: the optional dependency group that holds them.

    >>> with needed_for("figures"):
    ...     import no_such_package
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: figures need no_such_package: pip install 'peerdescent[report]'.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(_missing(purpose, (error.name or "a package").partition(".")[0], extra)) from error


def require(package: str, purpose: str, extra: str = "report") -> None:
    """Raise InputError if a package is missing, before any work that would be lost without it.

    >>> require("no_such_package", "figures")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: figures need no_such_package: pip install 'peerdescent[report]'.
    """
    if not installed(package):
        raise InputError(_missing(purpose, package, extra))


def installed(package: str) -> bool:
    """Whether a package can be imported; it is not imported.

    >>> installed("json"), installed("no_such_package")
    (True, False)
    """
    try:
        return find_spec(package) is not None
    except ValueError:  # disabled through sys.modules
        return False


def _missing(purpose: str, package: str, extra: str) -> str:
    return f"{purpose} need {package}: pip install 'peerdescent[{extra}]'."
