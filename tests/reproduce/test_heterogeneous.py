"""The study of heterogeneous data: what is run, and how it is judged."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.reproduce.test_command import reproduce

from peerdescent.experiments.resolve import make_algorithm
from peerdescent.reproduce import execution, heterogeneous
from peerdescent.reproduce.results import LineResult, Results
from peerdescent.reproduce.studies import Line, heterogeneous_studies, parts
from peerdescent.runs.metrics import Metrics


def results(losses: Mapping[str, float], diverged: str = "") -> Results:
    """One seed of every line, with these final losses; 1 where none is given."""
    labels = [line.label for line in heterogeneous_studies()[0].lines]
    return {
        label: LineResult(
            Line(label, {}), [Metrics([{"iteration": 1, "loss": losses.get(label, 1.0)}])], [label == diverged]
        )
        for label in labels
    }


def test_both_networks_both_splits_all_powers_and_the_baselines() -> None:
    studies = heterogeneous_studies()
    assert [study.name for study in studies] == ["nn-label", "nn-dirichlet", "cnn-label", "cnn-dirichlet"]
    for study in studies:
        labels = [line.label for line in study.lines]
        assert {f"{kind}, γ = {g}" for kind in ("PB", "PB-exact") for g in heterogeneous.GAMMAS} < set(labels)
        assert heterogeneous.PLAIN in labels
        assert len(set(heterogeneous.BASELINES) & set(labels)) >= 3
        made = [part.experiment for part in parts(study, 1)]
        assert {e.partition for e in made} == {"label" if "label" in study.name else "dirichlet:0.1"}
        for line, experiment in zip(study.lines, made, strict=True):
            method = make_algorithm(experiment, experiment.algorithms[0])
            if "γ" in line.label:
                assert line.label.startswith(f"{line.label.split(',')[0]}, γ = {method.parameters()['gamma']:g}")


def test_a_claim_fails_where_one_setting_fails_and_names_it() -> None:
    biased = results({"PB, γ = 0.5": 1.2, "PB, γ = 0.7": 1.05})
    first, second, *_ = heterogeneous.claims({"here": biased})
    assert first.verdict == "not reproduced"
    assert first.evidence.startswith("worse in 1 of 3 settings. here, γ = 0.5: 1.2 against 1")
    assert second.verdict == "reproduced"


def test_what_diverges_is_worse_than_anything() -> None:
    claims = heterogeneous.claims({"here": results({}, diverged="PB-exact, γ = 0")})
    assert [claim.verdict for claim in claims] == [
        "reproduced", "not reproduced", "not reproduced", "reproduced", "not reproduced"
    ]  # fmt: skip
    assert "diverged against 1" in claims[1].evidence


def test_the_best_baseline_counts() -> None:
    claims = heterogeneous.claims({"here": results({"D²": 0.5})})
    assert claims[-1].verdict == "not reproduced"
    assert "1 against 0.5" in claims[-1].evidence


@pytest.mark.e2e
def test_the_verdicts_reach_the_papers_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    only_digits = [study for study in heterogeneous_studies() if study.name == "nn-label"]
    monkeypatch.setattr(execution, "heterogeneous_studies", lambda: only_digits)
    flags = ("--seeds", "1", "--budget", "0.0005", "--jobs", "2", "--quiet", "--out", str(tmp_path))
    assert reproduce(monkeypatch, "nn", *flags) == 0
    before = {claim["text"]: claim for claim in json.loads((tmp_path / "claims.json").read_text())}
    assert any("`reproduce heterogeneous-data` was not run" in claim["evidence"] for claim in before.values())
    assert reproduce(monkeypatch, "heterogeneous-data", *flags) == 0
    assert reproduce(monkeypatch, "nn", *flags) == 0
    after = [claim["text"] for claim in json.loads((tmp_path / "claims.json").read_text())]
    own = [claim["text"] for claim in json.loads((tmp_path / "heterogeneous-data" / "claims.json").read_text())]
    assert len(own) == 5
    assert set(own) < set(after)
    assert any("`reproduce speedup` was not run" in claim["evidence"] for claim in before.values())
