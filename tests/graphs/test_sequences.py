"""Every kind of graph sequence: what a round is, what a period does, and how texts make it again."""

import pickle

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, GraphSequence

STATIC = ["ring:7", "star:6", "grid:2:4", "er:9:0.5:seed=2", "complete:5", "edges:0-1,1-2,2-0", "path:2"]


@st.composite
def sequences(draw):
    """A text of any kind of sequence."""
    n, seed = draw(st.integers(1, 24)), draw(st.integers(0, 2**40))
    base = draw(st.sampled_from(STATIC))
    return draw(
        st.sampled_from(
            [
                f"onepeer-exp:{2 ** draw(st.integers(0, 5))}",
                f"base:{n}:{draw(st.integers(1, 5))}",
                f"equidyn:{n}:seed={seed}",
                f"matching:{n}:seed={seed}",
                f"matcha:{base}:{draw(st.sampled_from([0.3, 0.5, 1]))}:seed={seed}",
                f"active-edges:{base}:{draw(st.floats(0.05, 1))}:seed={seed}",
                "rounds:4:0-1,2-3/0-2,1-3/",
            ]
        )
    )


def mixing(sequence, round):
    """W of a round, from its edges one by one."""
    graph = sequence.graph(round)
    W = np.eye(graph.n)
    for number, (i, j) in enumerate(graph.edges):
        w = graph.weights[number] if sequence.weighted_rounds else 1 / (1 + max(graph.degrees[i], graph.degrees[j]))
        W[i, j] = W[j, i] = w
        W[i, i] -= w
        W[j, j] -= w
    return W


def product(sequence):
    return np.linalg.multi_dot([np.eye(sequence.n), *(mixing(sequence, r) for r in range(sequence.period))])


