"""Agents in several processes: the same numbers as in one, and one sentence when something goes wrong."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support import process_runs
from tests.support.chosen_methods import SOME
from tests.support.commands import rows, without_seconds

from peerdescent import InputError, Result, algorithms, train
from peerdescent.algorithms import PRESETS
from peerdescent.distributed import shared_memory
from peerdescent.distributed.launcher import workers
from peerdescent.errors import DivergedError, PeerdescentError, RankError
from peerdescent.problems import quadratic
from peerdescent.training.callbacks import Callback
from peerdescent.training.loop import Run

pytestmark = pytest.mark.xdist_group("processes")  # its processes and fixtures are started once


def test_one_method_of_each_kind_in_two_processes() -> None:
    """All in one test, so that processes start once."""
    assert_same_trajectories(2, SOME[:3])


@pytest.mark.e2e
@pytest.mark.parametrize("processes", [2, 3, 5, 10])
def test_every_method_in_any_placement(processes: int) -> None:
    assert_same_trajectories(processes)


@pytest.mark.e2e
def test_every_method_without_shared_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are sent through sockets, as between machines."""
    monkeypatch.setattr(shared_memory, "MEMORY", Path("/nowhere"))
    assert_same_trajectories(3)


def assert_same_trajectories(processes: int, names: Sequence[str] = tuple(PRESETS)) -> None:
    single = process_runs.every_method(None, names)
    with workers(processes, process_runs.every_method, names) as group:
        several = process_runs.every_method(group, names)
    for name in names:
        for variant in ("loop", "periodic", "bf16"):
            one, many = single[f"{name} {variant}"], several[f"{name} {variant}"]
            assert torch.equal(one.x, many.x), (name, variant)
            assert without_seconds(one.metrics) == without_seconds(many.metrics)
        for variant in ("stacked", "plain"):
            one, many = single[f"{name} {variant}"], several[f"{name} {variant}"]
            difference = float((one.x - many.x).abs().max() / one.x.abs().max())
            assert difference <= 1e-5, (name, variant, difference)
        assert_half_the_bytes(name, several[f"{name} loop"], several[f"{name} bf16"])


def assert_half_the_bytes(name: str, full: Result, half: Result) -> None:
    """Rounded messages take half the bytes and change the result little."""
    assert half.metrics[-1]["bytes_sent"] == full.metrics[-1]["bytes_sent"] / 2
    if name != "c-sgd":  # its mean is not a message between neighbours
        assert half.interprocess_bytes == full.interprocess_bytes / 2
        assert not torch.equal(full.x, half.x)
    assert float((full.x - half.x).abs().max()) < 0.05 * float(full.x.abs().max()), name


@pytest.mark.parametrize("name", ["dsgpa-f-pb", "dm-sgd"])
def test_only_rows_that_others_need_are_sent(name: str) -> None:
    """On a ring split in two, two rows cross in each direction for every vector that the method sends."""
    (result,) = process_runs.in_processes(2, [{"graph": "ring:8", "dimension": 5, "iterations": 30, "method": name}])
    vectors = {"dsgpa-f-pb": 1, "dm-sgd": 2}[name]
    assert result.interprocess_bytes == 30 * vectors * 2 * 2 * 5 * 4


ODD = [
    {"graph": "path:3", "dimension": 1},
    {"graph": "star:7", "dimension": 33, "method": "d-sgt-2"},
    {"graph": "complete:6", "dimension": 130, "method": "d2", "dtype": "float64"},
    {"graph": "er:50:0.1:seed=1", "dimension": 3, "method": "d-asg"},
    {"graph": "ring:70", "dimension": 2, "method": "c-sgd"},
    {"graph": "ring:3", "dimension": 4, "communication_period": 100},
    {"graph": "ring:3", "dimension": 4, "communication_period": "7,2@9", "average_every": 6, "final_average": True},
]


@pytest.mark.parametrize("processes", [3, pytest.param(7, marks=pytest.mark.e2e)])
def test_odd_sizes(processes: int) -> None:
    runs = [run for run in ODD if int(str(run["graph"]).split(":")[1]) >= processes]
    for run, many in zip(runs, process_runs.in_processes(processes, runs), strict=True):
        one = process_runs.one_run(None, **run)
        assert float((one.x - many.x).abs().max()) <= 1e-5 * float(one.x.abs().max()), run
        np.testing.assert_allclose(many.metrics["loss"], one.metrics["loss"], rtol=1e-5)


def test_a_group_of_one_is_the_same_run(tmp_path: Path) -> None:
    (result,) = process_runs.in_processes(1, [{"out": tmp_path / "a"}])
    assert torch.equal(result.x, process_runs.one_run(None).x)
    assert result.interprocess_bytes == 0


class Seen(Callback):
    """The iterations of which it was told."""

    def __init__(self) -> None:
        self.iterations: list[int] = []

    def on_progress(self, run: Run) -> None:
        self.iterations.append(run.k)


def test_train_starts_workers_itself(tmp_path: Path) -> None:
    problem = quadratic(agents=4, dimension=5, noise=1.0)
    chosen: dict[str, Any] = {"iterations": 20, "batch_size": 4, "eval_every": 5}
    seen = Seen()
    one = train(problem, "ring:4", "d-sgt-1", out=tmp_path / "one", **chosen)
    two = train(problem, "ring:4", "d-sgt-1", out=tmp_path / "two", workers=2, callbacks=[seen], **chosen)
    np.testing.assert_allclose(two.x.numpy(), one.x.numpy(), rtol=1e-5)
    assert two.processes == 2
    assert seen.iterations[-1] == 20
    assert [row["iteration"] for row in rows(tmp_path / "two")] == [0, 5, 10, 15, 20]
    assert {path.name for path in (tmp_path / "two").iterdir()} == {path.name for path in (tmp_path / "one").iterdir()}


