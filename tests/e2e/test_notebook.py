"""A notebook, executed by Jupyter: it shows the bar, the table and the figure, and keeps them when it is saved."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

CELLS = (
    "import peerdescent\n"
    "result = peerdescent.train('logistic-nonconvex', 'ring:5', 'd2', iterations=300, kernel='plain')",
    "result",
    "result.plot()",
    "found = peerdescent.compare('logistic-nonconvex', 'ring:5', ['d2', 'dm-sgd'], iterations=300, kernel='plain',\n"
    "                            seeds=3, grid={'eta': [0.05, 0.5]}, title='Two methods')",
    "found",
    "found.plot()",
    "peerdescent.train('quadratic', 'ring:5', 'd2', iterations=20, progress=False).summary()['iteration']",
)


def executed(folder: Path) -> Any:
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    return nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(folder)}}).execute()


def data(cell: Any) -> dict[str, str]:
    """All that a cell shows, by kind; an error or a warning fails."""
    assert not [out for out in cell.outputs if out.output_type in ("error", "stream")], cell.outputs
    return {kind: text for out in cell.outputs for kind, text in out.data.items()}


@pytest.mark.e2e
def test_a_notebook_shows_bar_table_and_figure(tmp_path: Path) -> None:
    notebook = executed(tmp_path)
    bar, result, plot, bars, table, plots, silent = map(data, notebook.cells)
    assert 'value="300" max="300"' in bar["text/html"]
    assert len(notebook.cells[0].outputs) == 1  # one bar that moved, not many
    assert "<polyline" in result["text/html"]
    for figure in (plot, plots):
        assert base64.b64decode(figure["image/png"]).startswith(b"\x89PNG")
    assert 'value="3600" max="3600"' in bars["text/html"]
    assert table["text/html"].count("<tr") == 5
    assert "±" in table["text/html"]
    assert silent == {"text/plain": "20"}
    nbformat.write(notebook, tmp_path / "shown.ipynb")
