"""The tables on communication: every cell is a run, what diverges or is refused says so, and verdicts follow."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from peerdescent import algorithms
from peerdescent.cli import main as cli
from peerdescent.experiments import pool
from peerdescent.reproduce import communication, communication_report
from peerdescent.reproduce.communication import COMPRESSED, OVER_TIME, STEPS, Outcome


def part(study: str, label: str, budget: float = 1.0):
    (found,) = [p for p in communication.parts(budget) if (p.study, p.line.label) == (study, label)]
    return found


def outcome(study: str, label: str, budget: float) -> Outcome:
    return communication.outcome(part(study, label, budget).experiment)


def test_every_method_is_in_every_cell() -> None:
    labels = {(p.study, p.line.label) for p in communication.parts()}
    for name in algorithms.PRESETS:
        assert (OVER_TIME, f"{name} on matching:16 with 0.2") in labels
        assert (COMPRESSED, f"{name} with topk:0.01") in labels


def test_step_sizes_are_those_of_the_table() -> None:
    experiment = part(OVER_TIME, "dsgpa-f on onepeer-exp:16 with 0.2").experiment
    assert (experiment.set, experiment.iterations) == ({"eta": 0.2, "alpha": 5.0, "beta": 1.25}, 4000)
    experiment = part(COMPRESSED, "d-sgt-1 with qsgd:4").experiment
    assert (experiment.set["eta"], experiment.iterations, experiment.graph) == (0.05, 6000, "ring:10")


def test_outcomes() -> None:
    exact = outcome(OVER_TIME, "d-sgt-1 on onepeer-exp:16 with 0.2", 0.1)
    assert exact.error is not None
    assert exact.error < 1e-3
    assert exact.sent == 400 * 16 * 2 * 10 * 8  # one neighbour, two vectors of ten numbers
    refused = outcome(COMPRESSED, "d2 with topk:0.1", 0.001)
    assert refused.refused.startswith("compress = 'topk:0.1' does not suit D2")
    assert str(refused) == "refused"
    diverging = outcome(STEPS, "d-sgt-1 with topk:0.1 and c = 1", 0.1)
    assert diverging.diverged
    assert str(diverging).startswith("diverges, ")


def test_verdicts() -> None:
    agrees = communication_report._agrees
    assert agrees(Outcome(1e-3), 2e-3)
    assert agrees(Outcome(1e-14), 2e-11)
    assert not agrees(Outcome(1e-3), 1e-6)
    assert not agrees(Outcome(None), 1e-3)
    assert agrees(Outcome(None), None)
    assert agrees(Outcome(1e9), None)


@pytest.mark.e2e
def test_the_command_leaves_a_report_and_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in set(algorithms.PRESETS) - {"d-sgd-1", "d-sgt-1", "d-sgt-2", "d2", "dsgpa-f", "dsgpa-f-pb-exact"}:
        monkeypatch.delitem(algorithms.registry._PRESETS, name)
    command = ["peerdescent", "reproduce", "communication", "--budget", "0.001", "--jobs", "1", "--out", str(tmp_path)]
    monkeypatch.setattr(sys, "argv", command)
    for _ in range(2):
        with pytest.raises(SystemExit) as end:
            cli.main()
        assert not end.value.code
        monkeypatch.setattr(communication, "outcome", None)  # a finished study runs nothing again
        monkeypatch.setattr(pool, "ProcessPoolExecutor", None)
    out = tmp_path / "communication"
    page = (out / "README.md").read_text()
    assert "| d2 | " in page
    assert "Reason 1: compress = 'qsgd:4' does not suit D2" in page.replace("\\", "")
    assert "refused: reason 1" in page
    assert (out / "figures" / "graphs.png").is_file()
    assert (out / "tables" / "compression.csv").is_file()
    claims = json.loads((out / "claims.json").read_text())
    assert claims[0]["verdict"] == "reproduced"  # judged without a run
    assert {claim["verdict"] for claim in claims[1:]} == {"not testable"}
