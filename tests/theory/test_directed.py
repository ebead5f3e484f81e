"""What is predicted of methods on directed graphs, against the matrices of one round."""

from __future__ import annotations

import numpy as np
import pytest
from tests.mixing.test_push_sum import OVER_TIME, STAR, literal, rounds_of

from peerdescent import explain, graphs, theory
from peerdescent.algorithms import make
from peerdescent.clock.communication import on_graph, step_of
from peerdescent.errors import InputError
from peerdescent.experiments.explain import picture


def radius(spec: str) -> float:
    """Of one period of x⁺ = Px besides the eigenvalue 1: those of A are the same."""
    product = np.linalg.multi_dot([np.eye(graphs.parse(spec).n)] * 2)
    for P in literal(graphs.parse(spec), graphs.parse(spec).period)[0]:
        product = P @ product
    return float(np.sort(np.abs(np.linalg.eigvals(product)))[-2])


@pytest.mark.parametrize("spec", [STAR, OVER_TIME, "directed-ring:5", "directed-exp:6"])
def test_disagreement_shrinks_as_the_second_eigenvalue_of_P(spec: str) -> None:
    expected = radius(spec) ** (1 / graphs.parse(spec).period)
    assert theory.contraction(rounds_of(spec)).per_round == pytest.approx(expected, rel=1e-9)
    facts = explain("quadratic", spec, "sgp")
    assert facts.stability.stable
    assert 1 - facts.stability.margin == pytest.approx(expected, rel=1e-9)
    assert facts.graph.gap == pytest.approx(1 - expected, rel=1e-9)
    assert facts.traffic.bytes_per_iteration[1] > 0
    assert explain("quadratic", spec, "push-diging").stability.stable
    assert not facts.notes


def test_explain_says_how_unequal_the_weights_are() -> None:
    _, w = literal(graphs.parse(STAR), 400)
    facts = explain("quadratic", STAR, "push-diging").graph
    assert facts.push_sum == pytest.approx((w[-1].min(), w[-1].max()))
    assert (facts.edges, facts.degrees, facts.diameter) == (6, (1, 3), 3)
    assert explain("quadratic", "directed-exp:8", "sgp").graph.push_sum == (1.0, 1.0)
    assert explain("quadratic", "ring:4", "sgp").graph.push_sum is None


def test_the_invariant_of_push_diging_survives_and_curvature_is_refused() -> None:
    assert theory.invariants(make("push-diging"), rounds_of(STAR)).survive
    with pytest.raises(InputError, match="no prediction: where agents have different push-sum weights"):
        theory.stability(make("sgp"), STAR, curvature=1.0)
    assert theory.stability(make("sgp"), "directed-ring:4", curvature=1.0).stable


def test_messages_go_one_way_on_the_clock_and_in_the_picture() -> None:
    sent = on_graph(graphs.parse("directed-ring:3"), step_of(make("sgp")))
    assert sent.pairs(0).tolist() == sent.all_pairs.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert picture(graphs.parse("directed-ring:3")) == "   0 1 2\n 0 · ● ·\n 1 · · ●\n 2 ● · ·"
    assert picture(graphs.parse("directed-onepeer-exp:3")) == "   0 1 2\n 0 · 0 1\n 1 1 · 0\n 2 0 1 ·"
