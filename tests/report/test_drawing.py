import io
import math

import numpy as np
import pytest

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.report import drawing, save, topology
from peerdescent.report.layout import WeightedGraph


def render(figure):
    """Render it: many mistakes only show then."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")


def test_saved_files_hold_truetype_fonts_and_no_date(tmp_path):
    png, pdf = save(topology(graphs.ring(5)), tmp_path / "new folder" / "ring.v2")
    assert (png.name, pdf.name) == ("ring.v2.png", "ring.v2.pdf")
    assert b"/FontFile2" in pdf.read_bytes()
    assert b"/Type3" not in pdf.read_bytes()
    assert b"CreationDate" not in pdf.read_bytes()
    assert sorted(path.name for path in png.parent.iterdir()) == [pdf.name, png.name]  # no partial files


def test_a_path_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InputError, match="cannot write the figure"):
        save(topology(graphs.ring(3)), tmp_path / "file" / "picture")


SEQUENCES = {"onepeer-exp", "base", "equidyn", "matching", "matcha", "active-edges", "rounds", "sequence", "subset"}
STATIC = [name for name in graphs.TOPOLOGIES if name not in SEQUENCES | {"file"} and "directed" not in name]


def dots(figure):
    return np.asarray(figure.axes[0].collections[1].get_offsets())


@pytest.mark.parametrize("spec", STATIC)
@pytest.mark.parametrize("small", [False, True])
def test_every_topology_is_drawn_with_agents_apart(spec, small):
    numbers = {"grid": ("4:5", "1:1"), "torus": ("4:5", "1:2"), "hypercube": ("4", "0"), "er": ("20:0.3", "2:1")}
    numbers |= {"regular": ("20:3", "2:1"), "geometric": ("20:0.5", "2:2"), "ws": ("20:4:0.1", "3:2:0.1")}
    numbers |= {"ba": ("20:2", "2:1"), "authors10": ("", ""), "edges": ("0-1,1-2,2-3,3-1", "0-1")}
    text = f"{spec}:{numbers.get(spec, ('20', '1'))[small]}".rstrip(":")
    graph = graphs.parse(text)
    figure = topology(graph)
    places = dots(figure)
    assert places.shape == (graph.n, 2)
    assert np.isfinite(places).all()
    assert len(np.unique(places.round(3), axis=0)) == graph.n
    assert sorted(int(text.get_text()) for text in figure.axes[0].texts) == list(range(graph.n))
    assert len(figure.axes[0].collections[0].get_segments()) == len(graph.edges)


@pytest.mark.parametrize(
    ("spec", "shown", "caption"),
    [
        ("base:25:1", 6, "25 agents, repeats after 9 rounds, of which the first 6 are drawn\n"),
        (
            "onepeer-exp:8",
            3,
            "8 agents, repeats after 3 rounds\n4 edges and degree 1 on average, 12 edges in all rounds",
        ),
        ("matching:5", 6, "5 agents, the first 6 of its rounds, which never repeat\n2 edges and degree 0.8 on average"),
        ("active-edges:grid:2:3:1", 6, "6 agents, the first 6"),
        ("base:4:3", 1, "4 agents, always the same round\n6 edges and degree 3 on average"),
        ("matching:1", 6, "1 agent, the first 6 of its rounds"),
    ],
)
def test_a_sequence_is_drawn_as_its_first_rounds(spec, shown, caption):
    sequence = graphs.parse(spec)
    figure = topology(sequence)
    panels = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in panels] == [f"round {number}" for number in range(shown)]
    assert figure.get_suptitle() == sequence.spec
    assert figure.get_supxlabel().startswith(caption)
    for number, axes in enumerate(panels):
        graph = sequence.graph(number)
        segments = axes.collections[0].get_segments()
        assert len(segments) == len(graph.edges)
        places = np.asarray(axes.collections[1].get_offsets())
        np.testing.assert_array_equal(places, dots(figure))  # an agent stays where it is
        for segment, (i, j) in zip(segments, graph.edges, strict=True):
            np.testing.assert_allclose(segment, places[[i, j]])


@pytest.mark.parametrize("kind", ["metropolis", "unit"])
def test_the_caption_shows_size_and_spectrum_of_the_laplacian(kind):
    graph = graphs.authors10()
    ends = graphs.spectrum(graph.laplacian(kind), graph.mixing())
    caption = topology(graph, kind=kind).axes[0].get_xlabel()
    assert caption.splitlines() == [
        "10 agents, 11 edges, degree 1–4, diameter 6",
        f"{kind} Laplacian: ρ(L) = {ends.rho:.4g}, ρ₂(L) = {ends.rho2:.4g}",
    ]


def test_a_given_spectrum_is_shown():
    graph = graphs.ring(5)
    ends = graphs.Spectrum(rho=1.25, rho2=0.5, lambda_min=0.0, lambda2=0.0, gap=1.0)
    caption = topology(graph, ends, "matched").axes[0].get_xlabel()
    assert caption.splitlines()[1] == "matched Laplacian: ρ(L) = 1.25, ρ₂(L) = 0.5"


@pytest.mark.parametrize(
    ("laplacian", "line"),
    [
        ("metropolis", "metropolis Laplacian: ρ(L) = 1.333, ρ₂(L) = 0.6667"),
        ("unit", "unit Laplacian: ρ(L) = 4, ρ₂(L) = 2"),
        ("matched", "I−W: ρ = 0.6667, ρ₂ = 0.3333"),
    ],
)
def test_the_caption_names_the_matrix(laplacian, line):
    # lazy mixing is (I+W)/2, so that the eigenvalues of I−W are halved
    assert WeightedGraph.build(graphs.ring(4), laplacian, "lazy").caption().splitlines()[1] == line


@pytest.mark.parametrize("spec", ["path:2", "path:3", "grid:1:8", "grid:8:1", "ring:7", "er:30:0.2"])
def test_texts_do_not_overlap_agents(spec):
    figure = topology(graphs.parse(spec))
    figure.draw_without_rendering()
    axes = figure.axes[0]
    heights = axes.transData.transform(dots(figure))[:, 1]
    radius = math.sqrt(axes.collections[1].get_sizes()[0]) / 2 * figure.dpi / 72
    assert axes.xaxis.label.get_window_extent().y1 < heights.min() - radius
    assert axes.title.get_window_extent().y0 > heights.max() + radius


def test_edges_end_at_their_agents():
    graph = graphs.parse("er:12:0.4")
    figure = topology(graph)
    segments = np.array(figure.axes[0].collections[0].get_segments())
    np.testing.assert_array_equal(segments, dots(figure)[graph.pairs])


def test_a_renumbered_ring_is_still_a_circle_of_neighbours():
    graph = graphs.Graph(5, ((0, 2), (2, 4), (4, 1), (1, 3), (3, 0)))
    places = dots(topology(graph))
    lengths = np.linalg.norm(places[graph.pairs[:, 0]] - places[graph.pairs[:, 1]], axis=1)
    np.testing.assert_allclose(lengths, 2 * math.sin(math.pi / 5), rtol=1e-5)


@pytest.mark.parametrize("spec", ["er:200:0.05", "ring:200", "complete:120", "grid:10:20"])
def test_large_graphs_are_drawn_as_dots(spec):
    figure = topology(graphs.parse(spec))
    assert len(dots(figure)) == graphs.parse(spec).n
    assert not figure.axes[0].texts
    assert len(np.unique(dots(figure).round(6), axis=0)) == len(dots(figure))
    render(figure)


@pytest.fixture
def captions(monkeypatch):
    """The captions of the graphs that commands save, by file name."""
    found = {}
    monkeypatch.setattr(drawing, "save", lambda figure, path: found.update({path.name: figure.axes[0].get_xlabel()}))
    return found


@pytest.mark.parametrize(
    ("command", "flags", "line"),
    [
        ("run", "-a dsgpa-f", "metropolis Laplacian: ρ(L) = 1.333, ρ₂(L) = 0.6667"),
        ("run", "-a dsgpa-f --laplacian unit", "unit Laplacian: ρ(L) = 4, ρ₂(L) = 2"),
        (
            "run",
            "-a dsgpa-f --laplacian matched --set alpha=2 --set eta=0.1",
            "matched Laplacian: ρ(L) = 6.667, ρ₂(L) = 3.333",
        ),
        ("compare", "-a dsgpa-f -a dsgpa-t --laplacian matched", "I−W: ρ = 1.333, ρ₂ = 0.6667"),
    ],
)
def test_the_figure_of_a_run_shows_the_laplacian_in_use(command, flags, line, captions, peerdescent_, here):
    common = "--problem quadratic --graph ring:4 --iterations 2 --out a --quiet"
    assert peerdescent_(command, *common.split(), *flags.split()).code == 0
    assert captions["topology"].splitlines()[1] == line
