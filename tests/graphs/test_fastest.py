"""Closed forms: Xiao and Boyd (2004), and Boyd, Diaconis, Sun and Xiao on the path (2006)."""

import numpy as np
import pytest

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs.fastest import fastest


def norm(W):
    n = len(W)
    return np.linalg.norm(W - np.ones((n, n)) / n, 2)


@pytest.mark.parametrize("spec", ["ring:7", "star:6", "er:12:0.4", "authors10", "path:2"])
def test_best_constant_is_the_closed_form(spec):
    graph = graphs.parse(spec)
    eigenvalues = np.linalg.eigvalsh(graph.laplacian("unit").toarray())
    low, high = eigenvalues[1], eigenvalues[-1]
    W = graph.mixing("best-constant").toarray()
    np.testing.assert_allclose(W, np.eye(graph.n) - 2 / (low + high) * graph.laplacian("unit").toarray(), atol=1e-9)
    assert norm(W) == pytest.approx((high - low) / (high + low), abs=1e-9)
    for other in ("metropolis", "lazy", "max-degree"):
        if np.ptp(graph.mixing(other).data[graph.mixing(other).data > 0]) < 1e-12:
            assert norm(W) <= norm(graph.mixing(other).toarray()) + 1e-9


@pytest.mark.parametrize(
    ("spec", "value"),
    [
        ("path:2", 0.0),
        ("path:5", np.cos(np.pi / 5)),
        ("path:8", np.cos(np.pi / 8)),
        ("star:6", 5 / 7),  # edges are alike: the best constant is the best, (λn − λ2)/(λn + λ2) with λ = 1 and n
        ("ring:8", (4 - (2 - 2 * np.cos(np.pi / 4))) / (4 + (2 - 2 * np.cos(np.pi / 4)))),
        ("complete:5", 0.0),
        ("hypercube:3", 2 / 4),
    ],
)
def test_the_smallest_norm_on_graphs_with_a_closed_form(spec, value):
    graph = graphs.parse(spec)
    found = fastest(graph)
    assert found.norm == pytest.approx(value, abs=1e-6)
    assert norm(graph.mixing("fastest").toarray()) == pytest.approx(value, abs=1e-6)
    assert value - 1e-6 < found.bound < value + 1e-9


@pytest.mark.parametrize("spec", ["authors10", "er:12:0.4", "ba:14:2"])
def test_the_bound_holds_for_all_weights_and_is_tight(spec):
    graph = graphs.parse(spec)
    found = fastest(graph)
    assert 0 <= found.norm - found.bound < 1e-5
    W = graph.mixing("fastest")
    assert (abs(W - W.T)).max() == 0
    np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-12)
    assert found.norm < norm(graph.mixing("best-constant").toarray())
    random = np.random.default_rng(0)
    for size in (1e-3, 1e-2, 0.1):
        weights = found.weights + size * random.standard_normal(len(found.weights))
        kind = "edges:" + ",".join(f"{i}-{j}={w!r}" for (i, j), w in zip(graph.edges, weights.tolist(), strict=True))
        try:
            assert norm(graph.mixing(kind).toarray()) >= found.bound
        except InputError:  # no longer a mixing matrix
            continue


def test_too_many_edges_are_refused_with_an_estimate():
    with pytest.raises(InputError, match=r"system of 1,225 unknowns .* about 2 minutes .* use 'best-constant'"):
        graphs.complete(50).mixing("fastest")


def test_a_single_agent():
    for kind in ("fastest", "best-constant"):
        assert graphs.complete(1).mixing(kind).toarray().tolist() == [[1.0]]
