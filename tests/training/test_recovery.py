"""Processes that die, stall or stop responding: the others go on, and every run ends with a result or a sentence."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import networkx as nx
import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tests.support import process_runs
from tests.support.commands import Command, rows, without_seconds

from peerdescent import InputError, Result, algorithms, graphs, train
from peerdescent.algorithms import PRESETS
from peerdescent.algorithms.state import State, initial_state
from peerdescent.distributed import heartbeat_server
from peerdescent.distributed.faults import Faults
from peerdescent.distributed.launcher import workers
from peerdescent.errors import PeerdescentError, PeerLostError
from peerdescent.kernels.update import make_update
from peerdescent.mixing.network import make_network
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Problem, Quadratic, quadratic
from peerdescent.training.state_repair import Snapshots, readmit_agents, restore_invariants

pytestmark = pytest.mark.xdist_group("recovery")  # its processes and fixtures are started once

GRAPH = "er:10:0.6:seed=1"
METHODS = ["dsgpa-t-pb", "d-sgt-2", "d2", "d-asg"]
LOST_AT, END = 20, 40


# ---- Going on after a loss ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def survived() -> list[Result]:
    """One method after the other in five processes; each run loses one of them."""
    runs = [{"graph": GRAPH, "method": method, "dtype": "float64", "iterations": END} for method in METHODS]
    chosen = [{**run, "on_loss": "continue", "kill": [f"9@{LOST_AT + 5}"]} for run in runs]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return process_runs.in_processes(5, chosen)


def at_the_loss(method: str, folder: Path) -> State:
    """The state of all agents at the last snapshot before the loss, from an undisturbed run."""
    process_runs.one_run(None, graph=GRAPH, method=method, dtype="float64", iterations=LOST_AT, out=folder)
    return load_file(folder / "checkpoints" / f"{LOST_AT:012d}.safetensors")


def directly(method: str, state: State, stayed: list[int]) -> torch.Tensor:
    """The survivors' problem from there on, in one process; each invariant is restored by hand."""
    state = {name: array[stayed].clone() for name, array in state.items()}
    if "v" in state:
        state["v"] -= state["v"].mean(dim=0)
    if "y" in state:
        state["y"] -= (state["y"] - state["g_prev"]).mean(dim=0)
    left = graphs.as_graph(nx.subgraph(graphs.parse(GRAPH).to_networkx(), stayed))
    algorithm, problem = algorithms.make(method), quadratic(agents=10, dimension=7, noise=1.0)
    weights = MixingWeights.build(left, "metropolis", "metropolis", algorithm)
    update = make_update(algorithm, state, make_network(weights, torch.float64, torch.device("cpu")))
    oracle = problem.to(torch.device("cpu"), torch.float64).oracle(4, 0, True, range(10))
    points, gradients = torch.zeros(10, 7, dtype=torch.float64), torch.zeros(10, 7, dtype=torch.float64)
    for k in range(LOST_AT, END):
        points[stayed] = update.begin(k)
        oracle(points, k, gradients)
        update.gradient.copy_(gradients[stayed])
        update.finish(k)
    return update.state["x"]


@pytest.mark.parametrize("method", METHODS)
def test_the_survivors_solve_their_own_problem(method: str, survived: list[Result], tmp_path: Path) -> None:
    result = survived[METHODS.index(method)]
    assert result.lost
    assert 9 in result.lost
    stayed = [agent for agent in range(10) if agent not in result.lost]
    expected = directly(method, at_the_loss(method, tmp_path / "a"), stayed)
    np.testing.assert_allclose(result.x.numpy(), expected.numpy(), rtol=1e-11, atol=1e-13)
    assert any("go on from iteration 20" in note and "agent" in note and "process" in note for note in result.notes)
    assert not any("invariant" in note for note in result.notes)


@pytest.mark.parametrize("place", range(len(METHODS)))
def test_the_records_are_those_of_the_survivors(place: int, survived: list[Result]) -> None:
    result, problem = survived[place], quadratic(agents=10, dimension=7, noise=1.0)
    mean = result.x.mean(dim=0)
    stayed = [agent for agent in range(10) if agent not in result.lost]
    costs = [0.5 * (mean - problem.c[i]) @ problem.A[i] @ (mean - problem.c[i]) for i in stayed]
    assert result.metrics[-1]["loss"] == pytest.approx(float(sum(costs)) / len(stayed), rel=1e-10)
    assert result.metrics["iteration"] == [0, 10, 20, 30, 40]
    assert [len(row["agent_loss"]) for row in result.metrics] == [10, 10, 10, len(stayed), len(stayed)]
    edges, left = len(graphs.parse(GRAPH).edges), len(result.graph.edges)
    vectors = {"d-sgt-2": 2}.get(METHODS[place], 1)
    sent = vectors * 2 * 7 * 8 * (LOST_AT * edges + (END - LOST_AT) * left)
    assert result.metrics[-1]["bytes_sent"] == sent


