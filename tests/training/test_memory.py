"""Memory: what a run takes is known before it begins, and what cannot fit is refused untouched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tests.support.commands import Command

import peerdescent
from peerdescent import InputError, problems
from peerdescent._util import memory as measured
from peerdescent._util.memory import available_memory
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.training import memory
from peerdescent.training.memory import estimate
from peerdescent.training.train import plan_of

GB = 10**9


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with one gigabyte to spare."""
    for module in (memory, measured):
        monkeypatch.setattr(module, "available_memory", lambda: GB)
    return monkeypatch


def test_the_estimate_counts_what_the_run_allocates() -> None:
    plan = plan_of("mnist-nn", "ring:6", "d-sgt-1", batch_size=5, dtype="float64")
    found = plan.memory()
    state = len(plan.algorithm.memory()) + 1
    assert (found.agents, found.parameters, found.itemsize) == (6, 20560, 8)
    assert found.arrays == state + plan.vectors_sent + 2
    assert found.total == found.state + found.data + found.minibatches + found.matrices
    assert found.minibatches == 6 * 5 * (401 * 4 + 8 + 8)
    assert plan.memory(processes=3).data == 3 * found.data
    assert plan_of("mnist-nn", "ring:6", "d-sgt-1", batch_size=0).memory().minibatches == 0


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("quadratic", {"dimension": 7}),
        ("ripples", {"dimension": 7}),
        ("logistic-nonconvex", {"dimension": 7, "samples": 50}),
        ("mnist-nn", {}),
    ],
)
def test_the_size_is_known_before_the_problem_is_made(name: str, options: dict[str, int]) -> None:
    predicted = problems.size(name, 4, **options)
    made = problems.size_of(problems.make(name, 4, **options))
    assert (predicted.dimension, predicted.sample) == (made.dimension, made.sample)
    assert predicted.data > 0


@pytest.mark.parametrize(
    ("problem", "option", "fits", "too_large"),
    [
        ("quadratic", "dimension", 100, 4_000),
        ("ripples", "dimension", 1000, 2_000_000),
        ("logistic-nonconvex", "samples", 1000, 4_000_000),
    ],
)
def test_what_cannot_fit_is_refused_and_what_fits_is_not(
    problem: str, option: str, fits: int, too_large: int, free: pytest.MonkeyPatch
) -> None:
    experiment = Experiment(problem=problem, graph="ring:4", algorithms=("d2",))
    (plan,) = resolve(experiment.replace(set={"problem": {option: fits}}))
    plan.check_memory()
    (plan,) = resolve(experiment.replace(set={"problem": {option: too_large}}))
    with pytest.raises(InputError, match=r"^d2 needs about .* × .* and 1.00 GB of memory are free: use fewer agents"):
        plan.check_memory()
    if plan.memory().data > GB:
        with pytest.raises(InputError, match=f"^{problem} needs about .* for its data"):
            _ = plan.problem


def test_python_is_refused_too(free: pytest.MonkeyPatch) -> None:
    data = torch.zeros(10, 2), torch.zeros(10, 1)
    problem = problems.supervised(torch.nn.Linear(2, 1), torch.nn.functional.mse_loss, data, agents=2)
    with pytest.raises(InputError, match="minibatches"):
        peerdescent.train(problem, "path:2", "d2", iterations=1, batch_size=10**9)
    assert peerdescent.train(problem, "path:2", "d2", iterations=1, batch_size=5).x.shape == (2, 3)
    with pytest.raises(InputError, match=r"quadratic needs about .* for its data"):
        problems.make("quadratic", 4, dimension=10**6)


def test_where_memory_is_unknown_nothing_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: None)
    memory.check_memory("d2", estimate(10**6, 10**9, 1, 1, 8))


def test_explain_shows_it(peerdescent_: Command) -> None:
    flags = ("explain", "--problem", "quadratic", "--graph", "ring:4", "-a", "d2")
    assert "4 agents × 10 parameters × 5 arrays × 4 bytes" in " ".join(peerdescent_(*flags).out.split())
    found = json.loads(peerdescent_(*flags, "--json").out)["memory"]
    assert found["parameters"] == 10
    assert found["total"] >= found["agents"] * found["parameters"] * found["arrays"] * found["itemsize"]


def test_tuning_is_refused_too(peerdescent_: Command, free: pytest.MonkeyPatch) -> None:
    flags = "--problem ripples --graph ring:4 -a d-sgd-1 --set problem.dimension=1000000 --trials 2 --seeds 1 --jobs 1"
    said = peerdescent_("tune", *flags.split(), "--out", "a")
    assert said.code == 2
    assert "of memory are free" in said.sentences[0]


@pytest.mark.parametrize("first_version", [True, False])
def test_limits_of_containers_count(first_version: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info, groups, system = tmp_path / "meminfo", tmp_path / "cgroup", tmp_path / "system"
    for name, path in (("MEMINFO", info), ("CGROUPS", groups), ("SYSTEM", system)):
        monkeypatch.setattr(measured, name, path)
    info.write_text("MemTotal: 9000 kB\nMemAvailable:    5000 kB\n")
    assert available_memory() == 5000 * 1024
    groups.write_text("1:cpu:/a\n4:memory:/a/b\n" if first_version else "0::/a/b\n")
    folder = (system / "memory" if first_version else system) / "a" / "b"
    folder.mkdir(parents=True)
    limit, usage = ("limit_in_bytes", "usage_in_bytes") if first_version else ("max", "current")
    cached = "total_inactive_file" if first_version else "inactive_file"
    (folder.parent / f"memory.{limit}").write_text("3000000\n")
    (folder.parent / f"memory.{usage}").write_text("1000000\n")
    (folder.parent / "memory.stat").write_text(f"anon 5\n{cached} 400000\n")
    (folder / f"memory.{limit}").write_text("max\n")
    assert available_memory() == 2_400_000
    (folder / f"memory.{limit}").write_text("50\n")
    (folder / f"memory.{usage}").write_text("80\n")
    assert available_memory() == 0
    info.write_text("")
    groups.unlink()
    assert available_memory() is None or available_memory() > 0


def test_a_problem_without_a_known_size_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make(agents: int = 2) -> problems.Problem:
        made.append(agents)
        return problems.quadratic(agents)

    monkeypatch.setitem(problems.registry._PROBLEMS, "mine", problems.registry.Entry(make, ""))
    (plan,) = resolve(Experiment(problem="mine", graph="ring:3", algorithms=("d2",)))
    plan.check_memory()
    assert plan.memory().parameters == 10
    _ = plan.problem
    assert made == [3]
