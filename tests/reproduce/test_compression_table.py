"""The table of compressed messages: every cell is a run, and what diverges or is refused says so."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerdescent.reproduce import compression


def test_cells() -> None:
    methods = compression.methods()
    exact = compression.cell(methods["d-sgt-1"], "none", 1.0, 600)
    quantized = compression.cell(methods["d-sgt-1"], "qsgd:4", 1.0, 600)
    assert exact.error == pytest.approx(0, abs=1e-3)
    assert quantized.error == pytest.approx(0, abs=1e-3)
    assert compression.cell(methods["D²"], "topk:0.1", 0.3, 600).text == "refused"
    assert compression.cell(methods["d-sgt-1"], "topk:0.1", 1.0, 600).text == "diverges"


def test_files(tmp_path: Path) -> None:
    row = ("`none`", "1", *["1e-03, 5 kB"] * 4)
    path = compression.write_report(compression.table([row], 10), tmp_path, "peerdescent reproduce compression")
    assert "| `none` | 1 | 1e-03, 5 kB |" in path.read_text()
    assert (tmp_path / "tables" / "compression.csv").is_file()
