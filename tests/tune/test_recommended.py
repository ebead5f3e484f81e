"""Where a theorem recommends values, a tuning tries them in every round."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from peerdescent import algorithms, graphs, theory
from peerdescent.experiments.resolve import resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.tune.recommended import recommended
from peerdescent.tune.search import Budget
from peerdescent.tune.space import Space
from peerdescent.tune.tuning import tune

EXACT = "dsgpa-f-pb-exact"
SETTINGS: dict[str, Any] = {"problem": "quadratic", "graph": "ring:5", "batch_size": 0, "iterations": 200}


def point(name: str = EXACT, iterations: int = 200, **keys: Any) -> dict[str, float] | None:
    experiment = Experiment(algorithms=(name,), **{**SETTINGS, **keys})
    found = recommended(experiment, {name: Space.of(name, resolve(experiment)[0].algorithm)})[name](iterations)
    return None if found is None else dict(found)


@pytest.mark.parametrize("dual", ["jacobi", "gauss-seidel"])
@pytest.mark.parametrize("iterations", [20, 3000, 10**6])
def test_the_values_satisfy_the_theorem_in_spite_of_rounding(dual: str, iterations: int) -> None:
    values = point(iterations=iterations, set={"dual": dual})
    assert values is not None
    curvatures = np.linalg.eigvalsh(resolve(Experiment(algorithms=(EXACT,), **SETTINGS))[0].problem.A.numpy())  # type: ignore[attr-defined]
    method = algorithms.make(EXACT, dual=dual, **values)
    rho = float(np.linalg.eigvalsh(graphs.ring(5).laplacian().toarray())[-1])
    assert theory.exact_failing(method, float(curvatures.min()), float(curvatures.max()), rho) == []


def test_the_step_is_shorter_for_longer_runs() -> None:
    short, long = point(iterations=10_000), point(iterations=1_000_000)
    assert short is not None
    assert long is not None
    assert short["eta"] == pytest.approx(100 * long["eta"], rel=1e-3)


def test_where_the_theorem_is_silent_nothing_is_recommended() -> None:
    assert point("d2") is None
    assert point("dsgpa-t-pb-exact") is None  # its parameters vary
    assert point(communication_period=2) is None
    assert point(batch_size=1, set={"problem": {"noise": 1.0}}) is None


def test_a_tuning_tries_what_is_recommended(tmp_path: Path) -> None:
    experiment = Experiment(algorithms=(EXACT, "d2"), dtype="float64", **SETTINGS)
    found = tune(experiment, tmp_path / "tuned", Budget(trials=6, seeds=1))
    lines = [json.loads(line) for line in (tmp_path / "tuned" / "trials.jsonl").read_text().splitlines()]
    own = [line for line in lines if line["method"] == EXACT]
    for line in {line["round"]: line for line in own}.values():
        wanted = point(iterations=line["iterations"])
        assert wanted is not None
        tried = [other["parameters"] for other in own if other["round"] == line["round"]]
        assert wanted in tried or len(tried) == 1  # the best of the round before comes first
    assert found.methods[0].best is not None
