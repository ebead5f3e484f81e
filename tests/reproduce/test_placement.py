"""The table of placements: predicted fixed points are measured, before and after the correction."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from tests.support.commands import Command

from peerdescent.algorithms import PRESETS
from peerdescent.reproduce import placement, placement_report
from peerdescent.reproduce.placement import AFTER, BEFORE, NOTHING, TRANSFORMS, Cell
from peerdescent.transforms import Clip, Sign, Transform

METHODS = placement.methods()


def cell(name: str, transform: Transform, place: str) -> Cell:
    made = placement.placed(METHODS[name], transform, place)
    assert made is not None
    return placement.cell(made)


@pytest.mark.parametrize(("name", "transform"), [("d-sgt-1", Clip(0.3)), ("d-sgd-1", TRANSFORMS["unit length"])])
def test_before_the_correction_there_is_the_predicted_bias(name: str, transform: Transform) -> None:
    found = cell(name, transform, BEFORE)
    assert found.predicted is not None
    assert found.off is not None
    assert found.predicted > 0.01
    assert found.off < placement_report.AGREES
    assert not found.circles


@pytest.mark.e2e
@pytest.mark.parametrize("name", ["dsgpa-f", "d-sgt-2", "extra", "gt-nsgdm", "edm"])
def test_after_the_correction_there_is_none(name: str) -> None:
    for what, transform in TRANSFORMS.items():
        found = cell(name, transform, AFTER)
        assert found.predicted == pytest.approx(0, abs=1e-12)
        assert found.circles == (name == "gt-nsgdm" or what != "clip 0.3")
        assert found.measured < (placement.ETA if found.circles else placement_report.AGREES), (what, found)


def test_what_corrects_nothing_has_no_place_after_it() -> None:
    assert placement.placed(METHODS["d-sgd-1"], Sign(), AFTER) is None
    assert set(METHODS) == set(PRESETS)


def cells() -> dict[tuple[str, str, str], Cell]:
    fine, biased = Cell(0.0, 0.0, 1e-9, False), Cell(0.2, 0.2, 1e-9, False)
    found = {(name, NOTHING, BEFORE): biased if method.bias else fine for name, method in METHODS.items()}
    return found | {("d2", what, place): biased if place == BEFORE else fine
                    for what in TRANSFORMS for place in (BEFORE, AFTER)}  # fmt: skip


def test_claims_name_what_differs() -> None:
    found = cells()
    assert {one.verdict for one in placement_report.claims(found)} == {"reproduced"}
    found["d2", "clip 0.3", AFTER] = dataclasses.replace(found["d2", "clip 0.3", AFTER], off=0.1)
    found["extra", NOTHING, BEFORE] = Cell(0.2, 0.2, 1e-9, False)
    settles, after, signs, before, cards = placement_report.claims(found)
    assert settles.evidence.endswith("; not d2, clip 0.3 after: 0 (1.0e-01)")
    assert after.verdict == cards.verdict == "not reproduced"
    assert signs.verdict == before.verdict == "reproduced"
    assert "not extra: 2.0e-01 (1.0e-09)" in cards.evidence


@pytest.mark.e2e
def test_the_command_leaves_a_report_and_reads_it_again(
    peerdescent_: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    some = {name: METHODS[name] for name in ("d2", "d-sgd-1")}
    monkeypatch.setattr(placement, "methods", lambda: some)
    monkeypatch.setattr(placement_report, "methods", lambda: some)
    flags = ("reproduce", "placement", "--budget", ".01", "--out", str(tmp_path), "-q")
    said = peerdescent_(*flags)
    assert (said.code, said.err) == (0, "")
    measured = (tmp_path / "placement" / "measured.json").read_bytes()
    monkeypatch.setattr(placement, "cell", None)  # nothing is measured twice
    assert peerdescent_(*flags).code == 0
    assert (tmp_path / "placement" / "measured.json").read_bytes() == measured
    text = (tmp_path / "placement" / "README.md").read_text()
    assert "| `d-sgd-1` |" in text
    assert "not testable" in text
    assert (tmp_path / "placement" / "figures" / "placement.png").is_file()