@given(spec=sequences(), start=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_rounds_are_doubly_stochastic_and_parts_of_a_connected_union(spec, start):
    sequence = graphs.parse(spec)
    assert isinstance(sequence, GraphSequence)
    assert nx.is_connected(sequence.union.to_networkx())
    for round in (*range(4), start):
        graph, W = sequence.graph(round), mixing(sequence, round)
        assert graph.n == sequence.n
        assert set(graph.edges) <= set(sequence.union.edges)
        np.testing.assert_array_equal(W, W.T)
        np.testing.assert_allclose(W.sum(axis=1), 1, atol=1e-14)
        assert W.min() >= -1e-15
        if not sequence.weighted_rounds:
            np.testing.assert_allclose(graph.mixing().toarray(), W, atol=1e-15)
    assert sequence.edges_before(5) == sum(len(sequence.graph(r).edges) for r in range(5))
    if sequence.period is not None:
        assert sequence.graph(start) == sequence.graph(start % sequence.period)
        assert sequence.edges_before(start) == (
            start // sequence.period * sequence.edges_before(sequence.period)
            + sequence.edges_before(start % sequence.period)
        )


@given(spec=sequences(), rounds=st.permutations(range(6)))
@settings(max_examples=25, deadline=None)
def test_a_text_and_a_pickle_make_a_sequence_again_whatever_the_order_of_its_rounds(spec, rounds):
    first = graphs.parse(spec)
    drawn = {round: first.graph(round) for round in rounds}
    for again in (graphs.parse(first.text), graphs.parse(first.spec or first.text), pickle.loads(pickle.dumps(first))):
        assert again == first
        assert hash(again) == hash(first)
        assert [again.graph(round) for round in range(6)] == [drawn[round] for round in range(6)]
        assert again.text == first.text


@pytest.mark.parametrize("k", [1, 2, 3, 4])
def test_a_period_of_a_base_graph_averages_exactly_with_few_neighbours(k):
    for n in range(1, 41):
        sequence = graphs.base_graph(n, k)
        assert sequence.weighted_rounds or n == 1
        assert max(int(sequence.graph(r).degrees.max()) for r in range(sequence.period)) <= k
        assert np.abs(product(sequence) - 1 / n).max() < 1e-12
        # the paper's bound on the number of rounds, and a lower bound: k+1 times as many agents known per round
        assert np.log(n) / np.log(k + 1) - 1e-9 <= sequence.period <= 2 * np.log(max(n, 2)) / np.log(k + 1) + 2


@pytest.mark.parametrize("m", range(7))
def test_m_rounds_of_the_one_peer_exponential_graph_average_exactly(m):
    sequence = graphs.one_peer_exponential(2**m)
    assert sequence.period == max(1, m)
    np.testing.assert_allclose(product(sequence), 2.0**-m, atol=1e-14)
    for r in range(m):
        assert sequence.graph(r).edges == tuple((i, i ^ 2**r) for i in range(2**m) if i < i ^ 2**r)


@given(n=st.integers(1, 30), seed=st.integers(0, 99), round=st.integers(0, 2**40))
@settings(max_examples=50, deadline=None)
def test_matchings_pair_all_agents_but_one_at_most(n, seed, round):
    degrees = graphs.matching(n, seed).graph(round).degrees
    assert degrees.max() <= 1
    assert degrees.sum() == n - n % 2
    equidyn = graphs.equidyn(n, seed).graph(round)
    assert equidyn.degrees.max() <= 1
    assert len({(j - i) % n for i, j in equidyn.edges} | {(i - j) % n for i, j in equidyn.edges}) <= 2


def test_every_matching_is_as_likely():
    sequence = graphs.matching(4, seed=1)
    counts = {}
    for round in range(1500):
        edges = sequence.graph(round).edges
        counts[edges] = counts.get(edges, 0) + 1
    assert len(counts) == 3  # of four agents
    assert all(abs(count - 500) < 92 for count in counts.values())  # five standard deviations


def test_seeds_and_rounds_draw_differently():
    drawn = {graphs.matching(20, seed).graph(round) for seed in range(5) for round in range(5)}
    assert len(drawn) == 25
    assert graphs.matching(20, 1) != graphs.matching(20, 2)


@pytest.mark.parametrize("probability", [0.1, 0.6, 1.0])
def test_edges_are_active_as_often_as_asked(probability):
    sequence = graphs.active_edges("ring:10", probability, seed=4)
    mean = sequence.edges_before(1000) / 1000
    assert abs(mean - 10 * probability) <= 5 * np.sqrt(10 * probability * (1 - probability) / 1000)
    assert sequence.mean_edges == pytest.approx(10 * probability)


@pytest.mark.parametrize(
    "spec", ["base:7:2", "matching:5", "equidyn:6", "matcha:star:5:0.5", "active-edges:ring:5:0.3"]
)
def test_activity_is_how_often_an_edge_is_in_a_round(spec):
    whole = graphs.parse(spec)
    for sequence in (whole, whole.subset(range(4))):
        rounds = sequence.period or 600
        counts = dict.fromkeys(sequence.union.edges, 0)
        for round in range(rounds):
            for edge in sequence.graph(round).edges:
                counts[edge] += 1
        rates = sequence.activity
        spread = 0 if sequence.period else 5 * np.sqrt(rates * (1 - rates) / rounds)
        assert (np.abs(np.array(list(counts.values())) / rounds - rates) <= spread + 1e-12).all()
        assert sequence.mean_edges == pytest.approx(rates.sum())
        assert sequence.mean_degrees.sum() == pytest.approx(2 * rates.sum())


def test_a_loss_of_agents_leaves_the_rounds_of_the_others():
    left = [0, 2, 3, 6, 7]
    for spec in ("base:8:2", "matching:8:seed=3", "matcha:complete:8:0.5", "onepeer-exp:8"):
        whole = graphs.parse(spec)
        part = whole.subset(left)
        assert part.n == 5
        assert part == graphs.parse(part.text) == whole.subset(reversed(left))
        assert part.weighted_rounds == whole.weighted_rounds
        for round in range(6):
            kept = [(i, j) for i, j in whole.graph(round).edges if i in left and j in left]
            assert part.graph(round).edges == tuple((left.index(i), left.index(j)) for i, j in kept)
            assert mixing(part, round).min() >= 0
        again = part.subset([0, 1, 2])
        assert [again.graph(r) for r in range(4)] == [whole.subset([0, 2, 3]).graph(r) for r in range(4)]
    with pytest.raises(InputError, match="the graph is not connected: it has 2 parts"):
        graphs.parse("onepeer-exp:8").subset([0, 7])
    with pytest.raises(InputError, match="the graph is not connected"):
        graphs.parse("active-edges:path:5:0.5").subset([0, 1, 3, 4])


def test_a_graph_is_its_own_sequence():
    ring = graphs.ring(6)
    assert ring.period == 1
    assert ring.graph(9) is ring.union is ring
    assert ring.edges_before(9) == 54
    assert not ring.weighted_rounds


def test_parts_are_allowed_where_asked_and_no_part_of_equality():
    loose = Graph(4, ((0, 1),), connected=False)
    assert loose.subset([1, 2, 3]).edges == ()
    assert Graph(2, ((0, 1),), connected=False) == Graph(2, ((0, 1),))
    with pytest.raises(InputError, match="the graph is not connected"):
        Graph(4, ((0, 1),))
    with pytest.raises(InputError, match="no diameter"):
        loose.diameter()


def test_a_list_of_graphs_repeats_and_is_recorded_by_its_edges():
    g = nx.Graph([(0, 1), (1, 2)])
    sequence = graphs.sequence([g, "ring:3", g, graphs.ring(3)])
    assert sequence.period == 2  # [a, b, a, b] is [a, b]
    assert sequence == graphs.sequence((g, "complete:3"))
    assert sequence.text == "rounds:3:0-1,1-2/0-1,0-2,1-2"
    assert graphs.parse(sequence.text) == sequence
    assert str(sequence) == "graph sequence (3 agents, period 2, 2.5 edges per round)"


def test_a_function_of_the_round_is_asked_once():
    asked = []

    def rounds(r):
        asked.append(r)
        return Graph(4, ((r % 3, 3),), connected=False)

    sequence = graphs.sequence(rounds, n=4)
    assert sequence.period is None
    assert [sequence.graph(r).edges for r in (2, 0, 2, 0)] == [((2, 3),), ((0, 3),)] * 2
    assert asked == [2, 0]
    assert sequence.edges_before(7) == 7
    assert sequence.union == graphs.complete(4)
    assert graphs.sequence(rounds, n=4, union="star:4").union == graphs.star(4)
    assert sequence == graphs.sequence(rounds, n=4)
    assert sequence.text.startswith("python:4:test_a_function")
    assert sequence.text != graphs.sequence(lambda r: "ring:4", 4).text
    with pytest.raises(InputError, match=r"is a Python function; pass graphs.sequence\(function, n\) from Python"):
        graphs.parse(sequence.text)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: graphs.sequence([]), "at least one graph"),
        (lambda: graphs.sequence("ring:4"), "expected a list of graphs, or a function of the round"),
        (lambda: graphs.sequence(3), "expected a list of graphs"),
        (lambda: graphs.sequence(["ring:4", "ring:5"]), "round 1 has 5 agents and that of round 0 has 4"),
        (lambda: graphs.sequence(["ring:4", "matching:4"]), "round 1 needs one graph for all rounds"),
        (lambda: graphs.sequence(["edges:0-1=0.6", "edges:0-1"]), "some rounds have edge weights and some have none"),
        (lambda: graphs.sequence(["edges:0-1=0.6,1-2=0.5"]), "the weights of agent 1 sum to 1.1"),
        (lambda: graphs.sequence([Graph(4, ((0, 1),), connected=False)]), "the graph is not connected: it has 3 parts"),
        (lambda: graphs.sequence(lambda r: "ring:4"), "needs n"),
        (lambda: graphs.sequence(lambda r: "ring:4", 5).graph(2), "round 2 has 4 agents: expected 5"),
        (lambda: graphs.sequence(lambda r: "ring:5", 5, "star:5").graph(0), r"the edge \(1, 2\), which the union"),
        (lambda: graphs.sequence(lambda r: 7, 5).graph(0), "cannot make a graph from int"),
        (lambda: graphs.ring(3).subset([9]), "an agent is 9"),
        (lambda: graphs.matching(4).graph(-1), "the round is -1"),
        (lambda: graphs.as_static(graphs.matching(4), "A bridge"), "A bridge needs one graph for all rounds"),
    ],
)
def test_wrong_sequences_are_refused_in_one_sentence(make, words):
    with pytest.raises(InputError, match=words) as caught:
        make()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("onepeer-exp:6", "N must be a power of 2 for undirected edges, not 6; base:6:1 also has"),
        ("base:6", "wrong number of parts; write it as base:N:K"),
        ("base:6:0", "K is 0, expected an integer that is at least 1"),
        ("matching:5:3", "write it as matching:N"),
        ("matcha:ring:10", r"ring.*nothing|wrong number of parts.*write the whole as matcha:SPEC:BUDGET\[:seed=S\]"),
        ("matcha:er:10:0.4", "'er:10': wrong number of parts.*write the whole as matcha:SPEC:BUDGET"),
        ("matcha:ring:10:0", "BUDGET must be above 0 and at most 1"),
        ("matcha:ring:10:x", "BUDGET must be a number, not 'x'"),
        ("matcha:path:3:1e-9", "too small to keep the graph connected"),
        ("matcha:matching:4:0.5", "needs one graph for all rounds, and matching:4:seed=0 changes"),
        ("matcha:matcha:ring:4:0.5:0.5", "is made of static graphs such as ring:10"),
        ("active-edges:ring:5:1.5", "P must be above 0 and at most 1"),
        ("active-edges:edges:0-1=2:0.5", "the weights of .* would not be used"),
        ("rounds:4:0-1/2-3", "the graph is not connected"),
        ("rounds:0-1", "expected N:EDGES/EDGES"),
        ("rounds:3:0-1,1-9", r"an agent in the edge \(1, 9\) is 9"),
        ("subset:0,1:subset:0,1:ring:4", "a subset of a subset"),
        ("subset:x:ring:4", "expected I,J,…:SPEC"),
        ("sequence:nowhere.txt", "there is no sequence file nowhere.txt"),
    ],
)
def test_wrong_texts_are_refused_in_one_sentence(spec, words):
    with pytest.raises(InputError, match=words) as caught:
        graphs.parse(spec)
    assert "\n" not in str(caught.value)


