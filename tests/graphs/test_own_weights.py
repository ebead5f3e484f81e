import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs.own_weights import as_kind, label, restricted

W = np.array([[0.5, 0.3, 0.2], [0.3, 0.6, 0.1], [0.2, 0.1, 0.7]])
L = np.array([[2.0, -1.5, -0.5], [-1.5, 1.5, 0.0], [-0.5, 0.0, 0.5]])


@st.composite
def birkhoff(draw):
    """A symmetric doubly stochastic matrix: a mixture of the identity and of permutations with their inverses."""
    n = draw(st.integers(2, 9))
    random = np.random.default_rng(draw(st.integers(0, 10**6)))
    parts = [np.eye(n), np.roll(np.eye(n), 1, axis=0)]  # the cycle connects all agents
    parts += [np.eye(n)[random.permutation(n)] for _ in range(draw(st.integers(0, 4)))]
    shares = random.dirichlet(np.ones(len(parts)))
    found = sum(share * part for share, part in zip(shares, parts, strict=True))
    return (found + found.T) / 2


@given(matrix=birkhoff(), sparse=st.booleans())
@settings(max_examples=25, deadline=None)
def test_a_doubly_stochastic_matrix_is_the_mixing_matrix(matrix, sparse):
    graph = graphs.as_graph(matrix)
    given = scipy.sparse.csc_array(matrix) if sparse else matrix
    np.testing.assert_allclose(graph.mixing(given).toarray(), matrix, atol=1e-14)
    text = as_kind("mixing", given)
    assert as_kind("mixing", text) == text
    assert (graph.mixing(text) != graph.mixing(given)).nnz == 0  # bit for bit
    np.testing.assert_allclose(
        graph.laplacian(np.eye(graph.n) - matrix).toarray(), np.eye(graph.n) - matrix, atol=1e-14
    )


def test_files_arrays_and_texts_are_one(tmp_path):
    path = tmp_path / "W.csv"
    path.write_text("\n".join(",".join(map(repr, row)) for row in W.tolist()))
    assert as_kind("mixing", f"file:{path}") == as_kind("mixing", W) == "edges:0-1=0.3,0-2=0.2,1-2=0.1"
    assert as_kind("mixing", W.astype(np.float32)).startswith("edges:0-1=0.3")
    assert as_kind("laplacian", L) == "edges:0-1=1.5,0-2=0.5"
    np.testing.assert_allclose(graphs.complete(3).laplacian(L).toarray(), L)
    np.testing.assert_allclose(graphs.complete(1).mixing(np.ones((1, 1))).toarray(), 1)
    np.testing.assert_allclose(graphs.complete(1).laplacian([[0.0]]).toarray(), 0)


def test_negative_weights_may_be_valid():
    matrix = np.array([[0.6, 0.5, -0.1], [0.5, 0.0, 0.5], [-0.1, 0.5, 0.6]])
    np.testing.assert_allclose(graphs.complete(3).mixing(matrix).toarray(), matrix, atol=1e-15)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (np.ones((2, 3)) / 3, "W is 2×3: expected a square matrix"),
        (np.add(W, np.diag([1e-3, 0], 1)), r"W is not symmetric: entry \(0, 1\) is 0.301 and entry \(1, 0\)"),
        (W + np.diag([0, 0.1, 0]), "row 1 of W sums to 1.1: expected 1"),
        (W * np.nan, "W has nan in row 0, column 0"),
        (np.eye(3), "W is not connected: it has 3 parts, and no path of entries from agent 0 to agent 1"),
        (np.array([[0.0, 1.0, 0], [1.0, -0.5, 0.5], [0, 0.5, 0.5]]), "the smallest eigenvalue of W is -1.366"),
        (np.array([[1.4, -0.2, -0.2], [-0.2, 0.7, 0.5], [-0.2, 0.5, 0.7]]), "W has the eigenvalue 1.6 besides"),
        ([["a", "b"], ["c", "d"]], "expected a square matrix of numbers"),
        (3.0, "mixing = 3.0: expected a kind such as 'metropolis', file:PATH or a matrix"),
        (None, "mixing = None: expected a kind"),
        (np.ones((2, 2)) / 2, "W is 2×2 and the graph has 3 agents"),
        ("file:", "nothing follows the colon"),
        ("file:absent.csv", "there is no matrix file absent.csv"),
        ("edges:0-1=0.5,1-2", "expected I-J=W with a number W other than 0"),
        ("edges:0-1=0.5,1-0=0.5", "given twice"),
        ("edges:0-0=0.5", "connects an agent to itself"),
        ("edges:x", "weights: expected I-J"),
    ],
)
def test_wrong_mixing_matrices(matrix, words):
    with pytest.raises(InputError, match=words):
        graphs.complete(3).mixing(matrix)


