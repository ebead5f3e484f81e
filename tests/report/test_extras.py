"""Without the optional packages: tables work, and everything else ends with a sentence that names the remedy."""

import subprocess
import sys

import pytest

from peerdescent.experiments import run as running

HIDE = "import sys; sys.modules.update(dict.fromkeys(['matplotlib', 'plotly', 'jinja2', 'markupsafe', 'pandas']))\n"
TABLES = "from peerdescent.report import summary_table; print(summary_table({'a': {'iteration': 9}}).to_markdown())"
PAGE = "from peerdescent.report.page import Page, render; render(Page('t', 'c', [], [], {}))"


def run(script):
    return subprocess.run([sys.executable, "-c", HIDE + script], check=False, capture_output=True, text=True)


def test_tables_need_no_optional_package():
    assert run(TABLES).stdout.startswith("| method | iterations |\n")


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("from peerdescent.report import drawing", "figures need matplotlib"),
        ("from peerdescent.report import comparison", "figures need matplotlib"),
        ("import peerdescent.report.seeds", "figures need matplotlib"),
        (PAGE, "HTML pages need"),
        ("from peerdescent import Metrics; Metrics().to_pandas()", "DataFrames need pandas"),
    ],
)
def test_a_missing_package_is_one_sentence(script, sentence):
    last = run(script).stderr.splitlines()[-1]
    assert last.startswith(f"peerdescent.errors.InputError: {sentence}")
    assert last.endswith(": pip install 'peerdescent[report]'.")


def test_a_run_without_matplotlib_keeps_its_tables_and_warns(peerdescent_, here, monkeypatch):
    monkeypatch.setattr(running.extras, "installed", lambda package: package != "matplotlib")
    flags = "-a d-sgd-1 --problem quadratic --graph ring:4 --iterations 5 --out a"
    result = peerdescent_("run", *flags.split())
    assert result.code == 0
    assert "no figure is drawn: figures need matplotlib" in result.err
    assert "figure:" not in result.out
    assert (here / "a" / "table.md").is_file()
    assert not (here / "a" / "figures").exists()


def test_a_reproduction_without_matplotlib_does_not_start(peerdescent_, here, monkeypatch):
    monkeypatch.setattr(running.extras, "installed", lambda package: package != "matplotlib")
    result = peerdescent_("reproduce", "nn")
    assert (result.code, list(here.iterdir())) == (2, [])
    assert "figures need matplotlib" in result.err
