import numpy as np
import pytest

from peerdescent import graphs
from peerdescent.errors import InputError
from peerdescent.graphs import spectra


def unit(graph):
    return graphs.spectrum(graph.laplacian("unit"), graph.mixing())


@pytest.mark.parametrize(
    ("spec", "eigenvalues"),
    [
        *((f"ring:{n}", [2 - 2 * np.cos(2 * np.pi * k / n) for k in range(n)]) for n in (3, 8, 21)),
        *((f"path:{n}", [2 - 2 * np.cos(np.pi * k / n) for k in range(n)]) for n in (2, 9)),
        *((f"star:{n}", [0, *[1] * (n - 2), n]) for n in (3, 12)),
        *((f"complete:{n}", [0, *[n] * (n - 1)]) for n in (2, 7)),
        *((f"hypercube:{d}", [2 * bin(i).count("1") for i in range(2**d)]) for d in (1, 4)),
    ],
)
def test_closed_forms(spec, eigenvalues):
    graph = graphs.parse(spec)
    found = unit(graph)
    zero, rho2, *_, rho = sorted([*eigenvalues, max(eigenvalues)])  # two agents have rho2 = rho
    assert zero == 0
    assert found.rho == pytest.approx(rho, abs=1e-12)
    assert found.rho2 == pytest.approx(rho2, abs=1e-12)


@pytest.mark.parametrize("n", [4, 9])
def test_mixing_of_a_ring_in_closed_form(n):
    found = unit(graphs.ring(n))
    values = sorted((1 + 2 * np.cos(2 * np.pi * k / n)) / 3 for k in range(n))
    assert found.lambda_min == pytest.approx(values[0], abs=1e-12)
    assert found.lambda2 == pytest.approx(values[-2], abs=1e-12)
    assert found.gap == pytest.approx(1 - max(abs(values[0]), abs(values[-2])), abs=1e-12)


def test_the_gap_includes_the_negative_end():
    two = graphs.complete(2)
    flip = two.mixing()
    flip.data[:] = [0.1, 0.9, 0.9, 0.1]  # W = 0.1 I + 0.9 swap, eigenvalues 1 and −0.8
    found = graphs.spectrum(two.laplacian(), flip)
    assert found.lambda_min == pytest.approx(-0.8)
    assert found.gap == pytest.approx(0.2)


def test_exact_averaging_has_gap_one():
    graph = graphs.complete(6)
    assert graphs.spectrum(graph.laplacian(), graph.mixing("uniform")).gap == pytest.approx(1)


def test_one_agent():
    found = unit(graphs.ring(1))
    assert found == graphs.Spectrum(rho=0.0, rho2=0.0, lambda_min=1.0, lambda2=0.0, gap=1.0)


def test_authors10():
    found = unit(graphs.authors10())
    assert round(found.rho, 3) == 5.175
    assert round(found.rho2, 3) == 0.158


def test_median_of_erdos_renyi():
    rho = [unit(graphs.erdos_renyi(10, 0.4, seed)).rho for seed in range(300)]
    assert np.median(rho) == pytest.approx(7.45, abs=0.15)


@pytest.mark.parametrize(
    "spec",
    [
        *("ring:301", "ring:300", "path:300", "star:300", "complete:60", "grid:15:20", "er:200:0.05"),
        *("regular:300:4", "ba:300:2", "geometric:300:0.12", "hypercube:8", "torus:2:150", "ws:300:4:0.05"),
    ],
)
def test_sparse_solvers_agree_with_dense_ones(spec, monkeypatch):
    graph = graphs.parse(spec)
    dense = unit(graph)
    monkeypatch.setattr(spectra, "DENSE", 0)
    sparse = unit(graph)
    for name in ("rho", "rho2", "lambda_min", "lambda2", "gap"):
        assert getattr(sparse, name) == pytest.approx(getattr(dense, name), rel=1e-7, abs=1e-11), name


