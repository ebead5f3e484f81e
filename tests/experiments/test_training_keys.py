"""Schedules, weight decay, clipping, averages and early stopping as flags, keys of a file and arguments."""

from __future__ import annotations

import json
import math
import shlex
import warnings
from pathlib import Path

import pytest
from tests.support.commands import Command, rows

from peerdescent import train
from peerdescent._util import toml
from peerdescent.algorithms import PRESETS, make
from peerdescent.experiments.files import commented
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.schema import Experiment, from_keys, override
from peerdescent.training.added_updates import gradient_rate

FORMS = {
    "cosine:0.1:50": lambda k: 0.1 * (1 + math.cos(math.pi * k / 50)) / 2,
    "step:0.1:0.5:3:6": lambda k: 0.1 * 0.5 ** ((k >= 3) + (k >= 6)),
    "warmup:4:0.1": lambda k: 0.1 * min(1, (k + 1) / 4),
    "warmup:4:cosine:0.1:50": lambda k: 0.1 * min(1, (k + 1) / 4) * (1 + math.cos(math.pi * k / 50)) / 2,
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_method_takes_schedules_by_flag_file_and_argument(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rate = gradient_rate(make(name))
        at_one = [make(name, **{rate: 1.0}).hyperparameters(k)[rate] for k in range(9)]
        for text, formula in FORMS.items():
            base = Experiment(problem="quadratic", graph="ring:4", algorithms=(name,))
            by_flag = override(base, {}, [f"{rate}={text}"])
            by_file = from_keys(toml.loads(toml.dumps(describe(by_flag, name)).decode(), "a file"))
            for experiment in (by_flag, by_file):
                (plan,) = resolve(experiment)
                got = [plan.algorithm.hyperparameters(k)[rate] for k in range(9)]
                assert got == pytest.approx([formula(k) * one for k, one in enumerate(at_one)], rel=1e-12)
            assert make(name, **{rate: text}) == plan.algorithm


FLAGS = (
    "-a dm-sgd --problem quadratic --graph ring:4 --iterations 300 --eval-every 20 --weight-decay .1 --decay decoupled "
    "--clip-norm .5 --ema .9 --patience 2 --monitor ema_loss"
)


@pytest.mark.usefixtures("undrawn")
def test_flags_are_the_arguments_of_train(peerdescent_: Command) -> None:
    said = peerdescent_("run", *shlex.split(FLAGS), "--out", "a", "-q")
    assert (said.code, said.err) == (0, "")
    settings = {"iterations": 300, "eval_every": 20, "weight_decay": 0.1, "decay": "decoupled", "clip_norm": 0.5}
    more = {"ema": 0.9, "patience": 2, "monitor": "ema_loss"}
    train("quadratic", "ring:4", "dm-sgd", **settings, **more, out="b")  # type: ignore[arg-type]
    assert rows(Path("a")) == rows(Path("b"))
    summary = json.loads(Path("a/summary.json").read_text())
    assert (summary["status"], summary["iteration"]) == ("stopped early", rows(Path("a"))[-1]["iteration"])
    said = peerdescent_("run", "a", "--resume")  # what is stopped early stays so
    assert said.code == 0
    assert "stopped early at iteration" in " ".join(said.out.split())
    assert rows(Path("a")) == rows(Path("b"))


def test_a_column_that_is_not_there_is_refused_before_anything_is_written(peerdescent_: Command) -> None:
    said = peerdescent_("run", *shlex.split(FLAGS), "--monitor", "test_loss", "--out", "a")
    assert said.code == 2
    assert "monitor = 'test_loss': there is no such column" in said.sentences[-1]
    assert not Path("a").exists()


def test_the_commented_file_shows_them() -> None:
    names = ("weight_decay", "decay", "clip_norm", "ema", "patience", "monitor")
    shown = [line.removeprefix("# ") for line in commented().splitlines() if line.split(" = ")[0][2:] in names]
    experiment = from_keys(toml.loads("\n".join(shown), "the file"))
    assert [getattr(experiment, name) for name in names] == [0.0001, "decoupled", 1.0, 0.999, 10, "test_loss"]
