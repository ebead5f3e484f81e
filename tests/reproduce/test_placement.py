"""The table of placements: predicted fixed points are measured, before and after the correction."""

from __future__ import annotations

from pathlib import Path

import pytest

from peerdescent.reproduce import placement
from peerdescent.transforms import Clip, Powerball, Sign

METHODS = placement.methods()


@pytest.mark.parametrize("name", ["d-sgt-1", "d-sgd-1"])
def test_before_the_correction_there_is_the_predicted_bias(name: str) -> None:
    made = placement.placed(METHODS[name], Clip(0.3), after=False)
    assert made is not None
    found = placement.cell(made, 4000)
    assert found.bias is not None
    assert found.off is not None
    assert found.bias > 0.01
    assert found.off < placement.AGREES


@pytest.mark.e2e
@pytest.mark.parametrize("name", list(METHODS))
def test_every_method_ends_where_it_is_predicted_to(name: str) -> None:
    plain = METHODS[name]
    cells = {"nothing": placement.cell(plain, placement.ITERATIONS)}
    for transform in (Powerball(0.7), Clip(0.3), Sign()):
        for after in (False, True):
            made = placement.placed(plain, transform, after)
            assert (made is None) == (after and not plain.corrects)
            if made is not None:
                cells[f"{transform} {after}"] = placement.cell(made, placement.ITERATIONS)
    for what, cell in cells.items():
        assert (cell.off is None) == (what == "Sign() False" and not plain.common_start), what  # no single fixed point
        if cell.off is not None and cell.bias is not None:
            circles = "Sign" in what or (name == "d2" and what == "Powerball(gamma=0.7) True")  # at about η
            if name == "d2" and what == "Sign() True":
                continue  # it circles too widely
            assert cell.off < (placement.ETA if circles else placement.AGREES), (what, cell)
            corrected = (plain.corrects and ("True" in what or what == "nothing")) or plain.common_start
            assert (cell.bias < 1e-9) == corrected, (what, cell)


def test_what_corrects_nothing_has_no_place_after_it() -> None:
    assert placement.placed(METHODS["d-sgd-1"], Sign(), after=True) is None
    assert {"dsgpa-f", "d2", "d-sgt-1", "d-sgt-2", "powered-tracking", "d-sgd-1", "c-sgd"} <= set(METHODS)


def test_files(tmp_path: Path) -> None:
    row = ("`d2`", *["0 (1e-9)"] * 7)
    path = placement.write_report(placement.table([row], 10), tmp_path, "peerdescent reproduce placement")
    assert "| `d2` | 0 (1e-9) |" in path.read_text()
    assert (tmp_path / "tables" / "placement.csv").is_file()
