"""What several test files share: the command line, in this process or in one of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import pytest
from hypothesis import settings

from peerdescent import cli
from peerdescent.algorithms import registry

# Continuous integration repeats the same examples; at a desk every run looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")

# What a script starts in the background ignores interrupts, and so does all that it starts: the commands that tests
# interrupt would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


PATIENCE = 300
"""Seconds after which something is taken to hang; nothing here comes near."""


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def sentences(self) -> list[str]:
        """The lines on stderr but for notes, which may stand beside an error."""
        return [line for line in self.err.splitlines() if not line.startswith("note: ")]


Command = Callable[..., Said]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to stand in."""
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def peerdescent_(here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Command]:
    """The command, in this process: a new one would spend seconds on imports. What it registers is forgotten again."""

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["peerdescent", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as end:
            cli.main()
        return Said(int(end.value.code or 0), *capsys.readouterr())

    with mock.patch.dict(registry._PRESETS):
        yield call


@pytest.fixture
def process(here: Path) -> Command:
    """The command, in a process of its own."""

    def call(*arguments: object, **options: Any) -> Said:
        command = [sys.executable, "-m", "peerdescent", *map(str, arguments)]
        done = subprocess.run(
            command, cwd=here, capture_output=True, text=True, check=False, timeout=PATIENCE, **options
        )
        return Said(done.returncode, done.stdout, done.stderr)

    return call


def rows(folder: Path) -> list[dict[str, Any]]:
    """The lines of a run's metrics but for the time they took."""
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return without_seconds([json.loads(line) for line in lines])


def without_seconds(table: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows without the one column that is different every time."""
    return [{key: value for key, value in row.items() if key != "seconds"} for row in table]


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of our own, so that what was measured elsewhere plays no part."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


def members(session: int) -> list[int]:
    """The living processes of a session, for commands that are started in one of their own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, _, _, number = stat.read_text().rpartition(")")[2].split()[:4]
        except OSError:  # it has just ended
            continue
        if int(number) == session and state != "Z":
            found.append(int(stat.parent.name))
    return found


def until(done: Callable[[], object], said: Callable[[], str] = str) -> None:
    """Return when something is done; what hangs fails, with what was said until then."""
    end = time.monotonic() + PATIENCE
    while not done():
        if time.monotonic() > end:
            pytest.fail(f"it hangs\n{said()}")
        time.sleep(0.05)
