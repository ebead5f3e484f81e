import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.algorithms import make
from peerdescent.mixing.sequence_weights import make_weights

RANDOM = ("matching:7", "matching:1", "matcha:er:10:0.4:0.5", "active-edges:ring:9:0.2", "equidyn:8", "matching:1100")


def laplacian(n, pairs, weights):
    """L = Σ w_ij (e_i − e_j)(e_i − e_j)ᵀ, edge by edge."""
    L = np.zeros((n, n))
    for (i, j), w in zip(pairs, weights, strict=True):
        e = np.zeros(n)
        e[i], e[j] = 1, -1
        L += w * np.outer(e, e)
    return L


@pytest.mark.parametrize("spec", [spec for spec in RANDOM if not spec.endswith("1100")])
@pytest.mark.parametrize("mixing", ["metropolis", "lazy", "max-degree"])
@settings(max_examples=5, deadline=None)
@given(round=st.integers(0, 2**40))
def test_a_random_round_has_the_matrices_of_its_graph(spec, mixing, round):
    sequence = graphs.parse(spec)
    if sequence.weighted_rounds and mixing != "metropolis":
        return
    found = make_weights(sequence, "unit:0.5", mixing, make("d-sgd-1")).at(round)
    graph = sequence.graph(round)
    degrees = graph.degrees
    by_edge = {
        "metropolis": [1 / (1 + max(degrees[i], degrees[j])) for i, j in graph.edges],
        "lazy": [0.5 / (1 + max(degrees[i], degrees[j])) for i, j in graph.edges],
        "max-degree": [1 / (1 + degrees.max())] * len(graph.edges),
    }[mixing]
    weights = graph.weights if sequence.weighted_rounds else by_edge
    np.testing.assert_allclose(found.disagreement.toarray(), laplacian(graph.n, graph.edges, weights), atol=1e-15)
    unit = [0.5] * len(graph.edges)
    np.testing.assert_allclose(found.laplacian.toarray(), laplacian(graph.n, graph.edges, unit), atol=1e-15)
    assert found.pairs.tolist() == [*map(list, graph.edges), *([j, i] for i, j in graph.edges)]


@pytest.mark.parametrize("spec", RANDOM)
def test_rounds_are_the_same_in_any_order(spec):
    rounds = (0, 700, 1, 2000, 0, 1999)
    together, alone = make_weights(graphs.parse(spec), "metropolis", "metropolis", make("dsgpa-f")), []
    for round in rounds:
        alone.append(make_weights(graphs.parse(spec), "metropolis", "metropolis", make("dsgpa-f")).at(round))
    for round, expected in zip(rounds, alone, strict=True):
        assert (together.at(round).laplacian != expected.laplacian).nnz == 0
        assert together.at(round).pairs.tolist() == expected.pairs.tolist()
