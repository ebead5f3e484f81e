"""Runs that are killed, damaged or asked to go on: they end where an undisturbed run ends."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from safetensors.torch import load_file
from tests.support.commands import Command, rows

from peerdescent import InputError, Result, algorithms, train
from peerdescent.problems import quadratic
from peerdescent.runs.folder import RunFolder, read_metrics
from peerdescent.training import checkpoints, loop

DRIVER = """\
import sys
from peerdescent.training import checkpoints, loop
checkpoints.SECONDS_BETWEEN, checkpoints.SAVING_SHARE, loop.CHUNK = 0.0, 0, 7
from peerdescent.cli.main import main
sys.argv[0] = "peerdescent"
main()
"""
"""The command with a checkpoint after every seventh iteration."""
ITERATIONS = 20000
EXPERIMENT = (
    f"run --problem quadratic --graph ring:4 --set problem.dimension=50 --set problem.noise=1 --batch-size 4 "
    f"--iterations {ITERATIONS} --eval-every 300 -a dsgpa-t-pb -q"
).split()


def final_x(folder: Path) -> bytes:
    """All of the newest checkpoint, bit by bit."""
    newest = max((folder / "checkpoints").glob("*.safetensors"))
    assert newest.stem == f"{rows(folder)[-1]['iteration']:012d}"
    return b"".join(array.numpy().tobytes() for _, array in sorted(load_file(newest).items()))


def short(out: Path, **settings: Any) -> Result:
    """A run in this process."""
    problem = quadratic(agents=4, dimension=5, noise=1.0)
    method = settings.pop("method", "dm-sgd")
    chosen = {"iterations": 100, "batch_size": 4, "eval_every": 10, **settings}
    return train(problem, "ring:4", method, out=out, **chosen)


def killed(out: Path, iteration: int, **settings: Any) -> None:
    """A run in this process, with a checkpoint at every fifth iteration, that ends at once after some iteration."""
    save = checkpoints.Checkpoints.save_if_due

    def save_and_die(self: checkpoints.Checkpoints, run: loop.Run) -> None:
        save(self, run)
        if run.k >= iteration:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "CHUNK", 5)
        patch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
        patch.setattr(checkpoints, "SAVING_SHARE", 0)
        patch.setattr(checkpoints.Checkpoints, "save_if_due", save_and_die)
        with pytest.raises(KeyboardInterrupt):
            short(out, **settings)


@pytest.mark.e2e
def test_killed_at_random_moments(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_(*EXPERIMENT, "--out", "undisturbed").code == 0
    moments = random.Random(0)
    command = [sys.executable, "-c", DRIVER, *EXPERIMENT, "--out", "d"]
    saved = here / "d" / "checkpoints"
    for resume in ([], ["--resume"], ["--resume"]):
        before = set(saved.glob("*.safetensors"))
        running = subprocess.Popen([*command, *resume], cwd=here, stderr=subprocess.PIPE)
        while running.poll() is None and not set(saved.glob("*.safetensors")) - before:
            time.sleep(0.002)  # interpreters start slowly: the random moment begins with the first checkpoint
        if running.poll() is None:
            time.sleep(moments.uniform(0, 0.05))
        running.send_signal(signal.SIGKILL)
        _, stderr = running.communicate()
        assert running.returncode == -signal.SIGKILL, stderr
    assert peerdescent_(*EXPERIMENT, "--out", "d", "--resume").code == 0
    assert final_x(here / "d") == final_x(here / "undisturbed")
    assert rows(here / "d") == rows(here / "undisturbed")
    assert json.loads((here / "d" / "summary.json").read_text())["diverged"] is False


@pytest.mark.parametrize(
    "method", ["dsgpa-f-pb", "dm-sgd", "d2", "d-sgt-1", "d-sgt-2", "gt-hsgd", "d-asg", "d-sgd-2", "c-sgd"]
)
@pytest.mark.parametrize("moment", [5, 30, 95])
def test_every_kind_of_method_goes_on(method: str, moment: int, tmp_path: Path) -> None:
    whole = short(tmp_path / "whole", method=method)
    killed(tmp_path / "a", moment, method=method)
    result = short(tmp_path / "a", method=method, resume=True)
    assert result.x.numpy().tobytes() == whole.x.numpy().tobytes()
    assert rows(tmp_path / "a") == rows(tmp_path / "whole")
    assert final_x(tmp_path / "a") == final_x(tmp_path / "whole")


@pytest.mark.parametrize("tail", ['{"iteration": 40, "lo', "\0\0\0\0", "\xff\xfe"])
def test_a_torn_last_line(tail: str, tmp_path: Path) -> None:
    short(tmp_path / "whole")
    killed(tmp_path / "a", 35)
    with open(tmp_path / "a" / "metrics.jsonl", "ab") as file:
        file.write(tail.encode("latin-1"))
    short(tmp_path / "a", resume=True)
    assert rows(tmp_path / "a") == rows(tmp_path / "whole")


@pytest.mark.parametrize("damage", ["empty", "cut", "noise"])
def test_a_damaged_checkpoint_is_passed_over(damage: str, tmp_path: Path) -> None:
    whole = short(tmp_path / "whole")
    killed(tmp_path / "a", 50)
    older, newest = sorted((tmp_path / "a" / "checkpoints").iterdir())
    content = newest.read_bytes()
    newest.write_bytes({"empty": b"", "cut": content[:-9], "noise": os.urandom(len(content))}[damage])
    with pytest.warns(UserWarning, match=newest.name):
        result = short(tmp_path / "a", resume=True)
    assert result.x.numpy().tobytes() == whole.x.numpy().tobytes()
    assert rows(tmp_path / "a") == rows(tmp_path / "whole")
    assert older.name < newest.name


def test_two_checkpoints_are_kept(tmp_path: Path) -> None:
    killed(tmp_path / "a", 50)
    assert [path.stem for path in sorted((tmp_path / "a" / "checkpoints").iterdir())] == [f"{45:012d}", f"{50:012d}"]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed = 0 there and 1 here"),
        ({"method": "d-sgd-1"}, 'algorithm = "dm-sgd" there and "d-sgd-1" here'),
        ({"method": algorithms.DMSGD(eta=0.2)}, "dm-sgd.eta = 0.1 there and 0.2 here"),
        ({"batch_size": 5}, "batch_size = 4 there and 5 here"),
        ({"dtype": "float64"}, 'dtype = "float32" there and "float64" here'),
    ],
)
@pytest.mark.parametrize("saved", [True, False])
def test_another_run_is_refused_and_what_differs_is_named(
    change: dict[str, Any], named: str, saved: bool, tmp_path: Path
) -> None:
    killed(tmp_path / "a", 50)
    if not saved:  # killed before its first checkpoint
        shutil.rmtree(tmp_path / "a" / "checkpoints")
    before = {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()}
    with pytest.raises(InputError, match=rf"holds another run \({re.escape(named)}"):
        short(tmp_path / "a", resume=True, **change)
    assert {path: path.read_bytes() for path in (tmp_path / "a").rglob("*") if path.is_file()} == before


def test_another_problem_of_the_same_name_is_refused(tmp_path: Path) -> None:
    short(tmp_path / "a")
    chosen: dict[str, Any] = {"iterations": 100, "batch_size": 4, "eval_every": 10}
    with pytest.raises(InputError, match="holds another run"):
        train(quadratic(agents=4, dimension=1), "ring:4", "dm-sgd", out=tmp_path / "a", resume=True, **chosen)


def test_a_finished_run_stays_as_it_is(tmp_path: Path) -> None:
    first = short(tmp_path / "a")
    before = (tmp_path / "a" / "metrics.jsonl").read_bytes(), final_x(tmp_path / "a")
    again = short(tmp_path / "a", resume=True)
    assert ((tmp_path / "a" / "metrics.jsonl").read_bytes(), final_x(tmp_path / "a")) == before
    assert again.x.numpy().tobytes() == first.x.numpy().tobytes()
    assert again.metrics.rows == first.metrics.rows


def test_more_iterations_can_be_asked_for(tmp_path: Path) -> None:
    whole = short(tmp_path / "whole", iterations=200)
    short(tmp_path / "a")
    longer = short(tmp_path / "a", iterations=200, resume=True)
    assert longer.x.numpy().tobytes() == whole.x.numpy().tobytes()
    assert rows(tmp_path / "a") == rows(tmp_path / "whole")
    assert "iterations = 200" in (tmp_path / "a" / "experiment.toml").read_text()
    assert json.loads((tmp_path / "a" / "summary.json").read_text())["iteration"] == 200


def test_fewer_iterations_are_refused(tmp_path: Path) -> None:
    short(tmp_path / "a")
    before = (tmp_path / "a" / "experiment.toml").read_bytes()
    with pytest.raises(InputError, match="100 iterations already"):
        short(tmp_path / "a", iterations=50, resume=True)
    assert (tmp_path / "a" / "experiment.toml").read_bytes() == before


@pytest.mark.parametrize("left", ["nothing", "folder", "probe", "records"])
def test_without_a_checkpoint_it_starts_over(left: str, tmp_path: Path) -> None:
    whole = short(tmp_path / "whole")
    out = tmp_path / "a"
    if left == "records":
        short(out)
        shutil.rmtree(out / "checkpoints")
    elif left != "nothing":
        out.mkdir()
        if left == "probe":
            (out / ".lock").touch()
            (out / f"{1:016x}.part").write_text("{")
    result = short(out, resume=True)
    assert result.x.numpy().tobytes() == whole.x.numpy().tobytes()
    assert rows(out) == rows(tmp_path / "whole")


@pytest.mark.usefixtures("undrawn")
def test_a_diverged_run_diverges_again(peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checkpoints, "SECONDS_BETWEEN", 0.0)
    monkeypatch.setattr(checkpoints, "SAVING_SHARE", 0)
    flags = "--problem quadratic --graph ring:4 -a d-sgd-1 --set eta=100 --iterations 400 --eval-every 20 --out a"
    assert peerdescent_("run", *flags.split()).code == 3
    again = peerdescent_("run", *flags.split(), "--resume")
    assert again.code == 3
    assert len(again.sentences) == 1


@pytest.mark.usefixtures("undrawn")
def test_a_comparison_goes_on(peerdescent_: Command, here: Path) -> None:
    flags = ["--problem", "quadratic", "--graph", "ring:4", "-a", "d-sgd-1,dm-sgd", "--iterations", "40", "--out"]
    assert peerdescent_("compare", *flags, "whole").code == 0
    assert peerdescent_("compare", *flags, "a").code == 0
    shutil.rmtree("a/dm-sgd")  # as if killed before the second method began
    refused = peerdescent_("compare", *flags, "a")
    assert refused.code == 2
    assert peerdescent_("compare", *flags, "a", "--resume").code == 0
    for method in ("d-sgd-1", "dm-sgd"):
        assert rows(Path("a", method)) == rows(Path("whole", method))


def test_only_one_process_writes_into_a_folder(here: Path) -> None:
    first = RunFolder(here / "d")
    with pytest.raises(InputError, match=f"process {os.getpid()} on .* has been writing to .*d since .*: wait for it"):
        RunFolder(here / "d", resume=True)
    assert first.path.is_dir()


def test_another_graph_made_in_python_is_another_experiment(here: Path) -> None:
    problem = quadratic(agents=5, dimension=2)
    train(problem, nx.cycle_graph(5), "d-sgd-1", iterations=5, out=here / "d")
    with pytest.raises(InputError, match="holds another run"):
        train(problem, nx.complete_graph(5), "d-sgd-1", iterations=9, out=here / "d", resume=True)
    with pytest.raises(InputError, match="holds another run"):
        train(problem, nx.cycle_graph(5), "d-sgd-1", iterations=9, x0=torch.ones(5, 2), out=here / "d", resume=True)


def test_records_without_a_checkpoint_are_not_cut_short(here: Path) -> None:
    problem = quadratic(agents=3, dimension=2)
    train(problem, "ring:3", "d-sgd-1", iterations=50, out=here / "d")
    shutil.rmtree(here / "d" / "checkpoints")
    with pytest.raises(InputError, match="holds 50 iterations already"):
        train(problem, "ring:3", "d-sgd-1", iterations=5, out=here / "d", resume=True)
    assert read_metrics(here / "d")[-1]["iteration"] == 50
