"""Predictions for graph sequences by their names, as runs make them."""

from typing import Any

import pytest
from tests.support.rounds import one_peer

from peerdescent import algorithms, graphs, theory, train
from peerdescent.experiments.explain import explain
from peerdescent.mixing.sequence_weights import make_weights
from peerdescent.theory.prediction import predict


def test_a_sequence_by_name_is_the_one_written_out() -> None:
    method = algorithms.make("d-sgt-1", eta=0.1)
    named = theory.stability(method, "onepeer-exp:8", curvature=0.5)
    assert named.radius == pytest.approx(theory.judge_rounds(method, one_peer(3), 0.5).radius)


def test_d2_is_stable_because_its_weights_become_lazy() -> None:
    method = algorithms.make("d2", eta=0.2)
    weights = make_weights(graphs.parse("onepeer-exp:16"), "metropolis", "metropolis", method)
    assert "(I+W)/2" in weights.notes[0]
    assert predict(method, weights, "metropolis", "metropolis").settles


@pytest.mark.parametrize("name", ["onepeer-exp:8", "matching:6"])
def test_explain_tells_how_a_sequence_contracts(name: str) -> None:
    facts = explain("quadratic", name, "d-sgt-1")
    assert facts.stability.settles
    assert facts.graph.contraction is not None
    assert facts.graph.gap == facts.graph.contraction.gap
    assert (facts.stability.estimated_from is None) == (name == "onepeer-exp:8")
    plain: dict[str, Any] = facts.as_dict()
    assert plain["graph"]["contraction"]["period"] == (3 if name == "onepeer-exp:8" else None)
    assert "graphs that stay the same" in facts.theorem1.failing[0]


def test_training_warns_on_a_sequence_where_the_method_is_unstable() -> None:
    method = algorithms.make("dsgpa-f", eta=0.5, alpha=2.0, beta=5.0)
    with pytest.warns(UserWarning, match="one period of 2 rounds has spectral radius"):
        train("quadratic", "onepeer-exp:4", method, iterations=2)
