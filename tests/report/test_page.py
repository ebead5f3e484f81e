import json
import math
import re
from html.parser import HTMLParser
from importlib.resources import files

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerdescent.errors import InputError
from peerdescent.graphs import parse
from peerdescent.report import embedded, page
from peerdescent.report.layout import WeightedGraph
from peerdescent.report.page import Claim, Curves, Page, Section
from peerdescent.report.tables import Table
from peerdescent.runs.metrics import Metrics

HOSTILE = "</script><script>alert(1)</script><b>&\"'"
VOID = {"meta", "link", "br", "hr", "img", "input", "path", "circle"}


class Reader(HTMLParser):
    """Parses a page: texts with their elements; fails if elements are not closed in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tags = [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append((tag, dict(attrs)))

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop()[0] == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else ("", {}), data))

    def visible(self):
        return " ".join(data for (tag, _), data in self.texts if tag not in ("script", "style"))

    def data(self):
        (text,) = [data for (_, attrs), data in self.texts if attrs.get("id") == "data"]
        return json.loads(text)

    def count(self, tag):
        return sum(name == tag for name, _ in self.tags)


def row(k, loss=1.0, **others):
    values = {"accuracy": 0.5, "consensus_error": 0.1, "gradient_norm": 0.2, "bytes_sent": 80 * k, "seconds": k / 10}
    return {"iteration": k, "loss": loss, **values, **others}


def table(*losses, step=10, **others):
    return Metrics([row(step * k, loss, **others) for k, loss in enumerate(losses)])


def a_page(*curves, claims=(), notes=(), **section):
    return Page("title", "peerdescent report a", claims, [Section("part", curves=curves, **section)], {}, notes)


def read(shown):
    return Reader(page.render(shown))


def curves_of(shown):
    return read(shown).data()["charts"][0]["curves"]


@pytest.fixture(autouse=True)
def without_plotly(monkeypatch):
    """The library is 5 MB of text, slow to parse; one test below looks for it."""
    monkeypatch.setattr(page, "_plotly", lambda: "let Plotly;")


def test_every_text_is_escaped():
    shown = Page(
        HOSTILE,
        HOSTILE,
        [Claim(HOSTILE, HOSTILE, HOSTILE, HOSTILE)],
        [
            Section(
                HOSTILE,
                HOSTILE,
                [Curves(HOSTILE, {HOSTILE: [table(1.0, 0.5)]})],
                [],
                [Table(HOSTILE, [HOSTILE], [[HOSTILE]], HOSTILE)],
                {HOSTILE: HOSTILE},
            )
        ],
        {HOSTILE: HOSTILE},
        [HOSTILE],
    )
    found = read(shown)
    assert found.open == []
    assert found.count("script") == 3  # data, plotly, the page: none of the texts became one
    assert found.count("b") == 2  # the icons of the verdict, in the list and in the counts
    # heading, window, command; claim ×4 + count; section ×2, table ×4, chart, settings ×2; environment ×2, note
    assert found.visible().count(HOSTILE) == 20
    assert found.data()["charts"][0]["curves"][0]["label"] == HOSTILE


def test_the_page_needs_no_network():
    found = read(a_page(Curves("", {"a": [table(1.0, 0.5)]}), graphs=[WeightedGraph.build(parse("ring:4"))]))
    addresses = [value for _, attrs in found.tags for key, value in attrs.items() if key in ("src", "href")]
    assert all(address.startswith(("data:", "#")) for address in addresses)
    policies = [attrs["content"] for tag, attrs in found.tags if "http-equiv" in attrs]
    assert policies
    assert policies[0].startswith("default-src 'none'")


def test_plotly_is_embedded_only_if_there_are_curves(monkeypatch):
    monkeypatch.undo()
    assert "plotly.js v" in page.render(a_page(Curves("", {"a": [table(1.0)]})))
    assert "plotly.js v" not in page.render(a_page())


@given(st.floats())
def test_short_keeps_five_digits(value):
    short = embedded.short(value)
    if not math.isfinite(value):
        assert short is None
    else:
        assert math.isclose(short, value, rel_tol=5.001e-5, abs_tol=1e-320)
        assert abs(value) > 1.7976e308 or len(re.sub(r"e.*|[-.]", "", repr(short)).strip("0")) <= 5


@given(st.integers(0, 5000), st.integers(2, 400))
def test_thinning_keeps_ends_and_order(count, most):
    kept = embedded.thin(count, most)
    assert kept == sorted(set(kept))
    assert len(kept) == min(count, most)
    if count:
        assert kept[0] == 0
        assert kept[-1] == count - 1


def test_long_runs_are_thinned_with_their_last_finite_value():
    losses = [1.0 + k for k in range(1499)]
    (curve,) = curves_of(a_page(Curves("", {"a": [table(*losses, math.inf)]})))
    (seed,) = curve["seeds"]
    assert len(seed["loss"]) == embedded.POINTS
    assert (seed["loss"][0], seed["loss"][-2], seed["loss"][-1]) == (1, 1499, None)
    assert (seed["iteration"][0], seed["iteration"][-2:]) == (0, [14980, 14990])
    means = curves_of(a_page(Curves("", {"a": [table(*losses), table(*losses)]})))[0]["mean"]
    assert len(means["iteration"]) == embedded.POINTS
    assert means["iteration"][-1] == 14980


def test_seeds_are_averaged_at_the_iterations_that_all_have():
    whole, shorter = table(4.0, 2.0, 1.0), table(2.0, 6.0, None)
    mean = curves_of(a_page(Curves("", {"a": [whole, shorter]})))[0]["mean"]
    assert mean["iteration"] == [0, 10]
    assert mean["loss"]["mean"] == [3, 4]
    assert mean["loss"]["std"] == [1.4142, 2.8284]  # n − 1 in the denominator
    assert mean["loss"]["min"] == [2, 2]


def test_one_seed_has_no_mean_and_neither_have_seeds_without_common_iterations():
    assert curves_of(a_page(Curves("", {"a": [table(1.0, 0.5)]})))[0]["mean"] is None
    disjoint = [table(1.0, 2.0), Metrics([row(5), row(15)])]
    assert curves_of(a_page(Curves("", {"a": disjoint})))[0]["mean"] is None


@pytest.mark.parametrize("broken", [None, math.nan, math.inf])
@pytest.mark.parametrize("key", ["loss", "consensus_error", "gradient_norm"])
def test_a_run_that_diverged_is_marked_with_the_iteration(broken, key):
    run = Metrics([row(0), row(400, **{key: broken})])
    (curve,) = curves_of(a_page(Curves("", {"a": [run]}, planned={"a": 3000})))
    assert (curve["state"], curve["mark"]) == ("diverged", "diverged at k = 400")
    assert curve["seeds"][0]["diverged"] is True
    assert curve["seeds"][0][key][-1] is None


def test_a_run_that_is_still_running_is_marked_and_a_finished_one_is_not():
    planned = {"a": 3000, "b": 1200, "c": 50}
    shown = a_page(
        Curves("", {"a": [table(1, 1, step=1200)], "b": [table(1, 1, step=1200)], "c": [Metrics()]}, None, planned)
    )
    marks = [curve["mark"] for curve in curves_of(shown)]
    assert marks == ["still running: 1,200 of 3,000 iterations", "", "still running: 0 of 50 iterations"]
    assert "a run that was stopped looks the same" in read(shown).visible()
    done = a_page(Curves("", {"b": [table(1, 1, step=1200)]}, None, planned))
    assert "looks the same" not in read(done).visible()


def test_seeds_that_end_differently_are_counted():
    tables = [table(1.0, 2.0, 3.0), table(1.0, None), table(1.0, 2.0)]
    state, mark = embedded.ending(tables, 20)
    assert state == "diverged"
    assert mark == "1 of 3 seeds diverged, the first at k = 10; 1 of 3 seeds still running: 10 of 20 iterations"


def test_a_quantity_without_values_is_left_out():
    (curve,) = curves_of(a_page(Curves("", {"a": [table(1.0, 0.5, accuracy=None)]})))
    assert set(curve["seeds"][0]) == {
        *("iteration", "loss", "consensus_error", "gradient_norm", "bytes_sent", "seconds", "diverged")
    }


def test_nothing_absent_is_shown_as_text():
    block = Table("t", ("a", "b", "c"), [(None, "nan", float("inf")), ("", "None", "x")])
    shown = a_page(Curves("", {"a": [table(math.nan, None)]}), tables=[block], settings={"k": None})
    found = read(shown)
    assert not re.search(r"\b(nan|none|null|inf|undefined)\b", found.visible(), re.IGNORECASE)
    assert "NaN" not in json.dumps(found.data())


def test_a_label_looks_the_same_in_all_charts():
    first = Curves("", {"a": [table(1.0)], "b": [table(1.0)]})
    second = Curves("", {"c": [table(1.0)], "b": [table(1.0)]})
    charts = read(a_page(first, second)).data()["charts"]
    looks = [{curve["label"]: curve["look"] for curve in chart["curves"]} for chart in charts]
    assert looks == [{"a": 0, "b": 1}, {"c": 2, "b": 1}]


def test_verdicts_have_a_word_and_an_icon():
    verdicts = ["reproduced", "not reproduced", "not testable", "reproduced", "partly"]
    found = read(a_page(claims=[Claim(f"claim {v}", "how", v, "evidence") for v in verdicts]))
    text = re.sub(r"\s+", " ", found.visible())
    assert "✓ 2 reproduced" in text
    assert "✗ 1 not reproduced" in text
    assert "? 1 not testable" in text
    assert "• 1 partly" in text
    assert "✗ not reproduced claim not reproduced" in text


def test_numbers_are_aligned_right_and_words_are_not():
    block = Table(
        "",
        ["method", "a", "b", "c", "d"],
        [["d2", "1,200", "0.5 ± 0.1", "82.2 kB", "1e-05"], ["2", "-3", "–", "", "x"]],
    )
    assert block.numeric == [False, True, True, True, False]
    cells = [attrs.get("class") for tag, attrs in read(a_page(tables=[block])).tags if tag == "td"]
    assert cells == [None, "number", "number", "number", None] * 2


@pytest.mark.parametrize("spec", ["path:1", "path:2", "star:6", "er:50:0.2:seed=1", "grid:5:10"])
def test_graphs_are_drawn_with_agents_numbered_from_zero(spec):
    graph = parse(spec)
    found = Reader(embedded.drawing_of(graph))
    assert [data for (tag, _), data in found.texts if tag == "text"] == [str(i) for i in range(graph.n)]
    _, _, width, height = map(float, found.tags[0][1]["viewbox"].split())
    dots = [attrs for tag, attrs in found.tags if tag == "circle"]
    assert len({(dot["cx"], dot["cy"]) for dot in dots}) == graph.n
    for dot in dots:
        assert float(dot["r"]) <= float(dot["cx"]) <= width - float(dot["r"])
        assert float(dot["r"]) <= float(dot["cy"]) <= height - float(dot["r"])
    (edges,) = [attrs["d"] for tag, attrs in found.tags if tag == "path"]
    assert edges.count("M") == len(graph.edges)


def test_a_sequence_is_drawn_as_its_first_rounds():
    sequence = parse("base:10:1")
    found = Reader(embedded.drawing_of(sequence))
    labels = [data for (tag, attrs), data in found.texts if tag == "text" and attrs.get("class") == "round"]
    assert labels == [f"round {number}" for number in range(6)]
    paths = [attrs["d"] for tag, attrs in found.tags if tag == "path"]
    assert [path.count("M") for path in paths] == [len(sequence.graph(number).edges) for number in range(6)]
    assert sum(tag == "circle" for tag, _ in found.tags) == 60
    page = read(a_page(Curves("", {"a": [table(1.0, 0.5)]}), graphs=[WeightedGraph.build(sequence)]))
    assert any("repeats after 6 rounds" in data or "of which the first 6" in data for _, data in page.texts)


def test_the_caption_of_a_large_graph_states_that_edges_are_missing():
    graph = parse("complete:120")
    assert embedded.drawing_of(graph).count("M") == embedded.MOST_EDGES
    assert "Only 5,000 of its 7,140 edges are drawn." in embedded.caption(WeightedGraph.build(graph))
    assert "<text" not in embedded.drawing_of(graph)


def test_writing_leaves_no_partial_file(tmp_path):
    target = tmp_path / "new" / "report.html"
    page.write(a_page(), target)
    assert Reader(target.read_text(encoding="utf-8")).open == []
    assert [path.name for path in target.parent.iterdir()] == ["report.html"]
    with pytest.raises(InputError, match="it is a folder"):
        page.write(a_page(), tmp_path)
    with pytest.raises(InputError, match="cannot write the page"):
        page.write(a_page(), target / "below.html")


def test_the_assets_are_in_the_package():
    assets = files("peerdescent.report").joinpath("assets")
    assert {item.name for item in assets.iterdir()} == {"page.html", "page.css", "page.js"}
