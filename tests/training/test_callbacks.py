"""Callbacks: what they are told, in which order, and what they may add."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

from peerdescent import Callback, DivergedError, train
from peerdescent.training import checkpoints
from peerdescent.training.loop import Run


class Told(Callback):
    """Everything that it is told, in order."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []

    def on_start(self, run: Run) -> None:
        self.events.append(("start", run.k))

    def on_iteration(self, run: Run) -> None:
        self.events.append(("iteration", run.k))

    def on_evaluation(self, run: Run, row: dict[str, Any]) -> None:
        self.events.append(("evaluation", run.k, row["iteration"]))

    def on_checkpoint(self, run: Run, path: Path) -> None:
        self.events.append(("checkpoint", run.k, path.is_file()))

    def on_end(self, run: Run, result: Any) -> None:
        self.events.append(("end", run.k, result.diverged))


def test_every_event_comes_in_order(tmp_path: Path) -> None:
    told = Told()
    train("quadratic", "ring:3", "d2", iterations=4, eval_every=2, out=tmp_path / "a", callbacks=[told])
    assert told.events == [
        ("start", 0),
        ("evaluation", 0, 0),
        ("iteration", 1),
        ("iteration", 2),
        ("evaluation", 2, 2),
        ("iteration", 3),
        ("iteration", 4),
        ("evaluation", 4, 4),
        ("checkpoint", 4, True),
        ("end", 4, False),
    ]


def test_callbacks_change_no_number() -> None:
    one = train("quadratic", "ring:5", "dsgpa-t-pb", iterations=250)
    two = train("quadratic", "ring:5", "dsgpa-t-pb", iterations=250, callbacks=[Told()])
    assert torch.equal(one.x, two.x)
    assert [row["loss"] for row in one.metrics] == [row["loss"] for row in two.metrics]


def test_the_state_is_that_of_the_iteration() -> None:
    points: list[torch.Tensor] = []

    class Keep(Callback):
        def on_start(self, run: Run) -> None:
            points.append(run.state["x"].clone())

        def on_iteration(self, run: Run) -> None:
            points.append(run.state["x"].clone())

    train("quadratic", "ring:3", "d-sgd-1", iterations=6, callbacks=[Keep()])
    for k in range(7):
        assert torch.equal(points[k], train("quadratic", "ring:3", "d-sgd-1", iterations=k).x)


def test_a_number_that_is_added_to_a_row_is_recorded(tmp_path: Path) -> None:
    class Distance(Callback):
        def on_evaluation(self, run: Run, row: dict[str, Any]) -> None:
            row["largest"] = float(run.state["x"].abs().max())

    result = train("quadratic", "ring:3", "d2", iterations=4, out=tmp_path / "a", callbacks=[Distance()])
    assert '"largest"' in (tmp_path / "a" / "metrics.jsonl").read_text()
    assert result.metrics["largest"][-1] == float(result.x.abs().max())


def test_a_resumed_run_starts_where_it_was(tmp_path: Path) -> None:
    told = Told()
    train("quadratic", "ring:3", "d2", iterations=3, out=tmp_path / "a")
    train("quadratic", "ring:3", "d2", iterations=5, out=tmp_path / "a", resume=True, callbacks=[told])
    assert told.events[0] == ("start", 3)
    assert ("iteration", 3) not in told.events


def test_a_run_that_diverges_ends_too() -> None:
    told = Told()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(DivergedError):
            train(
                "quadratic",
                "ring:3",
                "d-sgd-1",
                iterations=3000,
                callbacks=[told],
                **{"eval_every": 1000},
                x0=torch.full((3, 10), 1e38),
            )
    assert told.events[-1][0] == "end"
    assert told.events[-1][2] is True


def test_checkpoints_by_the_clock_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    told = Told()
    train("quadratic", "ring:3", "d2", iterations=250, eval_every=250, out=tmp_path / "a", callbacks=[told])
    assert [event[1] for event in told.events if event[0] == "checkpoint"] == [100, 200, 250, 250]
