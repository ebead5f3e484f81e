"""The search rejects points that are unstable in the experiment as it runs, communication period included."""

from pathlib import Path

import numpy as np
import pytest

from peerdescent import theory
from peerdescent.experiments.schema import Experiment
from peerdescent.tune.search import Budget
from peerdescent.tune.tuning import _Search, stability_test, tune

RING = {"problem": "quadratic", "graph": "ring:10", "algorithms": ("d-asg",), "batch_size": 0, "iterations": 20}


@pytest.mark.parametrize("period", [1, 5])
def test_points_are_judged_at_the_communication_period_of_the_experiment(period: int, tmp_path: Path) -> None:
    experiment = Experiment(**RING, communication_period=period)
    search = _Search(experiment, tmp_path, Budget(), 1, lambda stage, runs: lambda run, k: None)
    space = search.spaces["d-asg"]
    stable = stability_test(space, experiment)
    points = [space.near(space.own, 1.0, cube) for cube in np.random.default_rng(0).random((40, 2))]
    methods = [space.at(point) for point in points]
    expected = [theory.stability(method, search.graph, communication_period=period).stable for method in methods]
    assert [stable(point) for point in points] == expected
    otherwise = [theory.stability(method, search.graph).stable for method in methods]
    assert (expected != otherwise) == (period > 1)


def test_a_tuning_rejects_what_only_the_period_makes_unstable(tmp_path: Path) -> None:
    rejected = [
        tune(Experiment(**RING, communication_period=period), tmp_path / str(period), Budget(trials=6, seeds=1))
        .methods[0]
        .rejected
        for period in (1, 5)
    ]
    assert rejected[0] == 0 < rejected[1]
