"""Runs repeated and continued as people try it: by folder, by file, from Python, with any graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import networkx as nx
import pytest
import torch
from tests.support.commands import Command, rows

import peerdescent
from peerdescent import InputError, algorithms, problems, train
from peerdescent.experiments.files import read

pytestmark = pytest.mark.usefixtures("undrawn")
QUICK = ("--problem", "quadratic", "--graph", "ring:4", "--iterations", "20", "-q")


def test_a_folder_repeats_and_continues_itself(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *QUICK, "-a", "d2", "--seed", "3", "--out", "a").code == 0
    assert peerdescent_("run", "a", "--out", "b", "-q").code == 0
    assert rows(here / "a") == rows(here / "b")
    assert peerdescent_("run", "a", "--resume", "--iterations", "40", "-q").code == 0
    assert peerdescent_("run", "--out", "b", "--resume", "--iterations", "40", "-q").code == 0
    assert rows(here / "a") == rows(here / "b")
    assert rows(here / "a")[-1]["iteration"] == 40
    assert sorted(path.name for path in here.iterdir()) == ["a", "b"]


def test_what_differs_is_named(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *QUICK, "-a", "d2", "--out", "a").code == 0
    refused = peerdescent_("run", "--out", "a", "--resume", "--seed", "4", "-q")
    assert refused.code == 2
    assert "seed = 0 there and 4 here" in refused.err
    assert peerdescent_("run", "--out", "a", "--resume", "--threads", "2", "-q").code == 0  # the same trajectory


def test_a_comparison_reads_the_file_it_wrote(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("compare", *QUICK, "-a", "d2,dm-sgd", "--set", "d2.eta=.02", "--out", "a").code == 0
    assert peerdescent_("compare", "a/comparison.toml", "--out", "b", "-q").code == 0
    assert peerdescent_("compare", "a", "--out", "c", "-q").code == 0
    for name in ("d2", "dm-sgd"):
        assert rows(here / "a" / name) == rows(here / "b" / name) == rows(here / "c" / name)
    assert peerdescent_("compare", "a", "--resume", "--iterations", "30", "-q").code == 0
    assert rows(here / "a" / "d2")[-1]["iteration"] == 30


def test_a_folder_without_a_run_is_one_sentence(peerdescent_: Command, here: Path) -> None:
    (here / "empty").mkdir()
    refused = peerdescent_("run", "empty")
    assert refused.code == 2
    assert "empty holds no run" in refused.err


@pytest.mark.parametrize(
    "method",
    [
        "dsgt",
        algorithms.DSGPA(eta=0.02, alpha=2, beta=1, gamma=0.7, power_on="direction", dual="jacobi"),
        algorithms.make("dm-sgd", powerball=0.7, eta="warmup:5:cosine:0.05:20"),
    ],
    ids=str,
)
def test_a_named_problem_on_any_graph_repeats_from_its_folder(method: Any, peerdescent_: Command, here: Path) -> None:
    graph = nx.petersen_graph()
    graph.remove_edge(0, 1)
    made = train("quadratic", graph, method, iterations=20, seed=2, out=here / "a")
    assert peerdescent_("run", "a", "--out", "b", "-q").code == 0
    assert rows(here / "a") == rows(here / "b")
    again = peerdescent.load(here / "b")
    assert torch.equal(again.x, made.x)
    assert again.graph == made.graph
    assert again.algorithm == made.algorithm


def test_an_object_cannot_be_repeated_by_the_command_line(peerdescent_: Command, here: Path) -> None:
    problem = problems.quadratic(agents=3, dimension=2, seed=5)
    made = train(problem, "ring:3", "d2", iterations=5, x0=torch.ones(3, 2), out=here / "a")
    refused = peerdescent_("run", "a", "--out", "b")
    assert refused.code == 2
    assert "made in Python with its own problem, x0" in refused.err
    with pytest.raises(InputError, match="its own problem"):
        peerdescent.load(here / "a")
    assert torch.equal(peerdescent.load(here / "a", problem).x, made.x)


def test_a_schedule_that_is_a_function_resumes(here: Path) -> None:
    def run(iterations: int, out: str, **more: Any) -> torch.Tensor:
        method = algorithms.DSGD1(eta=_halving)
        return train("quadratic", "ring:3", method, iterations=iterations, out=here / out, **more).x

    run(10, "a")
    assert torch.equal(run(20, "a", resume=True), run(20, "whole"))


def _halving(k: int) -> float:
    return 0.1 * 0.5 ** (k // 8)


def test_load_gives_the_model_and_says_what_is_missing(here: Path) -> None:
    made = train("mnist-nn", "ring:3", "d2", iterations=4, out=here / "a")
    again = peerdescent.load(here / "a")
    pairs = zip(again.model().parameters(), made.model().parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
    assert again.metrics.rows == made.metrics.rows
    for path in (here, "x" * 300):
        with pytest.raises(InputError, match="holds no run"):
            peerdescent.load(path)


def test_aliases_are_the_methods_they_name(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("run", *QUICK, "-a", "dgd", "--set", "dgd.eta=.05", "--out", "a").code == 0
    assert peerdescent_("run", *QUICK, "-a", "d-sgd-1", "--set", "eta=.05", "--out", "b").code == 0
    assert rows(here / "a") == rows(here / "b")
    assert read("a").algorithms == ("d-sgd-1",)
    listed = peerdescent_("list", "algorithms").out
    assert all(alias in listed for alias in ("dgd", "gnsd", "diging", "dsgt"))
