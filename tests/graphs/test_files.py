import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerdescent import graphs
from peerdescent.errors import InputError


@pytest.fixture
def write(tmp_path):
    def write(content):
        path = tmp_path / "edges.txt"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


@pytest.mark.parametrize(
    "text",
    [
        "0 1\n1 2\n2 3\n",
        "1 2\n2 3\n3 4\n",
        "# a path\n\n  3,2\n4\t3 # the last\n\n1 , 2",
        "\ufeff1 2\r\n2 3\r\n3 4\r\n",
    ],
)
def test_layouts_of_the_same_path(write, text):
    graph = graphs.from_file(write(text))
    assert graph == graphs.path(4)
    assert graphs.parse(graph.spec) == graph
    assert graph.text == "edges:0-1,1-2,2-3"  # it depends on no path


def test_weights_stay_with_their_edges(write):
    graph = graphs.from_file(write("2 3 0.5\n2 1 4e0\n"))
    assert graph.edges == ((0, 1), (1, 2))
    assert graph.weights == (4.0, 0.5)
    assert graph.laplacian("weighted").toarray().tolist() == [[4, -4, 0], [-4, 4.5, -0.5], [0, -0.5, 0.5]]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("0 1\n1 x\n", "line 2: expected 'i j' or 'i j weight'.*found '1 x'"),
        ("0 1 2 3\n", "line 1: expected"),
        ("0\n", "line 1: expected"),
        ("# hello\n\n0 -1\n", "line 3: expected"),
        ("0 1.0\n", "line 1: expected"),
        ("0 1\n1 1\n", "line 2: the edge connects agent 1 to itself"),
        ("0 1\n1 2\n1 0\n", "line 3: this edge is already on line 1"),
        ("0 1 nan\n", "line 1: the weight must be a positive number, not 'nan'"),
        ("0 1 0\n", "line 1: the weight"),
        ("0 1 heavy\n", "line 1: the weight"),
        ("0 1 2\n1 2\n", "line 2: some edges have a weight"),
        ("0 1\n1 2 2\n", "line 2: some edges have a weight"),
        ("2 3\n3 4\n", "the smallest agent is 2"),
        ("0 1\n1 3\n", "agent 2 has no edge"),
        ("0 999999999999999999\n", "agent 1 has no edge"),
        ("0 99999999999999999999999\n", "line 1: expected"),
        ("0 1\n2 3\n", "2 parts"),
        ("", "contains no edges"),
        ("# only a comment\n", "contains no edges"),
        (b"\x00\x01\x02", "is not text"),
        (b"\xff\xfe\xfa\x80", "is not text"),
    ],
)
def test_wrong_files_name_the_file_and_the_line(write, text, words):
    path = write(text)
    with pytest.raises(InputError, match=words) as caught:
        graphs.from_file(path)
    assert str(path) in str(caught.value)


def test_unreadable_paths(tmp_path):
    with pytest.raises(InputError, match="there is no edge file"):
        graphs.from_file(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="is a folder: expected a regular edge file"):
        graphs.from_file(tmp_path)


def test_paths_may_contain_colons_and_a_home(tmp_path, monkeypatch):
    (tmp_path / "a:seed=1").write_text("0 1\n")
    assert graphs.parse(f"file:{tmp_path}/a:seed=1").n == 2
    monkeypatch.setenv("HOME", str(tmp_path))
    assert graphs.parse("file:~/a:seed=1").n == 2


@given(content=st.one_of(st.binary(max_size=40), st.text("0123 ,#.e-\n", max_size=40).map(str.encode)))
@settings(max_examples=200, deadline=None)
def test_no_file_raises_anything_but_input_error(tmp_path_factory, content):
    path = tmp_path_factory.getbasetemp() / "fuzzed"
    path.write_bytes(content)
    try:
        outcome = graphs.from_file(path).spec
    except InputError as error:
        outcome = str(error)
    assert str(path) in outcome
