"""What several test files share: the command line, in this process or in one of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import settings
from tests.support.commands import PATIENCE, Command, Said

from peerdescent.algorithms import registry
from peerdescent.cli import main as cli
from peerdescent.experiments import run as running

# Continuous integration repeats the same examples; at a desk every run looks for new ones.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")

# What a script starts in the background ignores interrupts, and so does all that it starts: the commands that tests
# interrupt would run for ever.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Groups that one worker runs whole come first; at the end of the suite the others would wait for them."""
    items.sort(key=lambda item: item.get_closest_marker("xdist_group") is None)


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


@pytest.fixture
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of our own, so that what was measured elsewhere plays no part."""
    monkeypatch.setenv("PEERDESCENT_CACHE", str(tmp_path_factory.getbasetemp() / "cache"))


@pytest.fixture
def undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures, which take longer than the runs."""
    monkeypatch.setattr(running, "_draw", lambda *_: None)