def test_a_disconnected_graph_stops_with_a_checkpoint_and_lost_agents_come_back(tmp_path: Path) -> None:
    chosen = {"graph": "path:3", "method": "d2", "dtype": "float64", "iterations": 40, "out": tmp_path / "a"}
    with pytest.warns(UserWarning, match="lost agent 1"), pytest.raises(PeerdescentError, match="no longer connected"):
        process_runs.in_processes(3, [{**chosen, "on_loss": "continue", "kill": ["1@25"]}])
    manifest = json.loads(next((tmp_path / "a" / "checkpoints").glob("*/manifest.json")).read_text())
    assert (manifest["lost"], manifest["iteration"]) == ([1], 20)
    with pytest.warns(UserWarning, match="agent 1 rejoined at iteration 20"):
        result = process_runs.one_run(None, **chosen, resume=True)
    assert result.x.shape == (3, 7)
    assert not any("invariant" in note for note in result.notes)
    assert [row["iteration"] for row in rows(tmp_path / "a")] == [0, 10, 20, 30, 40]


@pytest.mark.e2e
def test_agents_come_back_from_a_checkpoint_that_has_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    chosen = {"graph": "path:3", "iterations": 40, "gradients": "loop", "out": tmp_path / "a"}
    with pytest.warns(UserWarning, match="lost agent 1"), pytest.raises(PeerdescentError, match="from the checkpoint"):
        process_runs.in_processes(3, [{**chosen, "on_loss": "continue", "kill": ["1@15"]}])
    result = process_runs.one_run(None, **chosen, resume=True)
    assert torch.equal(result.x, process_runs.one_run(None, **{**chosen, "out": None}).x)


@pytest.mark.e2e
@pytest.mark.parametrize(("moment", "lost"), [("_finish_together", ()), ("_gathered_result", (2, 3))])
def test_a_process_that_dies_at_the_end_ends_no_other(moment: str, lost: tuple[int, ...]) -> None:
    run = {"graph": "complete:6", "on_loss": "continue"}
    with (
        pytest.warns(UserWarning, match="lost agents 2, 3"),
        workers(3, process_runs.dying_at_the_end, moment, run) as group,
    ):
        first, second = process_runs.dying_at_the_end(group, moment, run)
    assert first.lost == lost
    assert len(first.x) == 6 - len(lost)
    assert (second.processes, second.lost, len(second.x)) == (2, (), 4)


@pytest.mark.e2e
def test_an_unresponsive_process_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stopped process is like one whose host is cut off: its connections stay open."""
    monkeypatch.setenv("PEERDESCENT_HEARTBEAT_SECONDS", "3")
    run = {"graph": "complete:6", "iterations": 400, "on_loss": "continue"}
    with pytest.warns(UserWarning, match="no heartbeat for"), workers(3, process_runs.stopping, run) as group:
        result = process_runs.stopping(group, run)
    assert result.lost == (2, 3)
    assert result.metrics[-1]["iteration"] == 400


# ---- Restart, stop, stall ------------------------------------------------------------------------------------


def run_network(**settings: Any) -> Result:
    chosen = {"iterations": 40, "batch_size": 4, "eval_every": 10, "gradients": "loop", **settings}
    return train(process_runs.network(4), "ring:4", "dsgpa-f-pb", **chosen)


def test_a_restart_gives_the_undisturbed_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    undisturbed = run_network()
    chosen: dict[str, Any] = {"workers": 2, "on_loss": "restart", "kill": ["3@25", "2@5"]}
    with pytest.warns(UserWarning, match="restart 2 of") as shown:
        result = run_network(out=tmp_path / "a", **chosen)
    assert torch.equal(result.x, undisturbed.x)
    assert without_seconds(result.metrics) == without_seconds(undisturbed.metrics)
    restarts = [str(entry.message) for entry in shown if "restart" in str(entry.message)]
    assert len(restarts) == 2
    assert all(re.search(r"lost agents 2, 3 on \S+ \(process 1\)", text) for text in restarts)


def test_a_loss_stops_the_run_with_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PEERDESCENT_CHECKPOINT_SECONDS", "0")
    with pytest.warns(UserWarning, match="lost agents 2, 3"), pytest.raises(PeerLostError) as stopped:
        run_network(out=tmp_path / "a", workers=2, kill=["3@25"])
    assert re.search(
        r"has lost agents 2, 3 on \S+ \(process 1\): .*--resume goes on from iteration", str(stopped.value)
    )
    assert torch.equal(run_network(out=tmp_path / "a", resume=True).x, run_network().x)


@pytest.mark.e2e
def test_a_straggler_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heartbeat_server, "STRAGGLER_AFTER", 0.5)
    with pytest.warns(UserWarning, match=r"waiting for agents 2, 3 on \S+ \(process 1\) for \d+ s"):
        result = run_network(workers=2, stall=["3@25:3"])
    assert torch.equal(result.x, run_network().x)


# ---- The parts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PRESETS)
def test_the_invariants_of_every_method_are_restored(name: str) -> None:
    """A state without some of its rows breaks them; the repaired state satisfies them, and x is unchanged."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        algorithm = algorithms.make(name)
    update = make_update(
        algorithm, initial_state(algorithm, torch.randn(6, 5, dtype=torch.float64)), _network(6, algorithm)
    )
    for k in range(7):
        update.begin(k)
        update.gradient.copy_(torch.randn(6, 5, dtype=torch.float64))
        update.finish(k)
    left = {array_name: array[[0, 2, 5]].clone() for array_name, array in update.state.items()}
    restored = restore_invariants(algorithm, left)
    assert torch.equal(restored["x"], left["x"])
    for invariant in algorithm.invariants(SimpleNamespace(**restored)).values():
        assert float(invariant.mean(dim=0).abs().max()) < 1e-12
    all_agents = readmit_agents(algorithm, graphs.parse("ring:6"), restored, [1, 3, 4])
    assert torch.equal(all_agents["x"][[0, 2, 5]], left["x"])
    assert torch.equal(all_agents["x"][1], left["x"][0])
    for invariant in algorithm.invariants(SimpleNamespace(**all_agents)).values():
        assert float(invariant.mean(dim=0).abs().max()) < 1e-12


