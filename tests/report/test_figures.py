import hashlib
import io
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from matplotlib.colors import to_rgba

from peerdescent import Metrics, train
from peerdescent.errors import InputError
from peerdescent.report import comparison, save

ROWS = ["risk", "test accuracy (%)", "consensus error"]
SCRIPT = """
import sys
from peerdescent import Metrics, graphs, report
rows = [{"iteration": k, "loss": 0.5**k, "bytes_sent": 80 * k, "seconds": k / 7} for k in range(9)]
report.save(report.comparison({"ρ": Metrics(rows), "b": Metrics(rows[:5])}, "title"), sys.argv[1] + "/curves")
report.save(report.topology(graphs.parse("er:20:0.3")), sys.argv[1] + "/graph")
assert "matplotlib.pyplot" not in sys.modules
"""


def table(rate=0.5, evaluations=21, **changes):
    """Metrics of a run that converges; `changes` replaces columns by values or by functions of k."""
    rows = []
    for k in range(evaluations):
        row = {
            "iteration": 10 * k,
            "loss": 2.0 * rate**k,
            "accuracy": 1 - 0.9 * rate**k,
            "consensus_error": 0.0 if k == 0 else 1e-3 * rate**k,
            "gradient_norm": rate**k,
            "bytes_sent": 250_000 * k,
            "seconds": 0.1 * k,
        }
        row.update({key: value(k) if callable(value) else value for key, value in changes.items()})
        rows.append(row)
    return Metrics(rows)


def broken(growth=3.0):
    """Metrics of a run that diverged at its sixth evaluation."""
    table_ = table(evaluations=6, loss=lambda k: growth**k, consensus_error=lambda k: growth**k / 1e6)
    table_.rows[-1].update(loss=math.nan, consensus_error=math.inf, gradient_norm=None)
    return table_


def panels(figure):
    """The panels by (row's label, column's label)."""
    grid = np.array(figure.axes, dtype=object).reshape(figure.axes[0].get_gridspec().get_geometry())
    return {(line[0].get_ylabel(), last.get_xlabel()): axes
            for line in grid for axes, last in zip(line, grid[-1], strict=True)}  # fmt: skip


def line(axes, label):
    (found,) = [line for line in axes.lines if line.get_label() == label]
    return found


def labels(axes):
    return [line.get_label() for line in axes.lines if not line.get_label().startswith("_child")]


def crosses(axes):
    return [line.get_xydata()[0].tolist() for line in axes.lines if line.get_marker() == "x"]


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def remarks(figure):
    return figure.legends[0].get_title().get_text()


