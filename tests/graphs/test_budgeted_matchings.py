import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.graphs.budgeted_matchings import activation
from peerdescent.graphs.edge_colouring import edge_colours


@given(n=st.integers(2, 16), p=st.floats(0.05, 1), seed=st.integers(0, 10**6), bipartite=st.booleans())
@settings(max_examples=60, deadline=None)
def test_an_edge_colouring_is_proper_and_needs_few_colours(n, p, seed, bipartite):
    g = nx.bipartite.random_graph(n, n, p, seed=seed) if bipartite else nx.gnp_random_graph(n, p, seed=seed)
    graph = graphs.Graph(len(g), tuple(g.edges), connected=False)
    colours = edge_colours(graph)
    count = int(colours.max(initial=-1)) + 1
    assert count <= graph.degrees.max(initial=0) + (0 if nx.is_bipartite(g) else 1)
    for colour in range(count):
        ends = graph.pairs[colours == colour].ravel().tolist()
        assert 0 < len(ends) == len(set(ends))


@pytest.mark.parametrize("spec", ["er:10:0.4", "ring:10", "authors10", "grid:3:4", "ba:20:3", "complete:6"])
@pytest.mark.parametrize("budget", [0.3, 0.7, 1.0])
def test_probabilities_keep_the_budget_and_nearly_reach_the_bound(spec, budget):
    graph = graphs.parse(spec)
    part = edge_colours(graph)
    p, upper = activation(graph, part, budget)

    def connectivity(p):
        L = nx.laplacian_matrix(graphs.Graph(graph.n, graph.edges, tuple(p[part] + 1e-12)).to_networkx()).toarray()
        return np.linalg.eigvalsh(L)[1]

    assert p.min() >= 0
    assert p.max() <= 1
    assert p.sum() <= budget * len(p) + 1e-12
    assert upper * 0.997 <= connectivity(p) <= upper + 1e-9
    rng = np.random.default_rng(0)
    for _ in range(10):  # the bound holds for all probabilities within the budget
        other = rng.random(len(p))
        other *= min(1.0, budget * len(p) / other.sum())
        assert connectivity(other) <= upper + 1e-9


def test_matchings_are_active_as_often_as_planned():
    sequence = graphs.matcha("er:10:0.4", 0.5, seed=2)
    rounds = 800
    active = np.zeros(len(sequence.probabilities))
    for round in range(rounds):
        edges = set(sequence.graph(round).edges)
        for number in range(len(active)):
            mine = {e for e, part in zip(sequence.base.edges, sequence.part, strict=True) if part == number}
            assert not mine & edges or mine <= edges  # a matching is active as a whole
            active[number] += mine <= edges
    spread = np.sqrt(sequence.probabilities * (1 - sequence.probabilities) / rounds)
    assert (np.abs(active / rounds - sequence.probabilities) <= 5 * spread + 1e-12).all()
    assert active.sum() / rounds <= 0.5 * len(active) + 5 * spread.sum()
