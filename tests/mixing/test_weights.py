import numpy as np
import pytest

from peerdescent import algorithms, graphs, theory
from peerdescent.errors import InputError
from peerdescent.experiments.explain import explain
from peerdescent.experiments.resolve import describe, resolve
from peerdescent.experiments.schema import Experiment
from peerdescent.mixing.weights import MixingWeights
from peerdescent.problems import Quadratic
from peerdescent.report.runs import shown
from peerdescent.runs.folder import read_experiment
from peerdescent.training.train import train

W = np.array([[0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.2, 0.1, 0.7]])


def problem():
    return Quadratic(A=[[1.0], [2.0], [0.5]], c=[[0.0], [1.0], [3.0]])


def iterates(W, steps, eta=0.1):
    """D-SGD: x⁺ = Wx − η∇f(x), from zero."""
    a, c, x = np.array([1.0, 2.0, 0.5]), np.array([0.0, 1.0, 3.0]), np.zeros(3)
    for _ in range(steps):
        x = W @ x - eta * a * (x - c)
    return x


def test_a_run_uses_the_matrix_that_it_is_given():
    method = algorithms.make("d-sgd-1", eta=0.1)
    settings = {"iterations": 20, "batch_size": 0, "dtype": "float64", "x0": np.zeros((3, 1))}
    found = train(problem(), W, method, mixing=W, **settings)
    np.testing.assert_allclose(found.x.numpy()[:, 0], iterates(W, 20), rtol=1e-12)


def test_a_run_folder_holds_the_matrix_and_repeats_it(tmp_path):
    (tmp_path / "W.csv").write_text("\n".join(",".join(map(repr, row)) for row in W.tolist()))
    settings = {"iterations": 6, "dtype": "float64"}
    first = train("quadratic", "complete:3", "d-sgd-1", mixing=W, out=tmp_path / "run", **settings)
    recorded = read_experiment(tmp_path / "run")
    assert recorded["mixing"] == "edges:0-1=0.3,0-2=0.2,1-2=0.1"
    again = train("quadratic", recorded["graph"], "d-sgd-1", mixing=recorded["mixing"], **settings)
    assert np.array_equal(first.x, again.x)
    resumed = train(
        "quadratic",
        "complete:3",
        "d-sgd-1",
        mixing=f"file:{tmp_path}/W.csv",
        out=tmp_path / "run",
        resume=True,
        **{**settings, "iterations": 8},
    )
    assert resumed.metrics[-1]["iteration"] == 8
    assert shown("mixing", recorded["mixing"]).startswith("own ")


def test_flags_and_files_take_a_matrix_file(tmp_path):
    path = tmp_path / "W.csv"
    path.write_text("\n".join(" ".join(map(repr, row)) for row in W.tolist()))
    experiment = Experiment(
        problem="quadratic", graph=f"file:{path}", algorithms=("d-sgd-1",), mixing=f"file:{path}", laplacian="weighted"
    )
    (plan,) = resolve(experiment)
    np.testing.assert_allclose(plan.weights.mixing.toarray(), W, atol=1e-15)
    np.testing.assert_allclose(plan.weights.laplacian.toarray(), np.eye(3) - W, atol=1e-15)
    recorded = describe(experiment, "d-sgd-1")
    assert str(path) not in str(recorded)
    with pytest.raises(InputError, match="W is 3×3 and the graph has 4 agents"):
        resolve(experiment.replace(graph="ring:4", laplacian="unit"))
    with pytest.raises(InputError, match=r"there is no matrix file nowhere\.csv"):
        Experiment(mixing="file:nowhere.csv")


def test_theory_and_explain_judge_the_matrix():
    method = algorithms.make("d-sgd-1")
    facts = explain("quadratic", "complete:3", method, mixing=W)
    ends = np.linalg.eigvalsh(W)
    assert (facts.graph.lambda_min, facts.graph.lambda2) == pytest.approx((ends[0], ends[1]))
    assert facts.graph.gap == pytest.approx(1 - ends[1])
    assert theory.stability(method, "complete:3", mixing=W) == theory.stability(
        method, "complete:3", mixing="edges:0-1=0.3,0-2=0.2,1-2=0.1"
    )


def test_fastest_weights_tell_how_good_they_are():
    graph = graphs.parse("authors10")
    found = MixingWeights.build(graph, "metropolis", "fastest", algorithms.make("d-sgd-1"))
    assert "above the smallest possible" in found.notes[0]
    slower = MixingWeights.build(graph, "metropolis", "best-constant", algorithms.make("d-sgd-1"))
    assert found.spectrum.gap > slower.spectrum.gap
    changed = MixingWeights.build(graph, "metropolis", "fastest", algorithms.make("d2"))
    assert len(changed.notes) == 2  # and that D² mixes with (I+W)/2
    np.testing.assert_allclose(changed.mixing.toarray(), (np.eye(10) + found.mixing.toarray()) / 2)


@pytest.mark.parametrize(
    "kinds", [{"mixing": "fastest"}, {"mixing": "best-constant"}, {"mixing": W}, {"laplacian": np.eye(3) - W}]
)
def test_weights_of_one_graph_are_refused_where_it_changes(kinds):
    with pytest.raises(InputError, match="is for one connected graph, and here the graph changes over time"):
        explain("quadratic", "onepeer-exp:4", "d-sgd-1", **kinds)
