"""`compare` from Python: results by name, the same runs as `train` makes, tables and figures, records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.commands import Command, without_seconds

import peerdescent
from peerdescent import compare, problems
from peerdescent.algorithms import D2, DSGD1
from peerdescent.errors import InputError

RUN: dict[str, Any] = {"iterations": 20, "kernel": "plain", "per_agent": False, "eval_every": 10}


def test_each_result_is_that_of_train() -> None:
    found = compare("quadratic", "ring:4", ["d2", "dsgd"], **RUN)
    for name in ("d2", "dsgd"):
        assert torch.equal(found[name].x, peerdescent.train("quadratic", "ring:4", name, **RUN).x)
    assert list(found) == ["d2", "d-sgd-1"]
    assert [row[0] for row in found.table().rows] == list(found)
    assert [text.get_text() for text in found.plot().legends[0].get_texts()] == list(found)
    assert "<svg" in found._repr_html_()
    with pytest.raises(KeyError, match="d2, d-sgd-1"):
        found["dm-sgd"]


def test_seeds_and_grid_of_objects() -> None:
    problem = problems.make("quadratic", 4, noise=1.0)
    methods = {"mine": DSGD1(eta=0.1), "other": D2(eta=0.1)}
    found = compare(problem, "ring:4", methods, seeds=[3, 5], grid={"eta": [0.05, 0.1], "other.eta": [0.2]}, **RUN)
    assert list(found) == ["mine · eta=0.05", "mine · eta=0.1", "other"]
    second = peerdescent.train(problem, "ring:4", DSGD1(eta=0.1), seed=5, **RUN)
    assert torch.equal(found.results["mine · eta=0.1"][1].x, second.x)
    losses = [result.metrics[-1]["loss"] for result in found.results["other"]]
    data = found.table().data
    assert data["loss"][2] == pytest.approx(np.mean(losses))
    assert data["loss_deviation"][2] == pytest.approx(np.std(losses, ddof=1))
    with pytest.raises(InputError, match="2 seeds"):
        found["other"]
    assert len(found.plot().axes) == 1  # no accuracy


def test_diverged_runs_are_part_of_the_result() -> None:
    problem = problems.make("quadratic", 4, noise=1.0)
    found = compare(problem, "ring:4", ["d-sgd-1"], grid={"eta": [0.1, 90.0]}, **{**RUN, "iterations": 300})
    assert [found[label].diverged for label in found] == [False, True]
    assert found.table().data["diverged"] == [0, 1]
    assert "diverged" in found._repr_html_()
    alone = compare(problem, "ring:4", {"wild": DSGD1(eta=90.0)}, **{**RUN, "iterations": 300})
    assert "diverged at iteration" in alone.table().rows[0][-1]


def test_records_can_be_resumed_in_python_and_read_by_the_command(peerdescent_: Command, here: Path) -> None:
    sweep: dict[str, Any] = {"seeds": 2, "grid": {"eta": [0.05, 0.1]}, "out": here / "s"}
    first = compare("quadratic", "ring:4", ["d2"], **sweep, **RUN)
    again = compare("quadratic", "ring:4", ["d2"], **sweep, resume=True, **{**RUN, "iterations": 30})
    whole = compare("quadratic", "ring:4", ["d2"], **{**sweep, "out": None}, **{**RUN, "iterations": 30})
    for label in whole:
        for one, other in zip(again.results[label], whole.results[label], strict=True):
            assert torch.equal(one.x, other.x)
            assert without_seconds(list(one.metrics)) == without_seconds(list(other.metrics))
    with pytest.raises(InputError, match="not empty"):
        compare("quadratic", "ring:4", ["d2"], **sweep, **RUN)
    assert torch.equal(peerdescent.load(here / "s/d2/eta=0.1/seed-1").x, again.results["d2 · eta=0.1"][1].x)
    said = peerdescent_("report", "s")
    assert said.code == 0, said
    assert len(first) == 2
    before = (here / "s/sweep.toml").read_bytes()
    with pytest.raises(InputError, match="holds another run"):
        compare("quadratic", "ring:4", ["d2"], **sweep, resume=True, batch_size=3, **RUN)
    with pytest.raises(InputError, match=r"sweep\.toml"):
        compare("quadratic", "ring:4", ["d2"], out=here / "s", resume=True, **RUN)
    assert (here / "s/sweep.toml").read_bytes() == before
    compare("quadratic", "ring:4", ["dsgd"], out=here / "s", overwrite=True, **RUN)
    assert {path.name for path in (here / "s").iterdir() if path.is_dir()} == {"d-sgd-1"}


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"methods": []}, "methods"),
        ({"methods": ["d2", "d2"]}, "more than once"),
        ({"methods": {"a/b": "d2"}}, "slashes"),
        ({"methods": 3}, "methods"),
        ({"methods": ["d3"]}, "d3"),
        ({"seeds": 0}, "seeds"),
        ({"seeds": [1, 1]}, "more than once"),
        ({"grid": {"eta": []}}, "no value"),
        ({"grid": {"zeta": [1]}}, "zeta"),
        ({"grid": {"problem.noise": [1]}}, "problem"),
        ({"jobs": 0}, "jobs"),
        ({"resume": True}, "out"),
        ({"progress": 3}, "progress"),
        ({"problem": 3}, "problem"),
    ],
)
def test_wrong_calls_are_refused(more: dict[str, Any], words: str) -> None:
    given = {"problem": "quadratic", "graph": "ring:4", "methods": ["d2"], **RUN, **more}
    with pytest.raises(InputError, match=words):
        compare(**given)
