"""Finished runs in simulated seconds: the command, the files it writes, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.support.commands import Command

import peerdescent
from peerdescent import InputError, algorithms, clock, graphs
from peerdescent.experiments.clock import clock_runs
from peerdescent.report import run_page
from peerdescent.report.page import render
from peerdescent.report.runs import read
from peerdescent.runs.lock import FolderLock
from peerdescent.training.clocked import communication_of
from peerdescent.training.settings import Settings

SMALL = ["--problem", "quadratic", "--set", "problem.dimension=100", "--graph", "ring:4", "--iterations", "20"]
FLAT = """
[link]
latency_ms = 20
bandwidth_mbit = 0.1
[compute]
seconds = 0.05
"""
MESSAGE = 0.020 + 8 * 400 / 1e5  # 100 numbers in single precision


@pytest.fixture
def network(here: Path) -> str:
    (here / "net.toml").write_text(FLAT)
    return "net.toml"


@pytest.mark.e2e
def test_a_comparison_gets_a_clock_a_column_and_an_axis(peerdescent_: Command, here: Path, network: str) -> None:
    assert peerdescent_("compare", *SMALL, "-a", "d2", "-a", "c-sgd", "-a", "d-sgd-1", "--out", "a").code == 0
    before = (here / "a" / "d2" / "metrics.jsonl").read_bytes()
    drawn = (here / "a" / "figures" / "comparison.png").read_bytes()
    done = peerdescent_("clock", "a", "--network", network, "--figure", "seconds.png")
    assert done.code == 0, done.err
    assert (here / "a" / "d2" / "metrics.jsonl").read_bytes() == before
    assert (here / "a" / "figures" / "comparison.png").read_bytes() != drawn
    assert (here / "seconds.png").read_bytes().startswith(b"\x89PNG")
    all_reduce = 6 * (0.020 + 8 * 100 / 1e5)
    expected = {"d2": 0.05 + MESSAGE, "c-sgd": 0.05 + all_reduce, "d-sgd-1": max(0.05, MESSAGE)}
    for name, pace in expected.items():
        metrics = peerdescent.load(here / "a" / name).metrics
        assert metrics["simulated_seconds"] == pytest.approx([pace * k for k in metrics["iteration"]])
    with open(here / "a" / "table.csv") as file:
        table = {row["method"]: float(row["simulated_seconds"]) for row in csv.DictReader(file)}
    assert table == pytest.approx({name: 20 * pace for name, pace in expected.items()})
    assert '"simulated_seconds":[0,' in render(run_page.page([here / "a"], "report"))


def small(out: str, **options: Any) -> peerdescent.Result:
    return peerdescent.train("quadratic", "ring:4", "d2", out=out, **{"iterations": 20, **options})


def test_a_run_with_a_clock_resumes_and_is_overwritten(here: Path, network: str) -> None:
    first = small("a")
    clock_runs([Path("a")], network)
    rest = small("a", iterations=40, resume=True)
    assert rest.metrics["iteration"][:2] == first.metrics["iteration"][:2]
    times = read(here / "a").metrics["simulated_seconds"]
    assert times[-1] is None  # newer than the clock
    assert times[1] is not None
    clock_runs([Path("a")], network)
    assert read(here / "a").metrics[-1]["simulated_seconds"] == pytest.approx(40 * (0.05 + 0.020 + 8 * 40 / 1e5))
    small("a", overwrite=True)
    assert not (here / "a" / "clock.json").exists()


def test_local_steps_and_half_precision_save_time(here: Path, network: str) -> None:
    def seconds(**settings: object) -> float:
        problem = peerdescent.problems.make("quadratic", 4, dimension=100)
        run = peerdescent.train(problem, "ring:4", "d2", iterations=20, **settings)
        return float(run.clock(network).metrics[-1]["simulated_seconds"])

    assert seconds(communication_period=5) == pytest.approx(20 * 0.05 + 4 * MESSAGE)
    assert seconds(message_dtype="bf16") == pytest.approx(20 * (0.05 + 0.020 + 8 * 200 / 1e5))
    assert seconds(dtype="float64") == pytest.approx(20 * (0.05 + 0.020 + 8 * 800 / 1e5))


def test_a_problem_made_in_python_has_a_clock_too(peerdescent_: Command, here: Path, network: str) -> None:
    data = torch.randn(40, 9), torch.randn(40, 1)
    problem = peerdescent.problems.supervised(torch.nn.Linear(9, 1), torch.nn.functional.mse_loss, data, 4)
    peerdescent.train(problem, "ring:4", "d2", iterations=10, batch_size=5, out="a")
    assert peerdescent_("clock", "a", "--network", network).code == 0
    times = peerdescent.load("a", problem).metrics["simulated_seconds"]
    assert times[-1] == pytest.approx(10 * (0.05 + 0.020 + 8 * 40 / 1e5))


def test_times_relative_to_the_run_itself(here: Path) -> None:
    run = peerdescent.train("quadratic", "ring:4", "d2", iterations=20)
    timed = run.clock(clock.from_keys({"compute": {"relative": 2.0}}))
    assert timed.metrics[-1]["simulated_seconds"] == pytest.approx(2 * run.metrics[-1]["seconds"] / 4)
    with pytest.raises(InputError, match="relative to a measured run, and there is none here"):
        peerdescent.explain("quadratic", "ring:4", "d2", network=clock.from_keys({"compute": {"relative": 2.0}}))


def test_what_is_refused_is_refused_before_anything_is_written(peerdescent_: Command, here: Path, network: str) -> None:
    small("a/one")
    peerdescent.train("quadratic", "ring:5", "d2", iterations=20, out="a/two")
    (here / "sites.toml").write_text(FLAT + '[sites]\na = "0-4"\n')
    for arguments, sentence in {
        ("a", "--network", "wam"): "there is no network 'wam' (did you mean 'wan'?)",
        ("a", "--network", "sites.toml"): "sites.toml names agent 4, and there are 4 agents, 0 to 3",
        ("b", "--network", network): "b is not a folder",
    }.items():
        done = peerdescent_("clock", *arguments)
        assert done.code == 2
        assert sentence in done.err
        assert len(done.sentences) == 1
    assert not list(here.rglob("clock.json"))


def test_a_run_that_is_still_going_is_left_alone(here: Path, network: str) -> None:
    small("a")
    (here / "a" / "summary.json").unlink()
    with FolderLock(here / "a"), pytest.raises(InputError, match="the run in a is still going: wait for its end"):
        clock_runs([Path("a")], network)


def test_a_damaged_clock_is_reported(here: Path, network: str) -> None:
    small("a")
    clock_runs([Path("a")], network)
    file = here / "a" / "clock.json"
    for damage in (file.read_text().replace("0.0", "0.1", 1), "{}", "[]", "5", "x", ""):
        file.write_text(damage)
        with pytest.raises(InputError, match=r"clock.json is damaged: remove it, or write it anew with"):
            read(here / "a")


def test_explain_says_what_is_faster_and_where_both_are_equal(peerdescent_: Command, here: Path) -> None:
    (here / "net.toml").write_text("[link]\nlatency_ms = 20\n[agent]\nuplink_mbit = 100\n[compute]\nseconds = 0.05")
    p = 500_000
    flags = ["--problem", "logistic-nonconvex", "--set", f"problem.dimension={p - 1}", "--set", "problem.samples=40"]
    done = peerdescent_("explain", "-a", "d-sgd-1", "--graph", "ring:32", *flags, "--network", "net.toml", "--json")
    found = json.loads(done.out)["forecast"]
    one = 32 * p / 100e6  # seconds for one vector through an uplink
    assert found["seconds"] == pytest.approx(0.020 + 2 * one)  # two neighbours share it
    assert found["all_reduce"] == pytest.approx(0.05 + 62 * (0.020 + one / 32))
    equal = (0.05 + 61 * 0.020) / ((2 - 62 / 32) * one)  # the factor of p at which the two lines meet
    assert found["crossings"]["dimension"] == pytest.approx(equal, rel=1e-3)
    assert found["crossings"]["bandwidth"] == pytest.approx(1 / equal, rel=1e-3)
    said = peerdescent_("explain", "-a", "d-sgd-1", "--graph", "ring:32", *flags, "--network", "net.toml").out
    assert "0.34 s per iteration, 0.05 s of it computing" in " ".join(said.split())


def test_init_and_list_know_the_networks(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("init", "mine.toml", "--network", "home").code == 0
    assert clock.read("mine.toml").as_keys() == clock.read("home").as_keys()
    assert clock.from_keys(clock.read("home").as_keys(), "home") == clock.read("home")
    assert "no network 'hone' (did you mean 'home'?)" in peerdescent_("init", "b.toml", "--network", "hone").err
    assert "machines in different cities" in peerdescent_("list", "networks").out


def test_the_clock_of_a_result_knows_compressed_messages() -> None:
    method, graph = algorithms.make("d-sgd-1"), graphs.parse("ring:4")
    sizes = [
        communication_of(method, graph, Settings(compress=kind), 1000).vector_bytes
        for kind in ("none", "bf16", "topk:0.01")
    ]
    assert sizes[:2] == [4000, 2000]
    assert sizes[2] == 10 * (4 + 4)  # indices and values
