import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError

SPECS = st.one_of(
    st.integers(1, 20).map("ring:{}".format),
    st.integers(1, 20).map("star:{}".format),
    st.integers(1, 12).map("complete:{}".format),
    st.tuples(st.integers(1, 5), st.integers(1, 5)).map(lambda rc: f"torus:{rc[0]}:{rc[1]}"),
    st.tuples(st.integers(2, 20), st.integers(0, 99)).map(lambda ns: f"er:{ns[0]}:0.5:seed={ns[1]}"),
    st.tuples(st.integers(3, 20), st.integers(0, 99)).map(lambda ns: f"ba:{ns[0]}:2:seed={ns[1]}"),
)


def layout_is_canonical(matrix, graph):
    """Each row stores the agent itself and its neighbours, in increasing order."""
    rows = np.split(matrix.indices, matrix.indptr[1:-1])
    return all(row.tolist() == sorted([i, *graph.neighbours(i)]) for i, row in enumerate(rows))


@given(spec=SPECS, kind=st.sampled_from(["unit", "metropolis", "unit:0.5", "metropolis:3"]))
@settings(max_examples=80, deadline=None)
def test_laplacians_are_symmetric_positive_and_kill_consensus(spec, kind):
    graph = graphs.parse(spec)
    laplacian = graph.laplacian(kind)
    dense = laplacian.toarray()
    assert laplacian.dtype == np.float64
    assert laplacian.has_canonical_format
    assert layout_is_canonical(laplacian, graph)
    assert np.array_equal(dense, dense.T)
    np.testing.assert_allclose(dense.sum(axis=1), 0, atol=1e-12)
    assert np.linalg.eigvalsh(dense)[0] > -1e-12 * graph.n


@given(spec=SPECS, kind=st.sampled_from(["metropolis", "lazy", "max-degree"]))
@settings(max_examples=80, deadline=None)
def test_mixing_is_symmetric_and_doubly_stochastic(spec, kind):
    graph = graphs.parse(spec)
    mixing = graph.mixing(kind)
    dense = mixing.toarray()
    assert mixing.dtype == np.float64
    assert layout_is_canonical(mixing, graph)
    assert np.array_equal(dense, dense.T)
    assert dense.min() >= 0
    np.testing.assert_allclose(dense.sum(axis=1), 1, rtol=1e-14)


def metropolis_by_hand(graph):
    g = graph.to_networkx()
    mixing = np.zeros((graph.n, graph.n))
    for i, j in g.edges:
        mixing[i, j] = mixing[j, i] = 1 / (1 + max(g.degree(i), g.degree(j)))
    return mixing + np.diag(1 - mixing.sum(axis=1))


@given(spec=SPECS)
@settings(max_examples=40, deadline=None)
def test_entries_agree_with_networkx_and_with_the_definition(spec):
    graph = graphs.parse(spec)
    eye, metropolis = np.eye(graph.n), metropolis_by_hand(graph)
    unit = nx.laplacian_matrix(graph.to_networkx(), nodelist=range(graph.n)).toarray()
    np.testing.assert_array_equal(graph.laplacian("unit").toarray(), unit)
    np.testing.assert_array_equal(graph.laplacian("unit:0.25").toarray(), unit / 4)
    np.testing.assert_allclose(graph.mixing().toarray(), metropolis, rtol=1e-14, atol=1e-16)
    np.testing.assert_allclose(graph.laplacian().toarray(), eye - metropolis, atol=1e-15)
    np.testing.assert_allclose(graph.mixing("lazy").toarray(), (eye + metropolis) / 2, atol=1e-15)
    largest = max(degree for _, degree in graph.to_networkx().degree)
    np.testing.assert_allclose(graph.mixing("max-degree").toarray(), eye - unit / (1 + largest), atol=1e-15)


@given(weights=st.lists(st.floats(1e-3, 1e3), min_size=6, max_size=6))
@settings(max_examples=30, deadline=None)
def test_weighted_laplacian_agrees_with_networkx(weights):
    graph = graphs.Graph(6, graphs.ring(6).edges, tuple(weights))
    wanted = nx.laplacian_matrix(graph.to_networkx(), nodelist=range(6)).toarray()
    np.testing.assert_allclose(graph.laplacian("weighted").toarray(), wanted, rtol=1e-12)
    np.testing.assert_allclose(graph.laplacian("weighted:2").toarray(), 2 * wanted, rtol=1e-12)
    assert (graph.mixing() != graphs.ring(6).mixing()).nnz == 0  # weights play no part


@pytest.mark.parametrize("n", [1, 2, 3, 10])
def test_uniform_averages_at_once(n):
    np.testing.assert_allclose(graphs.complete(n).mixing("uniform").toarray(), 1 / n, rtol=1e-14)


def test_a_zero_on_the_diagonal_is_stored():
    lone = graphs.ring(1).laplacian("unit")
    assert lone.nnz == 1
    assert lone.indices.tolist() == [0]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("unti", r"no Laplacian 'unti' \(did you mean 'unit'\?\); use one of metropolis, unit, weighted"),
        ("x:y", "no Laplacian 'x'"),
        ("unit:", "SCALE must be a positive number, not ''"),
        ("unit:0", "SCALE must be"),
        ("unit:-1", "SCALE must be"),
        ("unit:inf", "SCALE must be"),
        ("unit:1:2", "SCALE must be"),
        ("unit:1e308", "overflows or underflows float64"),
        ("metropolis:5e-324", "overflows or underflows float64"),
        ("weighted", "needs edge weights and ring:5"),
    ],
)
def test_wrong_laplacians(kind, words):
    with pytest.raises(InputError, match=words):
        graphs.ring(5).laplacian(kind)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("lasy", "did you mean 'lazy'"),
        ("metropolis:2", "no mixing matrix 'metropolis:2'"),
        ("uniform", "use complete:5"),
    ],
)
def test_wrong_mixings(kind, words):
    with pytest.raises(InputError, match=words):
        graphs.ring(5).mixing(kind)
