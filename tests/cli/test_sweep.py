"""`run` and `compare` with --seeds and several values of --set: what is run, shown, kept, resumed and removed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.support.commands import Command, rows, without_seconds

from peerdescent.experiments import sweep_run
from peerdescent.report import run_page
from peerdescent.report.runs import find, group
from peerdescent.report.sweep import sweep_figure

SMALL = [
    "--problem",
    "quadratic",
    "--graph",
    "ring:4",
    "--batch-size",
    "0",
    "--iterations",
    "20",
    "--kernel",
    "plain",
    "--set",
    "problem.noise=1",
]
SWEPT = [*SMALL, "-a", "d2", "-a", "dm-sgd", "--seeds", "2", "--set", "eta=.05,.1", "--jobs", "1"]


@pytest.fixture
def undrawn_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out the figures, which take longer than the runs."""
    monkeypatch.setattr(
        sweep_run, "_draw", lambda groups, title, out: sweep_run.sweep_table(groups, title).write(out / "table")
    )


@pytest.mark.usefixtures("undrawn_sweep")
def test_every_run_of_a_sweep_is_the_run_of_its_own(peerdescent_: Command, here: Path) -> None:
    said = peerdescent_("compare", *SWEPT, "--json", "--out", "s")
    assert said.code == 0, said
    places = [f"{m}/eta={eta}/seed-{seed}" for m in ("d2", "dm-sgd") for eta in (0.05, 0.1) for seed in (0, 1)]
    assert sorted(str(path.parent.relative_to(here / "s")) for path in here.glob("s/**/metrics.jsonl")) == places
    assert peerdescent_("run", *SMALL, "-a", "dm-sgd", "--seed", "1", "--set", "eta=.1", "--out", "alone").code == 0
    assert rows(here / "alone") == rows(here / "s/dm-sgd/eta=0.1/seed-1")
    ends = [rows(here / f"s/d2/eta=0.1/seed-{seed}")[-1]["loss"] for seed in (0, 1)]
    result = json.loads(said.out)["results"]["d2 · eta=0.1"]
    assert result["loss"] == pytest.approx(np.mean(ends))
    assert result["loss_deviation"] == pytest.approx(np.std(ends, ddof=1))
    assert result["diverged"] == 0


@pytest.mark.usefixtures("undrawn_sweep")
def test_a_sweep_goes_on_with_what_is_missing(
    peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert peerdescent_("compare", *SWEPT, "--out", "s").code == 0
    before = {path: path.read_bytes() for path in here.glob("s/**/metrics.jsonl")}
    shutil.rmtree(here / "s/d2/eta=0.1/seed-1")
    done: list[str] = []
    real = sweep_run.train_part
    monkeypatch.setattr(sweep_run, "train_part", lambda part, *more: (done.append(part.label), real(part, *more)))
    assert peerdescent_("compare", "s", "--resume", "--jobs", "1").code == 0
    assert done == ["d2 · eta=0.1"]
    assert rows(here / "s/d2/eta=0.1/seed-1") == rows_of(before[here / "s/d2/eta=0.1/seed-1/metrics.jsonl"])
    done.clear()
    assert peerdescent_("compare", "s", "--resume", "--seeds", "3", "--jobs", "1").code == 0  # one more of each
    assert len(done) == 4
    other = peerdescent_("compare", "s", "--resume", "--batch-size", "3", "--jobs", "1")
    assert other.code == 2
    assert "batch_size" in other.err


def rows_of(content: bytes) -> list[dict[str, object]]:
    return without_seconds([json.loads(line) for line in content.splitlines()])


@pytest.mark.usefixtures("undrawn_sweep")
def test_overwriting_a_sweep_removes_its_runs_and_nothing_else(peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("compare", *SWEPT, "--out", "s").code == 0
    (here / "s/d2/eta=0.1/notes.txt").write_text("mine")
    assert peerdescent_("compare", *SWEPT, "--out", "s").code == 2  # not empty
    said = peerdescent_("run", *SMALL, "-a", "d2", "--seeds", "1", "--jobs", "1", "--out", "s", "--overwrite")
    assert said.code == 0, said
    files = {str(path.relative_to(here / "s")) for path in here.glob("s/**/*") if path.is_file()}
    assert (here / "s/d2/eta=0.1/notes.txt").read_text() == "mine"
    assert {name for name in files if "metrics" in name} == {"d2/seed-0/metrics.jsonl"}
    assert not any("dm-sgd" in name for name in files)


@pytest.mark.usefixtures("undrawn_sweep")
def test_diverged_seeds_are_counted_and_leave_no_mean(peerdescent_: Command, here: Path) -> None:
    said = peerdescent_("run", *SMALL, "-a", "d2", "--iterations", "300", "--seeds", "2", "--set", "eta=.1,9", "--jobs", "1", "--json", "--out", "s")  # fmt: skip # noqa: E501
    assert said.code == 0, said
    good, bad = (json.loads(said.out)["results"][f"d2 · eta={eta}"] for eta in (0.1, 9.0))
    assert (good["diverged"], bad["diverged"], bad["loss"]) == (0, 2, None)
    assert "2 of 2 seeds diverged" in bad["state"]
    assert "2 of 2 seeds diverged" in (here / "s/table.md").read_text()
    groups = group(find([here / "s"]))
    assert [len(one.runs) for one in groups] == [2, 2]
    labels = [text.get_text() for text in sweep_figure(groups, "A title").legends[0].get_texts()]
    assert labels == ["d2 · eta=0.1", "d2 · eta=9.0 (2 of 2 diverged)"]
    page = run_page.page([here], "peerdescent report .")  # also from the folder above
    assert [row[1] for row in page.sections[0].tables[0].rows] == ["2", "2"]
    every = peerdescent_("run", *SMALL, "-a", "d2", "--iterations", "300", "--seeds", "2", "--set", "eta=9", "--jobs", "1", "--out", "t")  # fmt: skip # noqa: E501
    assert every.code == 3


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--jobs", "2"], "--jobs"),
        (["--seeds", "2", "--workers", "2"], "--workers"),
        (["--seeds", "2", "--kill", "0@5"], "--kill"),
        (["--seeds", "2", "--jobs", "0"], "--jobs"),
        (["--seeds", "two"], "two"),
        (["--seeds", "1,2", "--seed", "3"], "contradict"),
        (["--set", "eta=.1,,.2"], "empty"),
        (["--set", "eta=.1,.10"], "more than once"),
        (["--set", "eta=.1,.2", "--set", "eta=.3,.4"], "together"),
        (["--set", "zeta=.1,.2"], "zeta"),
        (["--set", "problem.zeta=1,2"], "zeta"),
    ],
)
def test_wrong_sweeps_end_with_one_sentence(peerdescent_: Command, here: Path, words: list[str], expected: str) -> None:
    said = peerdescent_("run", *SMALL, "-a", "d2", "--out", "s", *words)
    assert said.code == 2, said
    (sentence,) = said.sentences
    assert expected in sentence
    assert not list(here.iterdir())