def _network(agents: int, algorithm: algorithms.Algorithm) -> Any:
    weights = MixingWeights.build(graphs.parse(f"ring:{agents}"), "metropolis", "metropolis", algorithm)
    return make_network(weights, torch.float64, torch.device("cpu"))


@pytest.mark.parametrize("problem", [quadratic(agents=6, dimension=4, noise=1.0), process_runs.network(6)])
@pytest.mark.parametrize("batch_size", [None, 4])
def test_a_subset_of_agents_keeps_its_data_and_randomness(problem: Problem, batch_size: int | None) -> None:
    chosen = [0, 3, 4]
    some = problem.subset(chosen)
    points = torch.randn(6, problem.dimension)
    whole, part = torch.zeros_like(points), torch.zeros(3, problem.dimension)
    for k in (0, 77):
        problem.oracle(batch_size, 5, True, range(6))(points, k, whole)
        some.oracle(batch_size, 5, True, range(3))(points[chosen], k, part)
        torch.testing.assert_close(part, whole[chosen])
        some.subset([1, 2]).oracle(batch_size, 5, True, range(2))(points[[3, 4]], k, part[:2])
        torch.testing.assert_close(part[:2], whole[[3, 4]])
    x = points[0]
    single = [problem.subset([agent]).loss(x) for agent in chosen]
    assert some.loss(x) == pytest.approx(sum(single) / 3, rel=1e-5)
    assert torch.equal(some.start(1), problem.start(1)[chosen])


def test_a_problem_that_cannot_lose_agents_is_rejected_at_the_start() -> None:
    class Mine(Quadratic):
        def subset(self, agents: Any) -> Quadratic:
            return Problem.subset(self, agents)  # type: ignore[return-value]

    with pytest.raises(InputError, match="does not define `subset`"):
        train(Mine([[1.0]] * 3, [[0.0]] * 3), "ring:3", "d-sgd-1", iterations=1, on_loss="continue")


def test_snapshots_are_discarded_when_all_processes_have_the_next() -> None:
    kept, state = Snapshots(), {"x": torch.zeros(2)}
    kept.keep((0, 0), state)
    state["x"] += 1
    kept.keep((0, 100), state)
    assert kept.newest == (0, 100)
    assert kept.at((0, 0))["x"].tolist() == [0, 0]
    kept.discard_old()
    with pytest.raises(KeyError):
        kept.at((0, 0))


# ---- Wrong input ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        {"kill": ["x"]}, {"kill": ["3"]}, {"kill": ["-1@3"]}, {"kill": ["3@2:5"]}, {"kill": ["@"]}, {"kill": ["1@1.5"]},
        {"stall": ["3@5"]}, {"stall": ["3@5:x"]}, {"stall": ["3@5:-1"]}, {"stall": ["3@5:nan"]}, {"on_loss": "pray"},
    ],
)  # fmt: skip
def test_invalid_faults_are_rejected(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="expected"):
        Faults(**given)


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (["--kill", "9@5", "--workers", "2"], "no agent 9"),
        (["--kill", "1@5"], "one process"),
        (["--stall", "1@5"], "AGENT@ITERATION:SECONDS"),
        (["--on-loss", "panic"], "stop, continue, restart"),
    ],
)
def test_wrong_flags_are_one_sentence(flags: list[str], sentence: str, peerdescent_: Command, here: Path) -> None:
    ended = peerdescent_("run", "--problem", "quadratic", "--graph", "ring:4", "-a", "d-sgd-1", *flags, "--out", "a")
    assert ended.code == 2
    assert len(ended.sentences) == 1
    assert sentence in ended.sentences[0]
    assert not (here / "a").exists()
