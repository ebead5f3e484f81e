"""Each hyperparameter by itself: the nearest stable value, and the range in which it stays stable."""

import pytest

from peerdescent import algorithms, graphs, theory

pytestmark = pytest.mark.filterwarnings("ignore:ηβ²")


def test_the_cures_are_stable_and_a_little_less_is_not() -> None:
    graph, method = graphs.star(10), algorithms.make("dsgpa-f")
    assert not theory.stability(method, graph, "unit").stable
    cures = theory.nearest_stable(method, graph, "unit")
    assert set(cures) == {"eta", "alpha", "beta"}
    for name, value in cures.items():
        assert theory.stability(algorithms.make("dsgpa-f", **{name: value}), graph, "unit").stable
        assert not theory.stability(algorithms.make("dsgpa-f", **{name: value * 1.001}), graph, "unit").stable


def test_the_ranges_end_where_the_method_turns_unstable() -> None:
    graph, values = graphs.ring(4), {"eta": 0.08, "alpha": 4.0, "beta": 3.0}
    ranges = theory.stable_range(algorithms.DSGPA(**values, dual="jacobi"), graph, "unit")
    assert ranges["alpha"][0] == pytest.approx(0.08 * 3**2, rel=1e-4)  # ηβ² < α
    for name, (low, high) in ranges.items():
        for value, stable in ((1.001 * low, True), (0.999 * low, False), (0.999 * high, True), (1.001 * high, False)):
            if value > 0:
                method = algorithms.DSGPA(**{**values, name: value}, dual="jacobi")
                assert theory.stability(method, graph, "unit").stable == stable
    assert theory.stable_range(algorithms.make("dsgpa-f"), graphs.star(10), "unit") == {}


def test_a_matched_laplacian_follows_the_values_that_are_tried() -> None:
    graph, method = graphs.star(10), algorithms.DSGPA(0.1, 1.0, 4.0, dual="jacobi")  # ηβ² = 1.6 is above α
    cures = theory.nearest_stable(method, graph, "matched")
    assert cures
    for name, value in cures.items():
        cured = algorithms.DSGPA(**{"eta": 0.1, "alpha": 1.0, "beta": 4.0, name: value}, dual="jacobi")
        assert theory.stability(cured, graph, "matched").stable
