"""Graphs as lists of edges in a text: every graph has one, and it parses back."""

import networkx as nx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs import Graph


@st.composite
def any_graphs(draw):
    """A connected graph: a random tree with more edges, with or without weights."""
    n = draw(st.integers(1, 12))
    edges = {(draw(st.integers(0, j - 1)), j) for j in range(1, n)}
    pairs = st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)).map(sorted).map(tuple)
    edges |= {(i, j) for i, j in draw(st.lists(pairs, max_size=8)) if i < j}
    weights = draw(
        st.lists(st.floats(min_value=5e-324, allow_infinity=False), min_size=len(edges), max_size=len(edges))
    )
    weighted = bool(edges) and draw(st.booleans())
    return Graph(n, tuple(edges), tuple(weights) if weighted else None, spec=draw(st.sampled_from(["", "x", "ring:4"])))


@given(graph=any_graphs())
@settings(max_examples=200, deadline=None)
def test_every_graph_has_a_text_that_parses_back(graph):
    again = graphs.parse(graph.text)
    assert again == graph
    assert graph.text in (again.text, "ring:4")


def test_graphs_from_networkx_have_a_text():
    graph = graphs.from_networkx(nx.petersen_graph())
    assert graph.text.startswith("edges:0-1,0-4,0-5,")
    assert graphs.parse(graph.text) == graph


def test_order_direction_and_spaces_do_not_matter():
    assert graphs.parse("edges: 2-1 , 0 - 1") == graphs.path(3)
    assert graphs.parse("edges:2-1=4,0-1=5e-1").weights == (0.5, 4.0)


def test_a_wrong_spec_is_not_trusted():
    assert Graph(2, ((0, 1),), spec="ring:5").text == "edges:0-1"
    assert Graph(2, ((0, 1),), (2.0,), spec="path:2").text == "edges:0-1=2.0"
    assert Graph(1, (), spec="?").text == "path:1"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "nothing follows the colon; write it as edges:I-J"),
        ("0-1,", "expected I-J or I-J=W with agents from 0, not ''"),
        ("0-1,1", "expected I-J or I-J=W with agents from 0, not '1'"),
        ("0--1", "expected I-J"),
        ("0-1-2", "expected I-J"),
        ("0-1.5", "expected I-J"),
        ("0-1:seed=3", "expected I-J"),
        ("0-9999999999999999999", "expected I-J"),
        ("0-1=", "a weight must be a positive number, not ''"),
        ("0-1=0", "a weight must be"),
        ("0-1=nan", "a weight must be"),
        ("0-1=x", "a weight must be"),
        ("0-1=1,1-2", "1 of 2 edges have no weight; give all edges a weight, or none"),
        ("1-1", "connects an agent to itself"),
        ("0-1,1-0", "given twice"),
        ("0-1,2-3", "2 parts"),
        ("1-2", "2 parts"),
        ("0-999999999999999999", "the number of agents is 1000000000000000000"),
    ],
)
def test_wrong_texts_are_one_sentence(text, words):
    with pytest.raises(InputError, match=words) as caught:
        graphs.parse(f"edges:{text}")
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith("graph ")
