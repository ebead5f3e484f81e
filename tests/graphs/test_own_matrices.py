import networkx as nx
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError

SPECS = st.sampled_from(["ring:5", "path:4", "star:6", "complete:4", "er:8:0.4", "path:2", "grid:2:3"])


def adjacency(graph):
    return nx.to_numpy_array(graph.to_networkx(), nodelist=range(graph.n))


def write(folder, matrix, separator=","):
    path = folder / "matrix.csv"
    path.write_text("# rows\n" + "\n".join(separator.join(repr(float(x)) for x in row) for row in matrix) + "\n")
    return path


@given(spec=SPECS, form=st.sampled_from([np.asarray, scipy.sparse.csr_array, scipy.sparse.coo_matrix, np.float32]))
@settings(max_examples=30, deadline=None)
def test_an_adjacency_matrix_is_the_graph_that_networkx_made_it_of(spec, form):
    graph = graphs.parse(spec)
    assert graphs.as_graph(form(adjacency(graph))) == graph


@given(spec=SPECS, seed=st.integers(0, 99))
@settings(max_examples=20, deadline=None)
def test_entries_are_the_edges_weights(spec, seed):
    plain = graphs.parse(spec)
    weights = np.random.default_rng(seed).uniform(0.1, 0.9, len(plain.edges))
    graph = graphs.Graph(plain.n, plain.edges, tuple(weights))
    assert graphs.as_graph(adjacency(graph)) == graph
    assert graphs.as_graph(graph.laplacian("weighted")) == graph
    mixing = np.eye(graph.n) - graph.laplacian("weighted").toarray()
    assert graphs.as_graph(mixing).edges == graph.edges
    np.testing.assert_allclose(graphs.as_graph(mixing).weights, weights)


@pytest.mark.parametrize("spec", ["path:2", "path:3", "complete:3", "ring:4", "er:8:0.4"])
@pytest.mark.parametrize("separator", [",", " ", "\t", "; "])
def test_files_of_adjacency_mixing_and_laplacian_matrices(tmp_path, spec, separator):
    graph = graphs.parse(spec)
    for matrix in (adjacency(graph), graph.mixing().toarray(), graph.laplacian("unit").toarray()):
        path = write(tmp_path, matrix, separator)
        if np.array_equal(matrix, matrix.astype(int)):
            path.write_text(path.read_text().replace(".0", ""))
        found = graphs.parse(f"file:{path}")
        assert found.edges == graph.edges
        assert graphs.parse(found.text) == found


def test_a_weighted_edge_list_of_three_lines_is_no_matrix(tmp_path):
    path = tmp_path / "edges.txt"
    path.write_text("0 1 2\n1 2 3\n2 3 4\n")  # as a matrix it is symmetric
    assert graphs.parse(f"file:{path}").weights == (2, 3, 4)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.zeros((2, 3)), "is 2×3: expected a square matrix"),
        (np.zeros(3), "expected a square matrix"),
        (np.zeros((0, 0)), "expected a square matrix"),
        (np.array([[1j]]), "expected a square matrix of numbers"),
        (np.array([["a"]]), "expected a square matrix of numbers"),
        ([[0, 1], [1, 0]], "cannot make a graph from list"),
        (np.array([[0, 1], [-0.5, 0]]), r"not symmetric: entry \(0, 1\) is 1 and entry \(1, 0\) is -0.5"),
        (np.array([[0, np.nan], [1, 0]]), "has nan in row 0, column 1: expected finite"),
        (np.array([[0, -1, 1], [-1, 0, 1], [1, 1, 0]]), "has -1 in row 0, column 1: the weight of an edge must be"),
        (np.array([[1, 1], [1, 0]]), "has 1 in row 0, column 0: an agent has no edge to itself"),
        (np.diag(np.ones(2), 2) + np.diag(np.ones(2), -2), "not connected: it has 2 parts"),
    ],
)
def test_wrong_matrices(matrix, words):
    with pytest.raises(InputError, match=words):
        graphs.as_graph(matrix)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0,1,0,1\n1,0,1\n", "line 2: expected 4 numbers as in the first row, found 3"),
        ("0,1,0,1\n1,0,x,0\n", "line 2: expected finite numbers, found 'x'"),
        ("0,1,0,inf\n1,0,1,0\n", "line 1: expected finite numbers, found 'inf'"),
        ("0,1,0,1\n1,0,1,0\n", "is 2×4: expected a square matrix"),
        ("0,1,0,-1\n1,0,1,0\n0,1,0,1\n0,0,1,0\n", r"not symmetric: entry \(0, 3\) is -1 and entry \(3, 0\) is 0"),
    ],
)
def test_wrong_files_are_named(tmp_path, text, words):
    path = tmp_path / "matrix.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=words) as caught:
        graphs.from_file(path)
    assert str(path) in str(caught.value)
