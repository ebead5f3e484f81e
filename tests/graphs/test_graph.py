import pickle

import networkx as nx
import numpy as np
import pytest

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs import Graph


def test_edges_are_stored_in_order_and_weights_follow_them():
    graph = Graph(3, ((2, 1), (1, 0)), (5.0, 7.0))
    assert graph.edges == ((0, 1), (1, 2))
    assert graph.weights == (7.0, 5.0)


def test_equality_ignores_the_text():
    assert Graph(2, ((0, 1),), spec="a") == Graph(2, ((1, 0),), spec="b")
    assert Graph(2, ((0, 1),)) != Graph(2, ((0, 1),), (2.0,))
    assert len({graphs.ring(3), graphs.complete(3)}) == 1


def test_one_agent_is_a_graph():
    lone = Graph(1, ())
    assert lone.degrees.tolist() == [0]
    assert lone.neighbours(0) == ()
    assert lone.diameter() == 0
    assert str(lone) == "graph (1 agent, 0 edges)"
    assert list(lone.to_networkx().nodes) == [0]
    for matrix, value in ((lone.laplacian("weighted"), 0.0), (lone.mixing("uniform"), 1.0)):
        assert matrix.nnz == 1
        assert matrix.toarray().tolist() == [[value]]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((0, ()), "the number of agents is 0, expected"),
        ((-3, ()), "the number of agents is -3"),
        ((2.5, ()), "is 2.5, expected an integer"),
        ((2, ((0, 1), (1, 1))), r"\(1, 1\) connects an agent to itself"),
        ((2, ((0, 2),)), "is 2, expected an integer that is at least 0 and less than 2"),
        ((2, ((-1, 0),)), "is -1, expected"),
        ((2, ((0, 1), (1, 0))), r"\(0, 1\) is given twice"),
        ((2, ((0, 1, 2),)), "pair of agents"),
        ((2, (7,)), r"pair of agents \(i, j\), not 7"),
        ((2, ((0, "1"),)), "is '1', expected an integer"),
        ((2, ((0, 1),), (0.0,)), "positive and finite, not 0.0"),
        ((2, ((0, 1),), (-1.0,)), "positive and finite"),
        ((2, ((0, 1),), (float("nan"),)), "positive and finite"),
        ((2, ((0, 1),), (float("inf"),)), "positive and finite"),
        ((2, ((0, 1),), ("heavy",)), "must be numbers"),
        ((10**30, ((0, 10**25),)), "less than 5000001"),
        ((2, ((0, 1),), (1.0, 2.0)), "2 weights for 1 edges"),
        ((2, ()), "2 parts, and no path from agent 0 to agent 1"),
        ((6, ((0, 1), (1, 2), (4, 5))), "3 parts, and no path from agent 0 to agent 3"),
    ],
)
def test_wrong_graphs_are_refused_in_one_sentence(arguments, words):
    with pytest.raises(InputError, match=words) as caught:
        Graph(*arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "edges", [((0, 1), (1, 1)), ((0, 3), (0, 1)), ((-1, 0),), ((0, 1), (1, 0)), ((0, 1),), ((2, 1), (0, 1))]
)
def test_an_array_of_edges_gives_the_same_graph_or_the_same_error(edges):
    def outcome(make):
        try:
            return make()
        except InputError as error:
            return str(error)

    assert outcome(lambda: Graph.from_pairs(3, np.array(edges))) == outcome(lambda: Graph(3, edges))


@pytest.mark.parametrize(
    "array", [np.array([[True, False]]), np.array([[0.0, 1.0]]), np.array([[0, 1, 2]]), np.array([0, 1])]
)
def test_other_arrays_are_refused(array):
    with pytest.raises(InputError):
        Graph.from_pairs(2, array)


@pytest.mark.parametrize(("spec", "edges"), [("ring:100000", 100_000), ("complete:1500", 1_124_250)])
def test_large_graphs_are_not_checked_edge_by_edge(spec, edges, monkeypatch):
    monkeypatch.setattr("peerdescent.graphs.graph._edge", lambda pair, n: pytest.fail("a loop over the edges"))
    assert len(graphs.parse(spec).edges) == edges


@pytest.mark.parametrize("agent", [-1, 3, 1.0, "0"])
def test_neighbours_of_an_unknown_agent(agent):
    with pytest.raises(InputError):
        graphs.path(3).neighbours(agent)


@pytest.mark.parametrize("spec", ["er:30:0.15:seed=1", "grid:4:7", "ba:40:1", "path:300", "complete:5"])
def test_structure_agrees_with_networkx(spec):
    graph = graphs.parse(spec)
    g = graph.to_networkx()
    assert graph.diameter() == nx.diameter(g)
    assert graph.degrees.tolist() == [g.degree(i) for i in range(graph.n)]
    assert all(graph.neighbours(i) == tuple(sorted(g[i])) for i in range(graph.n))


def test_a_networkx_round_trip_keeps_weights():
    graph = Graph(4, ((0, 1), (1, 2), (2, 3)), (0.5, 2.0, 3.0))
    assert graphs.from_networkx(graph.to_networkx()) == graph


def test_networkx_nodes_are_numbered_in_sorted_order():
    assert graphs.from_networkx(nx.Graph([("c", "a"), ("c", "b")])).edges == ((0, 2), (1, 2))
    assert graphs.from_networkx(nx.Graph([("x", 1), (1, (2, 3))])).edges == ((0, 1), (1, 2))  # unsortable


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nx.DiGraph([(0, 1)]), "to_undirected"),
        (lambda: "ring:3", "undirected networkx graph, not str"),
        (nx.Graph, "the number of agents is 0"),
        (lambda: nx.MultiGraph([(0, 1), (0, 1)]), "twice"),
        (lambda: nx.Graph([(0, 1), (2, 3)]), "2 parts"),
        (lambda: nx.Graph([(0, 1, {"weight": 2}), (1, 2)]), "1 of 2 networkx edges have no weight"),
        (lambda: nx.Graph([(0, 1, {"weight": "x"})]), "must be numbers"),
    ],
)
def test_wrong_networkx_graphs(make, words):
    with pytest.raises(InputError, match=words):
        graphs.from_networkx(make())


def test_a_graph_is_a_value():
    graph = graphs.parse("er:12:0.4")
    assert graph.diameter() > 0  # fills the caches, which must not spoil copies
    copy = pickle.loads(pickle.dumps(graph))
    assert copy == graph
    assert copy.spec == graph.spec
    with pytest.raises(AttributeError):
        graph.n = 3
    with pytest.raises(ValueError, match="read-only"):
        graph.degrees[0] = 9
    assert np.array_equal(copy.laplacian().toarray(), graph.laplacian().toarray())


@pytest.mark.parametrize(("spec", "hops"), [("ring:100001", 50_000), ("path:100000", 99_999), ("star:6000", None)])
def test_the_diameter_of_large_graphs_costs_nothing_or_is_left_out(spec, hops):
    assert graphs.parse(spec).quick_diameter() == hops


@pytest.mark.parametrize("spec", ["ring:3", "ring:4", "ring:9", "path:2", "path:7", "complete:2"])
def test_the_diameter_of_rings_and_paths_is_that_of_networkx(spec):
    graph = graphs.parse(spec)
    assert graph.diameter() == nx.diameter(nx.Graph(graph.edges))
