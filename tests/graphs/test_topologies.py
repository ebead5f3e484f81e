import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError


def edges(g):
    """The sorted edges of a networkx graph whose nodes are renumbered in sorted order."""
    g = nx.convert_node_labels_to_integers(g, ordering="sorted")
    return tuple(sorted(tuple(sorted(edge)) for edge in g.edges))


@given(n=st.integers(3, 40))
@settings(max_examples=20, deadline=None)
def test_lines_circles_and_stars_agree_with_networkx(n):
    assert graphs.ring(n).edges == edges(nx.cycle_graph(n))
    assert graphs.path(n).edges == edges(nx.path_graph(n))
    assert graphs.star(n).edges == edges(nx.star_graph(n - 1))
    assert graphs.complete(n).edges == edges(nx.complete_graph(n))
    chords = sorted({hop % n for bit in range(n.bit_length()) if (hop := 2**bit) < n})
    assert graphs.exponential(n).edges == edges(nx.circulant_graph(n, chords))


@given(rows=st.integers(1, 7), columns=st.integers(1, 7))
@settings(max_examples=30, deadline=None)
def test_rectangles_agree_with_networkx(rows, columns):
    assert graphs.grid(rows, columns).edges == edges(nx.grid_2d_graph(rows, columns))
    wrapped = nx.grid_2d_graph(rows, columns, periodic=True)
    wrapped.remove_edges_from(list(nx.selfloop_edges(wrapped)))
    assert graphs.torus(rows, columns).edges == edges(wrapped)


@pytest.mark.parametrize("dimension", range(6))
def test_hypercube_agrees_with_networkx(dimension):
    cube = nx.hypercube_graph(dimension) if dimension else nx.empty_graph(1)
    assert graphs.hypercube(dimension).edges == edges(cube)


@pytest.mark.parametrize("make", [graphs.ring, graphs.path, graphs.star, graphs.complete, graphs.exponential])
def test_one_and_two_agents(make):
    assert make(1).edges == ()
    assert make(2).edges == ((0, 1),)


@pytest.mark.parametrize(
    "spec",
    ["er:1:0.1", "regular:1:0", "regular:1:4", "geometric:1:0.1", "ws:1:4:0.5", "ba:1:3", "hypercube:0"],
)
def test_a_lone_agent_in_every_family(spec):
    assert graphs.parse(spec).edges == ()


def test_authors10_is_the_published_edge_list():
    printed = "1-2 2-3 2-4 3-4 3-7 4-5 4-6 5-6 7-8 8-9 9-10"
    wanted = tuple(tuple(int(i) - 1 for i in pair.split("-")) for pair in printed.split())
    assert graphs.authors10().edges == wanted


@given(n=st.integers(2, 25), seed=st.integers(0, 99), data=st.data())
@settings(max_examples=30, deadline=None)
def test_regular_graphs_are_regular_up_to_the_complete_one(n, seed, data):
    legal = [d for d in range(1, n) if n * d % 2 == 0 and (d > 1 or n == 2)]
    d = data.draw(st.sampled_from(legal))
    assert set(graphs.regular(n, d, seed).degrees.tolist()) == {d}


def test_draws_depend_on_the_seed_and_nothing_else():
    assert graphs.erdos_renyi(20, 0.3, seed=1) == graphs.erdos_renyi(20, 0.3, seed=1)
    assert graphs.erdos_renyi(20, 0.3, seed=1) != graphs.erdos_renyi(20, 0.3, seed=2)


def test_the_graph_of_a_seed_never_changes():
    # a change here changes every published number made with this graph
    assert graphs.erdos_renyi(10, 0.4).edges == (
        *((0, 3), (0, 4), (0, 7), (0, 8), (1, 5), (1, 6), (1, 8), (2, 4), (2, 6), (3, 4), (3, 5)),
        *((4, 6), (4, 8), (4, 9), (5, 7), (6, 8), (7, 8)),
    )


def test_edge_counts_of_families_that_fix_them():
    assert len(graphs.watts_strogatz(20, 4, 0.3, seed=5).edges) == 40
    assert len(graphs.barabasi_albert(20, 3, seed=5).edges) == 3 * 17
    assert graphs.erdos_renyi(9, 1.0) == graphs.complete(9) == graphs.geometric(9, 1.5)
    assert graphs.watts_strogatz(9, 2, 0.0) == graphs.ring(9)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: graphs.ring(0), "ring: N is 0, expected an integer that is at least 1"),
        (lambda: graphs.star("3"), "star: N is '3', expected an integer"),
        (lambda: graphs.torus(3, 0), "torus: C is"),
        (lambda: graphs.hypercube(-1), "hypercube: D is -1, expected an integer that is at least 0"),
        (lambda: graphs.hypercube(10**30), "hypercube: that is more than"),
        (lambda: graphs.complete(10**9), "complete: that is more than"),
        (lambda: graphs.erdos_renyi(10**400, 0.5), "er: that is more than"),
        (lambda: graphs.erdos_renyi(10, 1.1), "er: P must be above 0 and at most 1, not 1.1"),
        (lambda: graphs.erdos_renyi(10, 0.0), "er: P must be above 0"),
        (lambda: graphs.erdos_renyi(10, 0.5, seed=-1), "er: seed is -1, expected"),
        (
            lambda: graphs.erdos_renyi(12, 0.01),
            "none of 1000 draws was connected; the probability P is too small",
        ),
        (lambda: graphs.geometric(10, float("inf")), "geometric: R must be a positive number"),
        (lambda: graphs.geometric(12, 0.01), "the radius R is too small"),
        (lambda: graphs.regular(5, 3), "5·3 is odd"),
        (lambda: graphs.regular(6, 1), "cannot connect 6 agents"),
        (lambda: graphs.regular(6, 6), "D must be below the 6 agents"),
        (lambda: graphs.watts_strogatz(9, 3, 0.1), "K must be even"),
        (lambda: graphs.watts_strogatz(4, 4, 0.1), "K must be below"),
        (lambda: graphs.watts_strogatz(9, 2, -0.1), "ws: P must be at least 0"),
        (lambda: graphs.barabasi_albert(3, 3), "M must be below"),
    ],
)
def test_impossible_numbers(call, words):
    with pytest.raises(InputError, match=words):
        call()
