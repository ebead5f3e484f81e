"""Test loss, metrics of the user's own, moving averages, the agents' band and early endings, where they are shown."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from matplotlib.collections import PolyCollection

from peerdescent import train
from peerdescent.report import embedded, run_page
from peerdescent.report.figures import comparison
from peerdescent.report.page import Curves
from peerdescent.report.summary import summary_table
from peerdescent.runs.metrics import Metrics

ROWS = [
    {
        "iteration": k,
        "loss": 0.5**k,
        "test_loss": 0.6**k,
        "f1": k / 10,
        "ema_loss": 0.7**k,
        "agent_loss": [0.5**k / 2, None, 3 * 0.5**k],
        "agent_f1": [0.0, k / 5, k / 10],
        "consensus_error": 0.1,
        "bytes_sent": 80 * k,
        "seconds": k / 7,
        "evaluation_seconds": k,
    }
    for k in range(6)
]


def test_a_figure_has_panels_for_them_and_a_band_of_agents() -> None:
    figure = comparison({"a": Metrics(ROWS)})
    labels = [axes.get_ylabel() for axes in figure.axes[::3]]
    assert labels == ["risk", "test loss", "f1", "consensus error"]
    bands = [len([c for c in axes.collections if isinstance(c, PolyCollection)]) for axes in figure.axes[::3]]
    assert bands == [1, 0, 1, 0]
    low, high = (end(figure.axes[0].collections[0].get_paths()[0].vertices[:, 1]) for end in (min, max))
    assert (low, high) == pytest.approx((0.5**5 / 2, 3.0))
    assert figure.axes[0].get_ylim()[1] < 1.5  # the axis follows the line
    (remark,) = [legend.get_title().get_text() for legend in figure.legends]
    assert "lowest to the highest agent" in remark
    plain = [{key: value for key, value in row.items() if not key.startswith("agent_")} for row in ROWS]
    assert not comparison({"a": Metrics(plain)}).axes[0].collections


def test_the_table_has_columns_for_them() -> None:
    table = summary_table({"a": ROWS[-1], "b": {"iteration": 3, "loss": 1.0}})
    one, other = csv.DictReader(io.StringIO(table.to_csv()))
    assert (one["test_loss"], one["f1"], one["ema_loss"]) == (str(0.6**5), "0.5", str(0.7**5))
    assert other["f1"] == other["test_loss"] == ""
    assert "evaluation_seconds" not in one
    assert "agent_f1" not in one
    heads = table.to_markdown().splitlines()[0]
    assert "test loss" in heads
    assert "risk of the moving average" in heads


def test_the_page_gets_their_numbers_and_names() -> None:
    curves = Curves("", {"a": [Metrics(ROWS)], "b": [Metrics(ROWS), Metrics(ROWS)]})
    one, two = embedded.chart(curves, {"a": 0, "b": 1})["curves"]
    assert one["seeds"][0]["f1"] == [0, 0.1, 0.2, 0.3, 0.4, 0.5]
    assert one["seeds"][0]["agents"]["loss"]["high"][:3] == [3, 1.5, 0.75]
    assert one["seeds"][0]["agents"]["f1"]["low"] == [0] * 6
    assert two["mean"]["f1"]["mean"] == one["seeds"][0]["f1"]
    assert embedded.added_labels([curves]) == {"f1": "f1", "ema_loss": "risk of the moving average"}


def test_a_run_that_stopped_early_is_finished(tmp_path: Path) -> None:
    train("quadratic", "ring:4", "d-sgd-1", iterations=9000, eval_every=20, patience=2, out=tmp_path / "a")
    page = run_page.page([tmp_path / "a"], "peerdescent report a")
    (section,) = page.sections
    (row,) = section.tables[0].rows
    last = int(row[1].replace(",", ""))
    assert last < 9000
    assert row[-1] == f"stopped early at {last:,} of 9,000 iterations"
    assert section.curves[0].endings["d-sgd-1"][0] == "done"
    assert any("loss has not improved for 2 evaluations" in note for note in page.notes)
    assert not any("--resume" in note for note in page.notes)
