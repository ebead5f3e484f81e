"""`peerdescent tune` from the command line: results, costs, files and resuming."""

import csv
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.commands import Command

import peerdescent
from peerdescent import graphs, theory
from peerdescent._util import toml
from peerdescent.experiments.resolve import make_algorithm
from peerdescent.experiments.schema import from_keys
from peerdescent.problems import quadratic
from peerdescent.report.formatting import with_spread

pytestmark = pytest.mark.xdist_group("tune")  # its processes and fixtures are started once

SMALL = "--problem quadratic --graph ring:4 --batch-size 1 --set problem.noise=0.1 --iterations 120 --jobs 1 --quiet"
POOR = "-a d-sgd-1 -a dsgpa-f --set d-sgd-1.eta=1e-3 --set dsgpa-f.eta=2e-4"


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "results.json").read_text())
    return found


def trials(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "trials.jsonl").read_text().splitlines()]


def without_seconds(folder: Path) -> list[dict[str, str]]:
    rows = list(csv.DictReader((folder / "table.csv").open()))
    return [{key: value for key, value in row.items() if not key.endswith("seconds")} for row in rows]


@pytest.fixture
def tuned(peerdescent_: Command, here: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder of a tuning that is made once."""
    first = tmp_path_factory.getbasetemp() / "tuned"
    if not first.exists():
        flags = shlex.split(f"{SMALL} {POOR} --trials 12 --seeds 2 --tuning-seeds 2 --seed 5 --out")
        done = peerdescent_("tune", *flags, first)
        assert done.code == 0, done
    shutil.copytree(first, here / "t")
    return here / "t"


def test_tuning_beats_poor_values_on_fresh_seeds(tuned: Path) -> None:
    found = results(tuned)
    assert found["better"] == ["d-sgd-1", "dsgpa-f"]
    assert (found["tuning_seeds"], found["fresh_seeds"]) == ([5, 6], [7, 8])
    assert {seed for line in trials(tuned) if line["stable"] for seed in line["seeds"]} == {5, 6}
    for name, result in found["results"].items():
        values = {**toml.loads((tuned / "tuned.toml").read_text(), "")["set"][name], **result["tuned"]["values"]}
        for which, chosen in (("tuned", values), ("own", {**values, **result["own"]["values"]})):
            for seed, loss in zip(found["fresh_seeds"], result[which]["loss"], strict=True):
                method = peerdescent.algorithms.make(name, **chosen)
                run = peerdescent.train(
                    quadratic(4, noise=0.1), "ring:4", method, iterations=120, batch_size=1, seed=seed
                )
                assert run.metrics[-1]["loss"] == loss
        assert max(result["tuned"]["loss"]) < min(result["own"]["loss"])


def test_every_method_has_the_same_budget_and_the_cost_is_what_the_trials_took(tuned: Path) -> None:
    found = results(tuned)
    for name, result in found["results"].items():
        own = [line for line in trials(tuned) if line["method"] == name]
        ran = [line for line in own if line["stable"]]
        assert [line["iterations"] for line in ran] == [12] * 6 + [30] * 4 + [120] * 2
        assert result["trials"] == 12
        assert result["unstable"] == len(own) - len(ran)
        cost = result["cost"]
        assert (cost["runs"], cost["iterations"]) == (24, 2 * (6 * 12 + 4 * 30 + 2 * 120))
        assert cost["gradients"] == 4 * cost["iterations"]
    assert found["cost"]["searching"]["iterations"] == 2 * 864
    assert found["cost"]["measuring"]["runs"] == 8


def test_unstable_settings_never_run(peerdescent_: Command, here: Path) -> None:
    flags = "-a dsgpa-f --graph star:10 --laplacian unit --trials 18 --seeds 1 --out t"  # its own values are unstable
    assert peerdescent_("tune", *shlex.split(f"{SMALL} {flags}")).code == 0
    lines = trials(here / "t")
    (result,) = results(here / "t")["results"].values()
    assert len([line for line in lines if line["stable"]]) == 18
    assert result["unstable"] == len([line for line in lines if not line["stable"]]) >= 1
    assert lines[9]["parameters"] == result["own"]["values"]  # after the nine that ran, the own values
    assert not lines[9]["stable"]
    ran = list((here / "t" / "trials").rglob("experiment.toml"))
    assert len(ran) == 18
    for path in ran:
        experiment = from_keys(toml.loads(path.read_text(), ""))
        assert theory.stability(make_algorithm(experiment, "dsgpa-f"), graphs.parse(experiment.graph), "unit").stable
    assert result["own"]["loss"] == [None]  # it runs nevertheless, and diverges
    assert result["better"]


@pytest.mark.e2e
def test_the_tuned_experiment_can_be_compared(tuned: Path, peerdescent_: Command, here: Path) -> None:
    assert peerdescent_("compare", tuned / "tuned.toml", "--seed", 7, "--out", "again", "--quiet").code == 0
    for name, result in results(tuned)["results"].items():
        summary = json.loads((here / "again" / name / "summary.json").read_text())
        assert summary["loss"] == result["tuned"]["loss"][0]


def test_all_files_are_consistent(tuned: Path) -> None:
    found = results(tuned)["results"]
    page, table = (tuned / "README.md").read_text(), (tuned / "table.md").read_text()
    for row in csv.DictReader((tuned / "table.csv").open()):
        result = found[row["method"]]
        losses = result["tuned"]["loss"]
        assert float(row["loss_tuned"]) == pytest.approx(sum(losses) / 2)
        assert with_spread(losses) in table
        assert row["tuned"] in table
        assert f"| {row['method']} | {row['own']} |" in page
        assert row["accuracy_tuned"] == ""  # a quadratic has none
    assert table in page
    assert "better for 2 of 2 methods" in page
    assert "seeds 7, 8" in page
    assert {path.name for path in (tuned / "figures").iterdir()} == {"tuned.png", "tuned.pdf"}


@pytest.mark.e2e
def test_the_output_fits_a_narrow_terminal(peerdescent_: Command, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    flags = SMALL.removesuffix(" --quiet")
    done = peerdescent_("tune", *shlex.split(f"{flags} -a dsgpa-t-pb -a d-sgd-2 --trials 3 --seeds 2 --out t"))
    assert done.code == 0, done
    for name, result in results(here / "t")["results"].items():
        values = " ".join(f"{key}={value}" for key, value in result["tuned"]["values"].items())
        assert any(line.split() == [name, *values.split()] for line in done.out.splitlines()), done.out
    assert max(map(len, done.out.splitlines())) <= 80


@pytest.mark.e2e
def test_accuracy_can_be_the_metric(peerdescent_: Command, here: Path) -> None:
    flags = "--problem logistic-nonconvex --set problem.samples=200 --graph ring:4 --iterations 60 --jobs 1"
    more = "-a d-sgd-1 --set eta=1e-5 --metric accuracy --trials 6 --seeds 1 --out t --json"
    done = peerdescent_("tune", *shlex.split(f"{flags} {more}"))
    assert done.code == 0, done
    found = json.loads(done.out)
    assert found["metric"] == "accuracy"
    (result,) = found["results"].values()
    assert result["better"] == (result["tuned"]["accuracy"] > result["own"]["accuracy"])
    ran = [line for line in trials(here / "t") if line["iterations"] == 60]
    assert max(line["accuracy"][0] for line in ran) == next(
        line["accuracy"][0] for line in ran if line["parameters"] == result["tuned"]["values"]
    )


@pytest.mark.e2e
def test_a_killed_tuning_resumes_to_the_same_table(peerdescent_: Command, here: Path) -> None:
    flags = shlex.split(f"{SMALL} {POOR} --trials 9 --seeds 2")
    assert peerdescent_("tune", *flags, "--out", "undisturbed").code == 0
    command = [sys.executable, "-m", "peerdescent", "tune", *flags, "--out", "killed"]
    process = subprocess.Popen(command, cwd=here, env=os.environ)
    while not list((here / "killed").glob("trials/*/round-2/*/*/summary.json")) and process.poll() is None:
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    finished = {path: path.stat().st_mtime_ns for path in (here / "killed").rglob("summary.json")}
    assert finished
    assert peerdescent_("tune", *flags, "--out", "killed").code == 2  # only on request
    assert peerdescent_("tune", *flags, "--out", "killed", "--resume").code == 0
    assert {path: path.stat().st_mtime_ns for path in finished} == finished
    assert without_seconds(here / "killed") == without_seconds(here / "undisturbed")
    assert (here / "killed" / "tuned.toml").read_bytes() == (here / "undisturbed" / "tuned.toml").read_bytes()


def test_resuming_prints_the_same_notes(peerdescent_: Command, here: Path) -> None:
    flags = shlex.split(f"{SMALL.removesuffix(' --quiet')} -a dsgpa-f-pb --set gamma=0.5 --trials 12 --seeds 1 --out t")
    first, again = peerdescent_("tune", *flags), peerdescent_("tune", *flags, "--resume")
    assert any(line["parameters"]["gamma"] < 0.5 for line in trials(here / "t"))  # for which a single run prints a note
    assert (first.code, first.err) == (again.code, again.err)


def test_if_every_trial_diverges_the_report_states_it(peerdescent_: Command, here: Path) -> None:
    done = peerdescent_("tune", *shlex.split(f"{SMALL} -a c-sgd --set eta=1e6 --trials 6 --seeds 1 --out t"))
    assert done.code == 3
    assert "diverged" in done.sentences[0]
    (result,) = results(here / "t")["results"].values()
    assert result["tuned"] == {"values": None, "loss": None, "accuracy": None}
    assert "every trial diverged" in (here / "t" / "README.md").read_text()


@pytest.mark.e2e
def test_custom_methods_are_tuned_in_workers_too(peerdescent_: Command, here: Path) -> None:
    example = Path(__file__).parents[2] / "examples" / "new_method.py"
    name = "d-sgd-ema"
    flags = SMALL.replace("--jobs 1", "--jobs 2")
    done = peerdescent_("tune", *shlex.split(f"{flags} --load {example} -a {name} --trials 3 --seeds 1 --out t"))
    assert done.code == 0, done
    assert results(here / "t")["results"][name]["trials"] == 3


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ("--trials 0", ("trials is 0",)),
        ("--seeds 0", ("seeds is 0",)),
        ("--tuning-seeds 0", ("tuning_seeds is 0",)),
        ("--jobs 0", ("jobs is 0",)),
        ("--iterations 0", ("iterations is 0",)),
        ("--metric speed", ("speed", "accuracy")),
        ("--metric accuracy", ("accuracy", "quadratic")),
        ("-a d-sgd-1 --set eta=0", ("d-sgd-1 has nothing to tune",)),
        ("-a bogus", ("bogus",)),
        ("--resume", ("--out",)),
        ("--workers 2", ("--workers",)),
        ("--on-loss continue", ("--on-loss",)),
        ("-a dsgpa-f --graph star:10 --laplacian unit --strict", ("unstable",)),
    ],
)
def test_wrong_input_is_one_sentence(flags: str, words: tuple[str, ...], peerdescent_: Command, here: Path) -> None:
    done = peerdescent_("tune", *shlex.split(f"{SMALL} {flags}"))
    assert done.code == 2, done
    (sentence,) = done.sentences
    assert all(word in sentence for word in words), sentence
    assert not list(here.iterdir())


def test_an_experiment_without_algorithms_is_one_sentence(peerdescent_: Command, here: Path) -> None:
    (here / "none.toml").write_text('problem = "quadratic"\nalgorithms = []\n')
    done = peerdescent_("tune", "none.toml")
    assert done.code == 2
    assert "needs an algorithm" in done.sentences[0]


def test_a_folder_with_other_contents_is_not_touched(tuned: Path, peerdescent_: Command, here: Path) -> None:
    done = peerdescent_("tune", *shlex.split(f"{SMALL} {POOR} --trials 13 --out t --resume"))
    assert done.code == 2
    assert "other settings" in done.sentences[0]
    assert peerdescent_("compare", *shlex.split(f"{SMALL.replace('--jobs 1', '')} -a c-sgd --out c")).code == 0
    done = peerdescent_("tune", *shlex.split(f"{SMALL} {POOR} --out c --resume"))
    assert done.code == 2
    assert "no tuning" in done.sentences[0]
