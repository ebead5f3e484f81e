"""Directed graphs as values, texts, files, matrices and networkx graphs; strongly connected or refused."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array

from peerdescent import graphs
from peerdescent.errors import InputError


@st.composite
def digraphs(draw, most: int = 9) -> graphs.DirectedGraph:
    """A random strongly connected graph: a ring through all agents in a random order, and more edges."""
    n = draw(st.integers(2, most))
    order = draw(st.permutations(range(n)))
    ring = {(order[i], order[(i + 1) % n]) for i in range(n)}
    others = [(i, j) for i in range(n) for j in range(n) if i != j]
    return graphs.directed_graph(n, sorted(ring | set(draw(st.lists(st.sampled_from(others), max_size=2 * n)))))


def edges(graph: graphs.AnyGraph, round: int = 0) -> set[tuple[int, int]]:
    assert isinstance(graph, graphs.DirectedGraph)
    return set(graph.arcs(round).edges)


@pytest.mark.parametrize("n", [1, 2, 3, 7, 8])
def test_the_topologies(n: int) -> None:
    hops = [h for h in (1, 2, 4) if h < n]
    assert edges(graphs.parse(f"directed-ring:{n}")) == ({(i, (i + 1) % n) for i in range(n)} if n > 1 else set())
    assert edges(graphs.parse(f"directed-exp:{n}")) == {(i, (i + h) % n) for i in range(n) for h in hops}
    over_time = graphs.parse(f"directed-onepeer-exp:{n}")
    assert over_time.period == max(1, len(hops))
    for r in range(2 * len(hops)):
        assert edges(over_time, r) == {(i, (i + hops[r % len(hops)]) % n) for i in range(n)}
    for name in ("ring", "exp", "onepeer-exp"):
        graph = graphs.parse(f"directed-{name}:{n}")
        assert graph.text == graph.spec
        assert graphs.parse(graph.text) == graph


@given(digraphs())
@settings(max_examples=20, deadline=None)
def test_a_graph_is_made_again_by_its_text_matrix_and_networkx_graph(graph: graphs.DirectedGraph) -> None:
    assert graphs.parse(graph.text) == graph
    assert graphs.as_graph(graph.to_networkx()) == graph
    adjacency = nx.to_numpy_array(graph.to_networkx(), nodelist=range(graph.n))
    assert graphs.from_directed_matrix(adjacency) == graph
    if not (adjacency == adjacency.T).all():
        assert graphs.as_graph(adjacency) == graphs.as_graph(csr_array(adjacency)) == graph
    assert nx.is_strongly_connected(graph.to_networkx())
    assert graph.diameter() == nx.diameter(graph.to_networkx())
    assert graph.out_degrees.tolist() == [degree for _, degree in sorted(graph.to_networkx().out_degree)]
    assert graph.edges_before(3) == 3 * len(graph.arcs(0).edges) == 3 * graph.mean_edges


@given(digraphs(), st.sampled_from(["metropolis", "lazy"]))
@settings(max_examples=20, deadline=None)
def test_columns_of_P_sum_to_one_and_follow_the_edges(graph: graphs.DirectedGraph, kind: str) -> None:
    P = graphs.push_matrix(graph, 0, kind).toarray()
    np.testing.assert_allclose(P.sum(axis=0), 1, rtol=1e-15)
    assert {(j, i) for i, j in np.argwhere(P) if i != j} == edges(graph)
    out = graph.out_degrees
    for j in range(graph.n):
        kept = 1 / (1 + out[j])
        assert P[j, j] == pytest.approx(kept if kind == "metropolis" else (1 + kept) / 2)


def test_weights_of_your_own() -> None:
    P = np.array([[0.5, 0, 0.75], [0.5, 0.5, 0], [0, 0.5, 0.25]])
    graph = graphs.as_graph(P)
    assert edges(graph) == {(0, 1), (1, 2), (2, 0)}
    np.testing.assert_array_equal(graphs.push_matrix(graph, 0, "weighted").toarray(), P)
    weighted = graphs.from_digraph(nx.DiGraph([(0, 1, {"weight": 0.25}), (1, 0, {"weight": 0.5})]))
    np.testing.assert_array_equal(graphs.push_matrix(weighted, 0, "weighted").toarray(), [[0.75, 0.5], [0.25, 0.5]])


def test_files(tmp_path) -> None:
    lines, matrix = tmp_path / "lines.txt", tmp_path / "matrix.csv"
    lines.write_text("1 2\n2 3  # next\n3 1\n2 1\n")
    assert edges(graphs.parse(f"directed-file:{lines}")) == {(0, 1), (1, 2), (2, 0), (1, 0)}
    matrix.write_text("0,1,0,0\n0,0,1,0\n0,0,0,1\n1,0,0,0\n")
    for spec in (f"directed-file:{matrix}", f"file:{matrix}"):
        graph = graphs.parse(spec)
        assert graph == graphs.parse("directed-ring:4")
        assert graph.text == "directed-edges:0-1,1-2,2-3,3-0"  # needs no file
    matrix.write_text("0,1,0\n0,0,1\n1,0,0\n")
    assert graphs.parse(f"directed-file:{matrix}") == graphs.parse("directed-ring:3")


def test_a_list_of_directed_graphs_is_one_over_time() -> None:
    first = nx.DiGraph([(0, 1), (1, 2)])
    second = graphs.directed_graph(3, [(2, 0)], connected=False)
    made = graphs.sequence([first, second])
    assert made.text == "directed-rounds:3:0-1,1-2/2-0"
    assert made == graphs.parse(made.text)
    assert made.mean_degrees.tolist() == [0.5, 0.5, 0.5]
    assert graphs.sequence(["directed-ring:4", "directed-exp:4"]).period == 2
    assert graphs.sequence(["directed-ring:4", "directed-ring:4"]).period == 1
    with pytest.raises(InputError, match=r"round 1 is .*, and another round is directed"):
        graphs.sequence(["directed-ring:4", "ring:4"])
    with pytest.raises(InputError, match="over one period no directed path leads from agent 1 to agent 0"):
        graphs.sequence([first, nx.DiGraph([(0, 2), (1, 2)])])


def test_a_subset_keeps_the_edges_between_its_agents() -> None:
    graph = graphs.parse("directed-exp:6")
    kept = graph.subset([0, 1, 3, 5])
    place = {0: 0, 1: 1, 3: 2, 5: 3}
    assert edges(kept) == {(place[i], place[j]) for i, j in edges(graph) if i in place and j in place}
    assert graphs.parse("subset:0,1,3,5:directed-exp:6") == kept
    with pytest.raises(InputError, match="not strongly connected"):
        graphs.parse("directed-ring:5").subset([0, 1, 2])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: graphs.parse("directed-edges:0-1,1-2,0-2"), "no directed path leads from agent 1 to agent 0"),
        (lambda: graphs.parse("directed-edges:1-0,1-2,2-1"), "no directed path leads from agent 0 to agent 1"),
        (lambda: graphs.parse("directed-edges:0-1,0-1,1-0"), "from 0 to 1 is given twice"),
        (lambda: graphs.parse("directed-edges:0-0"), "connects an agent to itself"),
        (lambda: graphs.parse("directed-edges:0>1"), "expected I-J or I-J=W"),
        (lambda: graphs.parse("directed-rounds:3"), "expected N:EDGES/EDGES"),
        (lambda: graphs.parse("directed-rounds:3:0-1/1-0"), "over one period no directed path leads from agent 0 to"),
        (lambda: graphs.parse("directed-ring:0"), "N is 0, expected"),
        (lambda: graphs.directed_graph(2, [(0, 2), (1, 0)]), "an agent in the edge"),
        (lambda: graphs.directed_graph(2, "0-1"), "expected pairs of agents"),
        (lambda: graphs.directed_graph(2, [(0, 1), (1, 0)], [1.0]), "1 weights for 2 edges"),
        (lambda: graphs.as_graph(nx.DiGraph([(0, 1)])), "no directed path leads from agent 1 to agent 0"),
        (lambda: graphs.as_graph(np.array([[0.5, 0.5], [0.25, 0.75]])), "column 0 sums to 0.75.*transpose it"),
        (lambda: graphs.as_graph(np.array([[0, 1.0], [0, 0]])), "not strongly connected"),
        (lambda: graphs.push_matrix(graphs.parse("directed-edges:0-1=2,1-0=1"), 0, "weighted"), "sum to 2: expected"),
        (lambda: graphs.push_matrix(graphs.parse("directed-ring:3"), 0, "weighted"), "needs edge weights"),
        (lambda: graphs.push_matrix(graphs.parse("directed-ring:3"), 0, "fastest"), "is for undirected graphs"),
        (lambda: graphs.parse("matcha:directed-ring:4:0.5"), "needs an undirected graph, and directed-ring:4"),
        (lambda: graphs.from_networkx(nx.DiGraph([(0, 1), (1, 0)])), "for a DiGraph use from_digraph"),
    ],
)
def test_wrong_directed_graphs_get_a_sentence(make, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)