def test_a_file_has_one_round_per_line(tmp_path):
    file = tmp_path / "rounds.txt"
    file.write_text("# pairs first\n0-1, 2-3 # two\n\nring:4\nnone\n", encoding="utf-8")
    sequence = graphs.parse(f"sequence:{file}")
    assert sequence.period == 3
    assert [len(sequence.graph(r).edges) for r in range(4)] == [2, 4, 0, 2]
    assert sequence.spec == f"sequence:{file}"
    assert sequence.text == "rounds:4:0-1,2-3/0-1,0-3,1-2,2-3/"  # does not depend on the file
    assert graphs.parse(sequence.text) == sequence


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", "contains no graphs"),
        ("0-1\n2-3\n", "the graph is not connected"),
        ("0-1\nring:4\nring:5\n", "line 2: the graph has 4 agents, and another line has 5"),
        ("0-1\n0-1,1-1\n", "line 2: the edge .1, 1. connects an agent to itself"),
        ("0:1\n", "line 1: graph '0:1': there is no topology '0'"),
        ("matching:4\n", "line 1: a sequence file needs one graph for all rounds"),
        ("sequence:{}\n", "line 1: a sequence file is made of static graphs"),
        ("none\nnone\n", ""),
    ],
)
def test_a_wrong_line_is_named(tmp_path, content, words):
    file = tmp_path / "rounds.txt"
    file.write_text(content.replace("{}", str(file)), encoding="utf-8")
    if not words:  # one agent that talks to nobody
        assert graphs.parse(f"sequence:{file}").n == 1
        return
    with pytest.raises(InputError, match=words):
        graphs.parse(f"sequence:{file}")


def test_binary_and_devices_are_no_sequence_files(tmp_path):
    (tmp_path / "a").write_bytes(b"\xff\xfe\0")
    for path in (tmp_path / "a", "/dev/zero", tmp_path):
        with pytest.raises(InputError, match=r"not text|a device|a folder"):
            graphs.from_sequence_file(path)
