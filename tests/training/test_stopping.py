"""Ctrl-C and SIGTERM: a run that keeps records saves its state, and goes on later as if nothing had happened."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support import process_runs
from tests.support.commands import Command, rows

from peerdescent import Callback, Result, train
from peerdescent.cli import display
from peerdescent.errors import StoppedError
from peerdescent.training import loop
from peerdescent.training.loop import Run

pytestmark = pytest.mark.xdist_group("processes")  # its processes are started once


class Signal(Callback):
    """Sends a signal to this process after some iterations, several times if asked to."""

    def __init__(self, at: int, number: int = signal.SIGINT, times: int = 1) -> None:
        self.at, self.number, self.times = at, number, times

    def on_iteration(self, run: Run) -> None:
        if run.k == self.at:
            for _ in range(self.times):
                signal.raise_signal(self.number)


def run(out: Path | None, *callbacks: Callback, **settings: Any) -> Result:
    chosen = {"iterations": 250, "batch_size": 4, "eval_every": 100, "gradients": "loop", "out": out, **settings}
    return train(process_runs.network(4), "ring:4", "dsgpa-f-pb", callbacks=callbacks, **chosen)


def summary(folder: Path) -> dict[str, Any]:
    return json.loads((folder / "summary.json").read_text())


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.e2e)])
def test_stopped_and_resumed_it_is_the_undisturbed_run(workers: int, tmp_path: Path) -> None:
    undisturbed, handler = run(tmp_path / "a"), signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt, match=r"stopped at iteration \d+; resume=True continues"):
        run(tmp_path / "b", Signal(at=137), workers=workers)
    assert signal.getsignal(signal.SIGINT) is handler
    ended = summary(tmp_path / "b")
    assert (ended["status"], ended["diverged"]) == ("stopped", False)
    assert ended["iteration"] == 137 or (workers > 1 and 137 < ended["iteration"] <= 237)
    evaluated = [row["iteration"] for row in rows(tmp_path / "b")]
    assert ("loss" in ended) == (ended["iteration"] in evaluated)  # no numbers of an earlier iteration
    assert (tmp_path / "b" / "checkpoints" / f"{ended['iteration']:012d}{'.safetensors' * (workers == 1)}").exists()
    resumed = run(tmp_path / "b", resume=True, workers=workers)
    assert torch.equal(resumed.x, undisturbed.x)
    assert rows(tmp_path / "b") == rows(tmp_path / "a")
    assert "status" not in summary(tmp_path / "b")


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt) as stopped:
        run(tmp_path / "a", Signal(at=137, times=2))
    assert not isinstance(stopped.value, StoppedError)
    assert not (tmp_path / "a" / "summary.json").exists()
    assert torch.equal(run(tmp_path / "a", resume=True).x, run(None).x)


def test_without_records_it_ends_at_once() -> None:
    with pytest.raises(KeyboardInterrupt):
        run(None, Signal(at=137))


def test_a_signal_in_the_last_iteration_is_not_lost(tmp_path: Path) -> None:
    """A comparison must not go on with the next method."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "a", Signal(at=250))
    assert summary(tmp_path / "a")["iteration"] == 250
    assert "status" not in summary(tmp_path / "a")


class Handlers(Callback):
    """The handlers during a run."""

    def on_progress(self, run: Run) -> None:
        self.seen = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]


def test_only_what_python_or_the_command_line_has_installed_is_replaced(tmp_path: Path) -> None:
    mine, seen = (lambda *_: None), Handlers()
    run(tmp_path / "a", seen)
    assert seen.seen[0] is not signal.default_int_handler
    assert seen.seen[1] is signal.SIG_DFL
    before = signal.signal(signal.SIGINT, mine)
    try:
        run(tmp_path / "b", seen)
    finally:
        assert signal.signal(signal.SIGINT, before) is mine
    assert seen.seen[0] is mine
    thread = threading.Thread(target=run, args=(tmp_path / "c", seen))
    thread.start()
    thread.join()
    assert seen.seen[0] is before


# ---- The command line -----------------------------------------------------------------------------------------

QUADRATIC = ["--problem", "quadratic", "--graph", "ring:4", "--iterations", 2000, "--eval-every", 500]


@pytest.fixture
def interrupted(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Sends a signal when a method has done 600 iterations."""

    def arrange(number: int) -> None:
        def on_progress(self: object, run: Run) -> None:
            if run.k == 600:
                signal.raise_signal(number)

        monkeypatch.setattr(display.ProgressBar, "on_progress", on_progress)

    return arrange


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_command_says_how_to_go_on(
    number: int, code: int, interrupted: Any, peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted(number)
    before = signal.getsignal(signal.SIGTERM)
    stopped = peerdescent_("run", *QUADRATIC, "-a", "d2", "--out", "my runs/a")
    assert stopped.code == code
    assert stopped.sentences == [
        "peerdescent: stopped at iteration 601; continue with: peerdescent run 'my runs/a' --resume"
    ]
    assert signal.getsignal(signal.SIGTERM) is before
    assert summary(here / "my runs" / "a")["status"] == "stopped"
    monkeypatch.undo()
    monkeypatch.chdir(here)
    resumed = peerdescent_("run", "my runs/a", "--resume")
    assert resumed.code == 0, resumed.err
    assert summary(here / "my runs" / "a")["iteration"] == 2000


def test_a_comparison_stops_as_a_whole(interrupted: Any, peerdescent_: Command, here: Path) -> None:
    interrupted(signal.SIGINT)
    stopped = peerdescent_("compare", *QUADRATIC, "-a", "d2", "-a", "d-sgd-1", "--out", "b")
    assert stopped.code == 130
    assert stopped.sentences == ["peerdescent: stopped at iteration 601; continue with: peerdescent compare b --resume"]
    assert not (here / "b" / "d-sgd-1").exists()


def test_a_command_that_has_recorded_nothing_says_so(
    peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loop, "make_update", lambda *_: signal.raise_signal(signal.SIGTERM))
    stopped = peerdescent_("run", *QUADRATIC, "-a", "d2", "--out", "c")
    assert stopped.code == 143
    assert stopped.sentences == ["peerdescent: stopped; nothing is recorded yet, the same command starts again."]


def test_tuning_stops_as_a_whole(peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "make_update", lambda *_: signal.raise_signal(signal.SIGINT))
    stopped = peerdescent_("tune", *QUADRATIC, "-a", "d2", "-a", "d-sgd-1", "--jobs", 1, "--out", "d")
    assert stopped.code == 130
    assert stopped.sentences == ["peerdescent: stopped; the same command with --out d --resume continues."]