def render(figure):
    """Render it: many mistakes only show then."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=50)
    assert file.getvalue().startswith(b"\x89PNG")


def test_panels_show_the_metrics_in_the_units_of_their_labels():
    metrics = table()
    figure = comparison({"d-sgd-1": metrics}, "a title")
    found = panels(figure)
    columns = ["iteration", "sent (MB)", "computing time (s)"]
    assert list(found) == [(row, column) for row in ROWS for column in columns]
    x = dict(zip(columns, (("iteration", 1), ("bytes_sent", 1e-6), ("seconds", 1)), strict=True))
    y = dict(zip(ROWS, (("loss", 1), ("accuracy", 100), ("consensus_error", 1)), strict=True))
    for (row, column), axes in found.items():
        drawn = line(axes, "d-sgd-1")
        np.testing.assert_allclose(drawn.get_xdata(), np.array(metrics[x[column][0]]) * x[column][1])
        np.testing.assert_allclose(drawn.get_ydata(), np.array(metrics[y[row][0]]) * y[row][1])
    assert legend(figure) == ["d-sgd-1"]
    assert figure.get_suptitle() == "a title"


def test_a_real_run_is_drawn_to_its_end():
    run = train("quadratic", "ring:4", "d-sgd-1", iterations=40, eval_every=10)
    figure = comparison({"d-sgd-1": run.metrics})
    axes = panels(figure)["risk", "iteration"]
    assert line(axes, "d-sgd-1").get_xydata()[-1].tolist() == [40, pytest.approx(run.metrics[-1]["loss"])]
    assert "test accuracy (%)" not in {row for row, _ in panels(figure)}


@pytest.mark.parametrize(("most", "unit"), [(700, "B"), (999_999, "MB"), (5e12, "TB")])
def test_bytes_are_drawn_in_a_readable_unit(most, unit):
    figure = comparison({"a": table(bytes_sent=lambda k: most * k / 20)})
    assert figure.axes[-2].get_xlabel() == f"sent ({unit})"


@pytest.mark.parametrize(
    ("loss", "scale"),
    [
        (lambda k: 0.5**k, "log"),
        (lambda k: 1 + 0.1 * k, "linear"),  # within one decade
        (lambda k: 5 - k, "linear"),  # negative at the end
        (lambda k: 0.0, "linear"),
        (lambda k: 10.0 ** (20 * (10 - k)), "log"),
    ],
)
def test_risk_has_a_log_axis_only_where_it_helps(loss, scale):
    figure = comparison({"a": table(loss=loss)})
    assert figure.axes[0].get_yscale() == scale


def test_rows_without_any_value_are_left_out():
    figure = comparison({"a": table(accuracy=None), "b": table(accuracy=None)})
    assert [row for row, column in panels(figure) if column == "iteration"] == ["risk", "consensus error"]
    half = comparison({"a": table(accuracy=None), "b": table()})
    assert np.isnan(line(panels(half)["test accuracy (%)", "iteration"], "a").get_ydata()).all()
    render(half)


def test_a_method_that_sends_nothing_is_left_out_against_bytes_and_named():
    figure = comparison({"c-sgd": table(bytes_sent=0, consensus_error=0.0), "d-sgd-1": table()})
    for (_, column), axes in panels(figure).items():
        assert labels(axes) == (["d-sgd-1"] if column.startswith("sent") else ["c-sgd", "d-sgd-1"])
    assert "Not shown against bytes sent, of which there are none: c-sgd." in remarks(figure)
    assert "Consensus error 0 throughout: c-sgd." in remarks(figure)
    render(figure)


def test_if_no_method_sends_there_is_no_column_of_bytes():
    figure = comparison({"c-sgd": table(bytes_sent=0, consensus_error=0.0)})
    assert {column for _, column in panels(figure)} == {"iteration", "computing time (s)"}
    assert panels(figure)["consensus error", "iteration"].get_yscale() == "linear"
    assert remarks(figure) == ""
    render(figure)


def test_a_diverged_run_is_named_and_ends_in_a_cross_at_its_last_finite_point():
    figure = comparison({"good": table(), "bad": broken()})
    assert legend(figure) == ["good", "bad (diverged)"]
    found = panels(figure)
    assert crosses(found["risk", "iteration"]) == [[40, 81.0]]
    assert crosses(found["risk", "sent (MB)"]) == [[1.0, 81.0]]
    assert crosses(found["consensus error", "iteration"]) == [[40, pytest.approx(81e-6)]]
    render(figure)


def test_a_diverged_run_does_not_flatten_the_others():
    figure = comparison({"good": table(evaluations=9), "bad": broken(growth=1e60)})
    axes = panels(figure)["risk", "iteration"]
    low, high = axes.get_ylim()
    assert low < 2.0 * 0.5**8
    assert 2.0 < high <= 2.0 * 1e3
    assert crosses(axes) == [[40, high]]
    assert line(axes, "bad").get_ydata()[4] == pytest.approx(1e240)  # the line itself is not clipped
    render(figure)


@pytest.mark.parametrize("growth", [3.0, 1e60])
def test_diverged_runs_alone_are_drawn(growth):
    figure = comparison({"bad": broken(growth)})
    assert crosses(figure.axes[0]) == [[40, pytest.approx(growth**4)]]
    render(figure)


def test_a_run_that_diverged_at_once_or_recorded_nothing_is_still_named():
    nothing = dict.fromkeys(("loss", "accuracy", "consensus_error", "gradient_norm"))
    figure = comparison({"at once": Metrics([{"iteration": 0, **nothing}]), "empty": Metrics()})
    assert legend(figure) == ["at once (diverged)", "empty"]
    assert list(panels(figure)) == [("risk", "iteration")]
    render(figure)


@pytest.mark.e2e
def test_fourteen_methods_differ_without_colour():
    figure = comparison({f"method {i}": table(0.5 + 0.03 * i) for i in range(14)})
    drawn = figure.axes[0].lines
    assert len(legend(figure)) == len(drawn) == 14
    looks = {(str(line._dash_pattern), line.get_marker()) for line in drawn}
    assert len(looks) == 14
    assert len({(to_rgba(line.get_color()), str(line._dash_pattern)) for line in drawn}) == 14
    render(figure)


@pytest.mark.parametrize("count", [1, 14])
@pytest.mark.parametrize("length", [3, 60])
def test_the_legend_lies_inside_the_figure_and_below_the_panels(count, length):
    figure = comparison({f"{i:02d} ".ljust(length, "m"): table() for i in range(count)})
    figure.draw_without_rendering()
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1
    assert 0 <= box.y0 < box.y1 <= min(axes.get_tightbbox().y0 for axes in figure.axes)


def test_labels_are_mathematics_only_where_they_can_be():
    figure = comparison({r"$\gamma=0.7$": table(), "$x_{$": table(), "_hidden": table()}, title="100$")
    assert legend(figure) == [r"$\gamma=0.7$", r"\$x_{\$", " _hidden"]
    render(figure)


def test_nothing_to_draw_is_refused():
    with pytest.raises(InputError, match="no curves"):
        comparison({})


@pytest.mark.e2e
def test_threads_do_not_interfere(tmp_path):
    def picture(number):
        return save(comparison({"a": table(), "b": broken()}), tmp_path / str(number))

    with ThreadPoolExecutor(3) as pool:
        written = list(pool.map(picture, range(3)))
    assert len({path.read_bytes() for path, _ in written}) == 1
    assert len({path.read_bytes() for _, path in written}) == 1


@pytest.mark.e2e
def test_the_same_data_gives_the_same_bytes_in_every_process_without_pyplot(tmp_path):
    digests = []
    for seed in "12":
        folder = tmp_path / seed
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        command = [sys.executable, "-c", SCRIPT, str(folder)]
        subprocess.run(command, check=True, env=environment)
        files = sorted(folder.iterdir())
        assert [file.name for file in files] == ["curves.pdf", "curves.png", "graph.pdf", "graph.png"]
        digests.append([hashlib.sha256(file.read_bytes()).hexdigest() for file in files])
    assert digests[0] == digests[1]


@pytest.mark.e2e
def test_saving_one_figure_twice_gives_the_same_bytes(tmp_path):
    figure = comparison({"c": table(bytes_sent=0), "b": broken()}, "title")
    first = [path.read_bytes() for path in save(figure, tmp_path / "first")]
    second = [path.read_bytes() for path in save(figure, tmp_path / "second")]
    assert first == second
