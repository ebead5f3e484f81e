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


@pytest.mark.parametrize("end", ["_smallest_positive", "_largest"])
@pytest.mark.parametrize("spec", ["grid:12:12", "regular:150:4", "ba:150:2", "star:100", "complete:40"])
def test_shift_invert_agrees_where_lanczos_fails(spec, end, monkeypatch):
    laplacian = graphs.parse(spec).laplacian("unit")
    wanted = np.linalg.eigvalsh(laplacian.toarray())[1 if end == "_smallest_positive" else -1]
    solve, calls = spectra.eigsh, []

    def stubborn(*arguments, **options):
        calls.append("sigma" in options)
        if "sigma" not in options:
            raise spectra.ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))
        return solve(*arguments, **options)

    monkeypatch.setattr(spectra, "eigsh", stubborn)
    assert getattr(spectra, end)(laplacian) == pytest.approx(wanted, rel=1e-8)
    assert calls == [False, True]


def test_a_large_ring_in_closed_form():
    n = 2001
    found = unit(graphs.ring(n))
    assert found.rho == pytest.approx(2 + 2 * np.cos(np.pi / n), rel=1e-10)
    assert found.rho2 == pytest.approx(2 - 2 * np.cos(2 * np.pi / n), rel=1e-7)
    assert found.lambda2 == pytest.approx((1 + 2 * np.cos(2 * np.pi / n)) / 3, abs=1e-12)


def test_matrices_of_two_graphs_are_refused():
    with pytest.raises(InputError, match="of the same graph"):
        graphs.spectrum(graphs.ring(3).laplacian(), graphs.ring(4).mixing())
