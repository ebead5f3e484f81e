"""A case: a command or a piece of Python, its files and environment, and what must hold when it has ended."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

LONGEST_SHOWN = 160


@dataclass(frozen=True)
class Place:
    """The folders of one case: everything it writes must stay in here."""

    root: Path
    bases: Path
    """Run folders and a filled kernel cache that cases copy."""

    @property
    def here(self) -> Path:
        """The working directory."""
        return self.root / "here"

    @property
    def cache(self) -> Path:
        """The cache of peerdescent."""
        return self.root / "cache"

    @property
    def temporary(self) -> Path:
        """What $TMPDIR names."""
        return self.root / "tmp"

    @property
    def memory(self) -> Path:
        """What the case sees as /dev/shm."""
        return self.root / "shm"

    def make(self) -> None:
        """Create the folders."""
        for name in ("here", "home", "cache", "tmp", "shm"):
            (self.root / name).mkdir(parents=True)

    def environment(self, changes: Mapping[str, str | None]) -> dict[str, str]:
        """The whole environment of the case; None removes a variable."""
        base = {
            "PATH": os.environ.get("PATH", os.defpath),
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            "LANG": "C.UTF-8",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.temporary),
            "PEERDESCENT_CACHE": str(self.cache),
            "MPLCONFIGDIR": str(self.bases / "matplotlib"),
            "MPLBACKEND": "Agg",
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "PYTHONFAULTHANDLER": "1",
            "TYPER_STANDARD_TRACEBACK": "1",
        }
        named = {key: value.replace("{root}", str(self.root)) for key, value in changes.items() if value is not None}
        return {key: value for key, value in {**base, **named}.items() if changes.get(key, "") is not None}


@dataclass(frozen=True)
class Ended:
    """How a case ended."""

    place: Place
    code: int
    """The exit code, or minus the number of the signal."""
    out: str = ""
    err: str = ""
    seconds: float = 0.0
    used: float = 0.0
    """Seconds of processor time."""
    hung: bool = False
    before: Mapping[str, str] = field(default_factory=dict)
    """What lay in the case's folder when it began, with a digest of each file."""
    after: Mapping[str, str] = field(default_factory=dict)
    alive: tuple[int, ...] = ()
    """Processes that outlived it."""

    @property
    def notes(self) -> set[str]:
        """What the command warned of."""
        return {line for line in self.err.splitlines() if line.startswith("note: ")}


def nothing(place: Place) -> None:
    """Prepare no files."""


def no_check(ended: Ended) -> str | None:
    """Ask for nothing beyond what holds for all cases."""
    return None


@dataclass(frozen=True)
class Case:
    """One command (`argv`) or piece of Python (`code`)."""

    kind: str
    argv: tuple[str, ...] = ()
    code: str = ""
    environment: Mapping[str, str | None] = field(default_factory=dict)
    prepare: Callable[[Place], None] = nothing
    """Makes the files of the case; it is called in the child, before anything is limited."""
    check: Callable[[Ended], str | None] = no_check
    """Says what is wrong with the result of a case that ended well."""
    remark: str = ""
    """What was done to the files, for the report."""
    real: bool = False
    """Start a new interpreter, as a user would, instead of a fork of this one."""
    drawn: bool = False
    """Draw figures, which take longer than the runs."""
    largest_file: int = 256 << 20
    strike: tuple[int, float] | None = None
    """A signal that the case gets, and after how many seconds."""
    codes: frozenset[int] = frozenset()
    """Exit codes that are right here, besides those that always are."""

    @property
    def shown(self) -> str:
        """The case as a person would type it."""
        variables = [f"{name}={_brief(value)}" for name, value in self.environment.items() if value is not None]
        words = [*variables, "peerdescent", *(_brief(word) for word in self.argv)]
        line = _brief(self.code, 400) if self.code else " ".join(map(shlex.quote, words))
        return line + (f"  # {self.remark}" if self.remark else "")


def _brief(text: str, most: int = LONGEST_SHOWN) -> str:
    """A text on one line, without what a terminal cannot show."""
    text = text if len(text) <= most else f"{text[:most]}…({len(text)} characters)"
    return "".join(c if c.isprintable() else c.encode("unicode_escape", "backslashreplace").decode() for c in text)
