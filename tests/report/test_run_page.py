import contextlib
import json
import re

import pytest
from tests.report.test_page import Reader, row

from peerdescent import train
from peerdescent.algorithms import make
from peerdescent.errors import DivergedError, InputError
from peerdescent.report import page, run_page, runs
from peerdescent.report.formatting import with_spread
from peerdescent.runs.folder import read_metrics
from peerdescent.runs.lock import FolderLock


@pytest.fixture(autouse=True)
def without_plotly(monkeypatch):
    """5 MB of text are slow to parse."""
    monkeypatch.setattr(page, "_plotly", lambda: "let Plotly;")


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Tiny real runs: two methods, one of them with two seeds."""
    root = tmp_path_factory.mktemp("runs")
    for name, method, seed in (("a1", "d-sgd-1", 1), ("a2", "d-sgd-1", 2), ("b1", "dsgpa-t-pb", 1)):
        train("quadratic", "ring:5", method, iterations=40, seed=seed, eval_every=10, out=root / name)
    return root


def folder(path, experiment, losses=(1.0, 0.5)):
    path.mkdir(parents=True)
    (path / "experiment.toml").write_text(experiment)
    (path / "metrics.jsonl").write_text("".join(json.dumps(row(10 * k, v)) + "\n" for k, v in enumerate(losses)))
    return path


def described(method="d-sgd-1", seed=0, graph="ring:4", problem="quadratic", iterations=10, **values):
    options = "".join(f"{key} = {value!r}\n" for key, value in values.items())
    return (
        f'algorithm = "{method}"\nproblem = "{problem}"\ngraph = "{graph}"\nseed = {seed}\n'
        f"iterations = {iterations}\n[set.{method}]\n{options}"
    )


def labels(*paths):
    return {g.label: len(g.runs) for g in runs.group(runs.find(paths))}


def test_seeds_become_one_label(folders):
    assert labels(folders) == {"d-sgd-1": 2, "dsgpa-t-pb": 1}


def test_labels_show_what_differs_and_nothing_else(tmp_path):
    for number, keys in enumerate(
        [{"gamma": 0.5}, {"gamma": 0.5, "seed": 1}, {"gamma": 0.7}, {"gamma": 0.7, "method": "dm-sgd", "beta": 0.8}]
    ):
        folder(tmp_path / str(number), described(eta=0.1, **keys))
    assert labels(tmp_path) == {"d-sgd-1 · gamma=0.5": 2, "d-sgd-1 · gamma=0.7": 1, "dm-sgd": 1}


def test_a_different_graph_is_shown_even_between_methods(tmp_path):
    folder(tmp_path / "1", described())
    folder(tmp_path / "2", described("dm-sgd", graph="ring:5"))
    assert labels(tmp_path) == {"d-sgd-1 · graph=ring:4": 1, "dm-sgd · graph=ring:5": 1}


def test_the_same_seed_twice_is_not_another_sample(tmp_path):
    for place in ("x/a", "x/b", "y/a"):
        folder(tmp_path / place, described())
    assert labels(tmp_path / "x") == {"d-sgd-1 · a": 1, "d-sgd-1 · b": 1}
    assert labels(tmp_path / "x", tmp_path / "x" / "a") == {"d-sgd-1 · a": 1, "d-sgd-1 · b": 1}
    found = labels(tmp_path / "x" / "a", tmp_path / "y" / "a")
    assert found == {f"d-sgd-1 · {tmp_path / 'x' / 'a'}": 1, f"d-sgd-1 · {tmp_path / 'y' / 'a'}": 1}


@pytest.mark.parametrize(
    "text",
    [
        "[dm-sgd]\n[d-sgd-1]\n[c-sgd]\n",
        'algorithms = ["dm-sgd", "d-sgd-1", "c-sgd"]\n[set.c-sgd]\neta = 0.1\n',
    ],
)
def test_comparisons_keep_their_order(text, tmp_path):
    for name in ("dm-sgd", "c-sgd", "d-sgd-1"):
        folder(tmp_path / "many" / "one" / name, described(name))
    (tmp_path / "many" / "one" / "comparison.toml").write_text(text)
    assert list(labels(tmp_path / "many")) == list(labels(tmp_path / "many" / "one")) == ["dm-sgd", "d-sgd-1", "c-sgd"]


def test_each_problem_has_a_section(tmp_path):
    folder(tmp_path / "1", described())
    folder(tmp_path / "2", described(problem="logistic"))
    found = run_page.page([tmp_path], "command")
    assert [section.title for section in found.sections] == ["quadratic", "logistic"]
    assert [list(section.curves[0].runs) for section in found.sections] == [["d-sgd-1"], ["d-sgd-1"]]


def test_the_table_holds_the_last_evaluations(folders):
    (section,) = run_page.page([folders], "command").sections
    ends = section.tables[0]
    one = read_metrics(folders / "b1")[-1]
    line = dict(zip(ends.columns, ends.rows[1], strict=True))
    assert (line["method"], line["seeds"], line["iterations"], line["state"]) == ("dsgpa-t-pb", "1", "40", "finished")
    assert line["risk"] == f"{one['loss']:.4g}"
    assert line["consensus error"] == f"{one['consensus_error']:.3g}"
    first, second = (read_metrics(folders / name)[-1]["loss"] for name in ("a1", "a2"))
    assert ends.rows[0][3] == with_spread([first, second])
    assert "test accuracy (%)" not in ends.columns


def test_no_mean_is_shown_if_a_seed_diverged(tmp_path):
    folder(tmp_path / "1", described(seed=1), (1.0, 0.5))
    folder(tmp_path / "2", described(seed=2), (1.0, None))
    (section,) = run_page.page([tmp_path], "command").sections
    line = dict(zip(section.tables[0].columns, section.tables[0].rows[0], strict=True))
    assert line["risk"] == "–"
    assert line["state"] == "1 of 2 seeds diverged, the first at k = 10"


def test_a_graph_that_cannot_be_rebuilt_is_named(tmp_path):
    folder(tmp_path / "1", described(graph=""))
    (section,) = run_page.page([tmp_path], "command").sections
    assert not section.graphs
    assert "a graph made in Python" in section.text


@pytest.mark.parametrize(
    ("laplacian", "line"),
    [
        ("metropolis", "metropolis Laplacian: ρ(L) = 1.333, ρ₂(L) = 0.6667."),
        ("unit", "unit Laplacian: ρ(L) = 4, ρ₂(L) = 2."),
        ("matched", "I−W: ρ = 0.6667, ρ₂ = 0.3333."),
    ],
)
def test_the_caption_of_a_graph_shows_the_laplacian_of_the_run(laplacian, line, tmp_path):
    folder(tmp_path / "1", f'laplacian = "{laplacian}"\nmixing = "lazy"\n{described()}')
    assert line in Reader(page.render(run_page.page([tmp_path], "command"))).visible()


def test_the_command_writes_a_page_and_prints_its_path(peerdescent_, folders, tmp_path):
    out = tmp_path / "page.html"
    result = peerdescent_("report", folders / "a1", folders / "b1", "--out", out, "--title", "Two & two")
    assert result == (0, f"{out}\n", "")
    found = Reader(out.read_text(encoding="utf-8"))
    assert "Two & two" in found.visible()
    assert f"peerdescent report {folders / 'a1'} {folders / 'b1'} --out {out} --title 'Two & two'" in found.visible()
    assert [curve["label"] for curve in found.data()["charts"][0]["curves"]] == ["d-sgd-1", "dsgpa-t-pb"]


def test_a_run_that_diverged_can_be_reported(peerdescent_, tmp_path):
    with pytest.raises(DivergedError):
        train("quadratic", "ring:5", make("d-sgd-1", eta=10), iterations=500, eval_every=10, out=tmp_path / "bad")
    assert peerdescent_("report", tmp_path / "bad", "--out", tmp_path / "page.html").code == 0
    found = Reader((tmp_path / "page.html").read_text(encoding="utf-8"))
    last = read_metrics(tmp_path / "bad")[-1]["iteration"]
    assert f"diverged at k = {last:,}" in found.visible()


def nothing(path):
    return path / "absent"


def empty(path):
    return path


def a_file(path):
    (path / "file").touch()
    return path / "file"


def no_metrics(path):
    (folder(path / "run", described()) / "metrics.jsonl").unlink()
    return path


def no_rows(path):
    return folder(path / "run", described(), ())


def bad_toml(path):
    return folder(path / "run", "= 5")


def bad_seed(path):
    return folder(path / "run", 'seed = "x"')


def bad_rows(path):
    found = folder(path / "run", described())
    (found / "metrics.jsonl").write_text('{"iteration": 0, "loss": "low"}\n')
    return found


def bad_notes(path):
    found = folder(path / "run", described())
    (found / "summary.json").write_text('{"notes": 5}')
    return found


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (nothing, "is not a folder"),
        (a_file, "is not a folder"),
        (empty, "holds no run"),
        (no_metrics, "no metrics.jsonl"),
        (no_rows, "no records yet"),
        (bad_toml, "not valid TOML"),
        (bad_seed, "whole number"),
        (bad_rows, "not an evaluation"),
        (bad_notes, "notes = 5 is not a list"),
    ],
)
def test_a_bad_folder_is_one_sentence(spoil, words, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    with pytest.raises(InputError, match=words) as caught:
        runs.find([spoil(place)])
    assert str(place) in str(caught.value)
    assert caught.value.exit_code == 2


def test_the_exit_code_of_a_bad_folder(peerdescent_, here):
    result = peerdescent_("report", here / "absent")
    assert (result.code, result.out) == (2, "")
    assert len(result.sentences) == 1
    assert result.err.startswith("peerdescent: ")
    assert list(here.iterdir()) == []


def test_embedded_numbers_are_those_of_the_run_folder(folders):
    found = Reader(page.render(run_page.page([folders], "command")))
    seeds = found.data()["charts"][0]["curves"][0]["seeds"]
    for seed, name in zip(seeds, ("a1", "a2"), strict=True):
        lines = [json.loads(line) for line in (folders / name / "metrics.jsonl").read_text().splitlines()]
        assert seed["iteration"] == [line["iteration"] for line in lines] == [0, 10, 20, 30, 40]
        for key in ("loss", "consensus_error", "gradient_norm", "bytes_sent", "seconds"):
            assert seed[key] == [float(f"{line[key]:.5g}") for line in lines]
        assert "accuracy" not in seed


def test_nothing_absent_is_shown_as_text(folders):
    found = Reader(page.render(run_page.page([folders], "command")))
    assert not re.search(r"\b(nan|none|null|inf|undefined)\b", found.visible(), re.IGNORECASE)


def ends(path):
    (section,) = run_page.page([path], "command").sections
    (curves,) = section.curves
    return section.tables[0].rows[0][-1], next(iter(curves.endings.values()))


@pytest.mark.parametrize(
    ("summary", "locked", "state", "text"),
    [
        (None, True, "running", "still running: 10 of 3,000 iterations"),
        (None, False, "stopped", "ended without a summary at 10 of 3,000 iterations (killed?)"),
        ({"status": "stopped", "iteration": 1234}, False, "stopped", "stopped at 1,234 of 3,000 iterations"),
        ({"iteration": 10, "diverged": False}, False, "stopped", "ended at 10 of 3,000 iterations"),
        ({"iteration": 3000, "diverged": False}, False, "done", ""),
    ],
    ids=["running", "killed", "stopped", "cut", "finished"],
)
def test_how_a_run_ended(summary, locked, state, text, tmp_path):
    place = folder(tmp_path / "a", described(iterations=3000))
    if summary is not None:
        (place / "summary.json").write_text(json.dumps(summary))
    with FolderLock(place) if locked else contextlib.nullcontext():
        assert ends(place) == (text or "finished", (state, text))
        notes = run_page.page([place], "command").notes
    assert ["--resume` continues it" in note for note in notes] == [True] * (state == "stopped")
    assert (place / ".lock").exists() == locked


def test_seeds_that_ended_differently_are_counted(tmp_path):
    for seed, summary in enumerate([None, {"status": "stopped", "iteration": 15}, {"iteration": 3000}]):
        place = folder(tmp_path / str(seed), described(seed=seed, iterations=3000))
        if summary is not None:
            (place / "summary.json").write_text(json.dumps(summary))
    assert ends(tmp_path)[0] == (
        "1 of 3 seeds stopped at 15 of 3,000 iterations; "
        "1 of 3 seeds ended without a summary at 10 of 3,000 iterations (killed?)"
    )
