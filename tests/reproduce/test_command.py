"""The command on a tiny budget: all files exist and are consistent, and a second call runs nothing again."""

import csv
import json
import sys
from pathlib import Path

import pytest

from peerdescent.cli import main as cli
from peerdescent.experiments import pool
from peerdescent.reproduce.studies import parts, read_study


def reproduce(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr(sys, "argv", ["peerdescent", "reproduce", *flags])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


@pytest.mark.e2e
def test_a_reproduction_leaves_a_report_tables_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flags = ("nn", "--seeds", "1", "--budget", "0.0002", "--jobs", "2", "--quiet", "--out", str(tmp_path))
    assert reproduce(monkeypatch, *flags) == 0
    rows = list(csv.DictReader((tmp_path / "tables" / "nn.csv").open()))
    assert len(rows) == 15
    for part in parts(read_study("nn"), 1, 0.0002):
        summary = json.loads((part.folder(tmp_path) / "summary.json").read_text())
        (row,) = [row for row in rows if row["method"] == part.line.label]
        assert row["ours (%)"] == f"{100 * summary['accuracy']:.2f}"
        assert row["verdict"] == ("not testable" if part.line.paper else "–")  # such a short run proves nothing
        assert not (part.folder(tmp_path) / "checkpoints").exists()
    readme = (tmp_path / "README.md").read_text()
    assert all(f"| {row['method']} |" in readme for row in rows)
    assert "DSGPA-T-PB" in (tmp_path / "report.html").read_text()
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"nn{kind}.{suffix}" for kind in ("", "-graph") for suffix in ("png", "pdf")
    }
    for experiment in tmp_path.glob("nn/*/*/experiment.toml"):  # runs made before a key existed had its default
        text = experiment.read_text()
        assert 'message_dtype = "same"\n' in text
        experiment.write_text(text.replace('message_dtype = "same"\n', ""))
    monkeypatch.setattr(pool, "ProcessPoolExecutor", None)  # a finished reproduction needs no workers
    assert reproduce(monkeypatch, *flags) == 0


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("nn", "--seeds", "0"), "seeds is 0"),
        (("nn", "--budget", "2"), "budget = 2"),
        (("nn", "--jobs", "0"), "jobs is 0"),
        (("rnn",), "rnn"),
        (("nn", "--reading", "palm"), "palm"),
    ],
)
def test_wrong_flags_are_one_sentence(
    flags: tuple[str, ...],
    words: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert reproduce(monkeypatch, *flags) == 2
    error = capsys.readouterr().err
    assert error.startswith("peerdescent: ")
    assert error.count("\n") == 1
    assert words in error
    assert not list(tmp_path.iterdir())