# ---- Errors ----------------------------------------------------------------------------------------------


def test_more_processes_than_agents_are_rejected() -> None:
    with pytest.raises(InputError, match="4 processes for 3 agents"):
        train(quadratic(agents=3), "ring:3", "d-sgd-1", iterations=1, workers=4)


def test_a_job_that_cannot_be_pickled_is_rejected() -> None:
    problem = quadratic(agents=3)
    problem.secret = lambda: 0  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="cannot be sent to other processes"):
        train(problem, "ring:3", "d-sgd-1", iterations=1, workers=2)


@pytest.mark.parametrize("change", [{"seed": 3}, {"graph": "star:5"}])
def test_processes_that_differ_are_named_and_rejected(change: dict[str, Any]) -> None:
    runs = [{}, {}, change]
    with (
        pytest.raises(InputError, match=r"process 2 on .* differs from process 0 in its "),
        workers(3, process_runs.differing, runs) as group,
    ):
        process_runs.differing(group, runs)


def test_a_bug_of_another_process_ends_the_run_with_its_message(tmp_path: Path) -> None:
    with (
        pytest.raises(RankError, match="process 1: ZeroDivisionError"),
        workers(2, process_runs.failing, tmp_path) as group,
    ):
        process_runs.failing(group, tmp_path / "a")


def test_all_processes_stop_when_one_run_diverges(tmp_path: Path) -> None:
    problem, method = quadratic(agents=5, dimension=7), algorithms.make("d-sgd-1", eta=100.0)
    with pytest.raises(DivergedError) as stopped:
        train(problem, "ring:5", method, workers=2, iterations=400, eval_every=100, out=tmp_path / "a")
    assert stopped.value.result.diverged
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["diverged"] is True


# ---- Checkpoints -------------------------------------------------------------------------------------------


def checkpoints(folder: Path) -> list[Path]:
    return sorted((folder / "checkpoints").iterdir())


@pytest.mark.parametrize("method", ["dsgpa-t-pb", pytest.param("d-sgt-2", marks=pytest.mark.e2e)])
def test_any_placement_goes_on_from_any_other(method: str, tmp_path: Path) -> None:
    same = {"method": method, "eval_every": 5, "gradients": "loop"}
    shared = {**same, "out": tmp_path / "a", "resume": True}
    undisturbed = process_runs.one_run(None, iterations=40, out=tmp_path / "b", **same)
    process_runs.one_run(None, iterations=10, **shared)
    process_runs.in_processes(4, [{"iterations": 20, **shared}])
    (newest,) = [path for path in checkpoints(tmp_path / "a") if path.is_dir()]
    assert sorted(path.name for path in newest.iterdir()) == [
        "agents-0-1.safetensors", "agents-2-2.safetensors", "agents-3-3.safetensors", "agents-4-4.safetensors",
        "manifest.json",
    ]  # fmt: skip
    process_runs.in_processes(2, [{"iterations": 30, **shared}])
    result = process_runs.one_run(None, iterations=40, **shared)
    assert torch.equal(result.x, undisturbed.x)
    assert rows(tmp_path / "a") == rows(tmp_path / "b")
    assert len(checkpoints(tmp_path / "a")) == 2


@pytest.fixture(scope="module")
def two_checkpoints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two processes that has saved checkpoints at iterations 10 and 20."""
    folder = tmp_path_factory.mktemp("run") / "a"
    shared = {"out": folder, "eval_every": 5, "resume": True}
    process_runs.in_processes(2, [{"iterations": 10, **shared}, {"iterations": 20, **shared}])
    return folder


@pytest.mark.parametrize(("damage", "processes"), [("no manifest", 1), ("no part", 2), ("cut", 1), ("swapped", 1)])
def test_a_damaged_checkpoint_is_skipped(damage: str, processes: int, two_checkpoints: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(two_checkpoints, tmp_path / "a"))
    _, newest = checkpoints(out)
    first, second = sorted(newest.glob("*.safetensors"))
    if damage == "no manifest":
        (newest / "manifest.json").unlink()
    elif damage == "no part":
        second.unlink()
    elif damage == "cut":
        second.write_bytes(second.read_bytes()[:-9])
    else:
        shutil.copy(first, second)
    with pytest.warns(UserWarning, match=newest.name):
        (result,) = process_runs.in_processes(
            processes, [{"iterations": 20, "out": out, "eval_every": 5, "resume": True}]
        )
    assert float((result.x - process_runs.one_run(None).x).abs().max()) < 1e-5
    assert [row["iteration"] for row in rows(out)] == [0, 5, 10, 15, 20]


def test_a_finished_run_can_be_resumed_by_other_processes(tmp_path: Path) -> None:
    first = process_runs.one_run(None, out=tmp_path / "a")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (again,) = process_runs.in_processes(3, [{"out": tmp_path / "a", "resume": True}])
    assert torch.equal(first.x, again.x)


def test_another_experiment_is_rejected_by_all(tmp_path: Path) -> None:
    process_runs.one_run(None, out=tmp_path / "a")
    with pytest.raises(PeerdescentError, match="another run"):
        process_runs.in_processes(2, [{"out": tmp_path / "a", "resume": True, "seed": 9}])