SOLVERS = ("grid:12:12", "regular:150:4", "ba:150:2", "star:100", "complete:40", "ws:120:4:0.1")


@pytest.mark.parametrize("solver", ["_shift_invert", "_lanczos"])
@pytest.mark.parametrize("spec", SOLVERS)
def test_both_solvers_agree_with_dense_eigenvalues(spec, solver):
    laplacian = graphs.parse(spec).laplacian("unit")
    wanted = np.linalg.eigvalsh(laplacian.toarray())
    assert getattr(spectra, solver)(laplacian) == pytest.approx((wanted[1], wanted[-1]), rel=1e-8)


def test_shift_invert_takes_over_where_lanczos_fails(monkeypatch):
    def stubborn(laplacian):
        raise spectra.ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))

    laplacian = graphs.parse("grid:12:12").laplacian("unit")
    wanted = np.linalg.eigvalsh(laplacian.toarray())
    for name, value in {"DENSE": 0, "FILL": 0, "_lanczos": stubborn}.items():
        monkeypatch.setattr(spectra, name, value)
    assert spectra.ends_of(laplacian) == pytest.approx((wanted[1], wanted[-1]), rel=1e-8)


@pytest.mark.parametrize("spec", ["ring:20", "ring:21", "path:2", "path:17", "star:9", "complete:11"])
@pytest.mark.parametrize("kind", ["unit:0.3", "metropolis"])
def test_closed_forms_need_no_solver(spec, kind, monkeypatch):
    laplacian = graphs.parse(spec).laplacian(kind)
    wanted = np.linalg.eigvalsh(laplacian.toarray())
    assert spectra._closed_form(laplacian) == pytest.approx((wanted[1], wanted[-1]), rel=1e-12)


@pytest.mark.parametrize("graph", ["grid:4:5", "er:12:0.4", "edges:0-1=1,1-2=2,2-0=1"])
def test_other_graphs_have_no_closed_form(graph):
    parsed = graphs.parse(graph)
    assert spectra._closed_form(parsed.laplacian("weighted" if parsed.weights else "unit")) is None


@pytest.mark.parametrize(("spec", "low"), [("ring:100000", 4 / 3), ("path:100000", 1 / 3), ("complete:1500", None)])
def test_large_graphs_take_no_time(spec, low):
    graph = graphs.parse(spec)
    found = graphs.spectrum(graph.laplacian(), graph.mixing())
    wanted = 1.0 if low is None else low * np.pi**2 / graph.n**2
    assert found.rho2 == pytest.approx(wanted, rel=1e-6)
    assert 1 - found.lambda2 == pytest.approx(wanted, abs=1e-15)


@pytest.mark.parametrize("spec", ["grid:5:6", "ring:12"])
def test_the_lazy_spectrum_is_that_of_the_lazy_matrix(spec):
    graph = graphs.parse(spec)
    lazy = unit(graph).lazy()
    direct = graphs.spectrum(graph.laplacian("unit"), graph.mixing("lazy"))
    for name in ("rho", "rho2", "lambda_min", "lambda2", "gap"):
        assert getattr(lazy, name) == pytest.approx(getattr(direct, name), abs=1e-12), name


def test_a_large_ring_in_closed_form():
    n = 2001
    found = unit(graphs.ring(n))
    assert found.rho == pytest.approx(2 + 2 * np.cos(np.pi / n), rel=1e-10)
    assert found.rho2 == pytest.approx(2 - 2 * np.cos(2 * np.pi / n), rel=1e-7)
    assert found.lambda2 == pytest.approx((1 + 2 * np.cos(2 * np.pi / n)) / 3, abs=1e-12)


def test_matrices_of_two_graphs_are_refused():
    with pytest.raises(InputError, match="of the same graph"):
        graphs.spectrum(graphs.ring(3).laplacian(), graphs.ring(4).mixing())
