"""The study of heavy tails through the command line, tiny, and that the same command only reads what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.commands import Command

from peerdescent.reproduce import gradient_tails, heavy_tails, heavy_tails_report


@pytest.mark.e2e
def test_the_command_leaves_a_report(peerdescent_: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gradient_tails, "NETWORKS", {"mnist-nn": 100})  # no download
    monkeypatch.setattr(heavy_tails, "TRIALS", {"quadratic": 2, "mnist-nn": 2})
    monkeypatch.setattr(heavy_tails_report, "TRIALS", heavy_tails.TRIALS)
    some = [heavy_tails.settings(0.02)[number] for number in (0, 4)]
    monkeypatch.setattr(heavy_tails, "settings", lambda budget: some)
    monkeypatch.setattr("peerdescent.reproduce.heavy_tails_run.fetch", lambda *a, **k: None)
    flags = ("reproduce", "heavy-tails", "--seeds", "1", "--budget", ".02", "--jobs", "1", "--out", str(tmp_path), "-q")
    said = peerdescent_(*flags)
    assert (said.code, said.err) == (0, "")
    monkeypatch.setattr(heavy_tails, "bias_of", None)  # nothing is measured twice
    monkeypatch.setattr(gradient_tails, "measure", None)
    said = peerdescent_(*flags)
    assert (said.code, said.err) == (0, "")
    text = (tmp_path / "heavy-tails" / "README.md").read_text()
    assert text.count("\n## ") >= 5
    for name in heavy_tails.methods():
        assert f"| `{name}` |" in text