@pytest.mark.parametrize(
    ("matrix", "words"),
    [
        (L + np.eye(3), "row 0 of L sums to 1: expected 0"),
        (-L, "L has the eigenvalue -3.*: expected above 0"),
        (np.zeros((3, 3)), "L is not connected"),
        (np.array([[1, -2, 1], [-2, 4, -2], [1, -2, 1.0]]), "L has the eigenvalue .* besides that of consensus"),
    ],
)
def test_wrong_laplacians(matrix, words):
    with pytest.raises(InputError, match=words):
        graphs.complete(3).laplacian(matrix)


def test_entries_must_be_edges_of_the_graph():
    with pytest.raises(InputError, match=r"W has 0.2 in row 0, column 2, which is no edge of path:3 \(3 agents"):
        graphs.path(3).mixing(W)
    with pytest.raises(InputError, match=r"L has -0.5 in row 0, column 2"):
        graphs.path(3).laplacian(L)
    on_fewer = graphs.complete(3).mixing([[0.5, 0.5, 0], [0.5, 0, 0.5], [0, 0.5, 0.5]])
    assert on_fewer.nnz == 9  # edges without weight are stored


def test_weights_of_the_graph_are_a_mixing_matrix():
    graph = graphs.as_graph(W)
    np.testing.assert_allclose(graph.mixing("weighted").toarray(), W, atol=1e-15)
    heavy = graphs.parse("edges:0-1=1,1-2=1")
    with pytest.raises(InputError, match="the smallest eigenvalue of W is -2: expected above −1"):
        heavy.mixing("weighted")
    with pytest.raises(InputError, match="'weighted' needs edge weights"):
        graphs.ring(4).mixing("weighted")


def test_the_eigenvalues_of_a_large_graph_whose_matrix_has_fewer_edges():
    """A path of weights on a star-like graph is no star, whatever the stored zeros say."""
    n = 600
    hub = {(0, j) for j in range(1, n)} | {(j, j + 1) for j in range(n - 1)}
    graph = graphs.Graph(n, tuple(sorted(hub)))
    kind = "edges:" + ",".join(f"{j}-{j + 1}=0.25" for j in range(n - 1))
    found = graphs.spectrum(graph.laplacian(kind), graph.mixing(kind))
    assert found.rho2 == pytest.approx(0.25 * (2 - 2 * np.cos(np.pi / n)), rel=1e-4)
    assert found.rho == pytest.approx(0.25 * (2 + 2 * np.cos(np.pi / n)), rel=1e-6)


def test_after_a_loss_the_other_weights_stay():
    kind = as_kind("mixing", W)
    left = graphs.complete(3).subset([0, 2]).mixing(restricted(kind, [0, 2]))
    np.testing.assert_allclose(left.toarray(), [[0.8, 0.2], [0.2, 0.8]])
    assert restricted("lazy", [0, 2]) == "lazy"


def test_labels_are_short_and_tell_matrices_apart():
    one, other = as_kind("mixing", W), as_kind("mixing", (np.eye(3) + W) / 2)
    assert label(one) != label(other)
    assert len(label(one)) < 20
