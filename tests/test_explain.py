"""`peerdescent explain` and the warning before a run."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from peerdescent import cli, graphs, theory


def call(monkeypatch: pytest.MonkeyPatch, *flags: str) -> int:
    monkeypatch.setattr(sys, "argv", ["peerdescent", *flags])
    with pytest.raises(SystemExit) as end:
        cli.main()
    return int(end.value.code or 0)


def facts(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *flags: str) -> Any:
    assert call(monkeypatch, "explain", *flags, "--json") == 0
    return json.loads(capsys.readouterr().out)


def test_the_papers_settings_as_printed_are_unstable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    found = facts(monkeypatch, capsys, "nn-code", "-a", "dsgpa-f", "--set", "dual=jacobi")
    assert found["stability"]["stable"] is False
    assert found["stability"]["margin"] < 0
    assert "eigenvalue of L" in found["stability"]["reason"]
    assert found["stability"]["cures"]["alpha"] == pytest.approx(12, rel=1e-3)  # ηβ² = 12 must be below α
    assert found["theorem1"]["holds"] is False


def test_facts_of_a_graph(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    found = facts(monkeypatch, capsys, "-a", "dm-sgd", "--graph", "star:10", "--laplacian", "unit")
    graph = found["graph"]
    assert (graph["agents"], graph["edges"], graph["degrees"], graph["diameter"]) == (10, 9, [1, 9], 2)
    numbers = [graph[key] for key in ("rho", "rho2", "lambda_min", "gap")]
    assert numbers == pytest.approx([10, 1, 0, 0.1], abs=1e-9)
    assert found["vectors_per_edge"] == 2
    assert found["stability"]["stable"] is True


def test_theorem_1_holds_for_its_own_parameters(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = theory.theorem1_parameters(graphs.ring(4), 1000)
    given = [f"--set={key}={values[key]!r}" for key in ("eta", "alpha", "beta")]
    flags = ("-a", "dsgpa-f-pb", "--graph", "ring:4", "--iterations", "1000", "--set", "dual=jacobi", *given)
    found = facts(monkeypatch, capsys, *flags)
    assert found["theorem1"] == {"holds": True, "failing": []}
    assert found["stability"]["stable"] is True


def test_several_methods_are_told_to_a_person(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "explain", "quickstart") == 0
    said = capsys.readouterr().out
    assert said.count("shrinks tenfold") == 4
    assert "diameter 6" in said


UNSTABLE = ("--problem", "quadratic", "--graph", "star:10", "--laplacian", "unit", "-a", "dsgpa-f", "--iterations", "5")


def test_an_unstable_run_warns_and_a_strict_one_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "a")) == 0
    assert "note: dsgpa-f is unstable on this graph" in capsys.readouterr().err
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict") == 2
    said = capsys.readouterr().err
    assert said.startswith("peerdescent: dsgpa-f is unstable on this graph")
    assert "would cure it" in said
    assert not (tmp_path / "b").exists()


def test_the_cure_that_is_suggested_cures(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict")
    cure = capsys.readouterr().err.split("; ")[-1].split(" would")[0].replace(" ", "")
    assert call(monkeypatch, "run", *UNSTABLE, "--out", str(tmp_path / "b"), "--strict", "--set", cure) == 0
