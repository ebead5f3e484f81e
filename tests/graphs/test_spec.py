import networkx as nx
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError

TEXTS = {"file", "edges", "rounds", "sequence", "subset", "matcha", "active-edges"}
TEXTS |= {"directed-edges", "directed-rounds", "directed-file"}
NAMES = sorted(set(graphs.TOPOLOGIES) - TEXTS)


@st.composite
def specs(draw):
    """A legal text of any topology but those of files and of edges, with at most 36 agents."""
    name = draw(st.sampled_from(NAMES))
    n, small = draw(st.integers(8, 36)), draw(st.integers(1, 6))
    numbers = {
        "grid": f":{small}:{draw(st.integers(1, 6))}",
        "torus": f":{small}:{draw(st.integers(1, 6))}",
        "hypercube": f":{draw(st.integers(0, 5))}",
        "er": f":{n}:{draw(st.floats(0.4, 1.0))}",
        "regular": f":{n}:{2 * draw(st.integers(1, 3))}",
        "geometric": f":{n}:{draw(st.floats(0.6, 2.0))}",
        "ws": f":{n}:{2 * draw(st.integers(1, 3))}:{draw(st.floats(0.0, 0.5))}",
        "ba": f":{n}:{small}",
        "authors10": "",
        "base": f":{n}:{small}",
        "onepeer-exp": f":{2 ** draw(st.integers(0, 5))}",
    }.get(name, f":{draw(st.integers(1, 36))}")
    seed = f":seed={draw(st.integers(0, 10**6))}" if graphs.TOPOLOGIES[name].seeded and draw(st.booleans()) else ""
    return name + numbers + seed


@given(spec=specs())
@settings(max_examples=100, deadline=None)
def test_every_topology_is_connected_and_made_again_by_its_text(spec):
    graph = graphs.parse(spec)
    assert nx.is_connected(graph.union.to_networkx())
    assert graph.text == graph.spec
    again = graphs.parse(graph.spec)
    assert again == graph
    assert again.spec == graph.spec


pieces = st.lists(
    st.one_of(
        st.sampled_from(["", "0", "1", "2", "7", "12", "-1", "0.5", "1e9", "nan", "inf", "99999999999999999999"]),
        st.sampled_from(["seed=1", "seed=", "seed=-1", "seed=x", " 3", "1_0", "٣", "+4"]),
        st.text(max_size=4),
    ),
    max_size=5,
)


@given(
    name=st.one_of(st.sampled_from([*graphs.TOPOLOGIES, "Ring", "erdos", ""]), st.text(max_size=6)),
    parts=pieces,
)
@settings(max_examples=300, deadline=None)
@example(name="file", parts=["\0"])
@example(name="file", parts=["\n0"])
@example(name="file", parts=["\ud800"])
@example(name="regular", parts=["12", "7"])
def test_no_text_raises_anything_but_input_error(name, parts):
    spec = ":".join([name, *parts])
    try:
        graph, message = graphs.parse(spec), None
    except InputError as error:
        graph, message = None, str(error)
    if graph is None:
        assert message.endswith(".")
        assert "\n" not in message
    else:
        assert graphs.parse(graph.text) == graph


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("rnig:5", r"no topology 'rnig' \(did you mean 'ring'\?\); use one of ring, path"),
        ("Ring:5", "did you mean 'ring'"),
        ("erdos_renyi:10:0.4", "did you mean 'er'"),
        ("watts-strogatz:10:2:0.4", "did you mean 'ws'"),
        ("zzzzzz:5", "no topology 'zzzzzz'; use one of"),
        ("", "no topology ''"),
        ("ring", "write it as ring:N"),
        ("ring:3:4", "write it as ring:N"),
        ("er:10", r"write it as er:N:P\[:seed=S\]"),
        ("ring:x", "N must be a number, not 'x'"),
        ("ring:2.5", "N is 2.5, expected an integer"),
        ("ring:5:seed=1", "is not random and takes no seed"),
        ("authors10:seed=1", "is not random and takes no seed"),
        ("er:10:0.4:seed=x", "the seed must be an integer, not 'x'"),
        ("er:10:0.4:seed=-2", "the seed must be an integer"),
        ("er:seed=3:10:0.4", "wrong number of parts"),
        ("file:", "nothing follows the colon; write it as file:PATH"),
    ],
)
def test_errors_show_what_to_write(spec, words):
    with pytest.raises(InputError, match=words):
        graphs.parse(spec)


def test_a_text_gives_what_the_function_gives():
    assert graphs.parse("er:10:0.4:seed=3") == graphs.erdos_renyi(10, 0.4, seed=3)
    assert graphs.parse("er:10:0.4") == graphs.erdos_renyi(10, 0.4)
    assert graphs.parse(" grid:2:3 ") == graphs.grid(2, 3)
    assert graphs.parse("ws:10:4:0.2:seed=1") == graphs.watts_strogatz(10, 4, 0.2, 1)


def test_registry_describes_every_topology():
    assert graphs.TOPOLOGIES["er"].usage == "er:N:P[:seed=S]"
    assert graphs.TOPOLOGIES["ring"].usage == "ring:N"
    for name, entry in graphs.TOPOLOGIES.items():
        assert entry.usage.startswith(name)
        assert entry.summary
        assert "\n" not in entry.summary
        assert entry.make.__name__ in graphs.__all__


def test_as_graph_takes_graphs_texts_and_networkx():
    ring = graphs.ring(5)
    assert graphs.as_graph(ring) is ring
    assert graphs.as_graph("ring:5") == ring
    assert graphs.as_graph(nx.cycle_graph(5)) == ring
    for wrong in (5, None, [(0, 1)]):
        with pytest.raises(InputError, match="cannot make a graph from"):
            graphs.as_graph(wrong)
    with pytest.raises(InputError, match="must be a text"):
        graphs.parse(5)
