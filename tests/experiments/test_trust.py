"""An experiment file may name Python files to run: a stranger's does so only if the user agrees."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest
from tests.support.commands import Command

import peerdescent
from peerdescent import InputError
from peerdescent.cli import flags
from peerdescent.experiments.files import read

SMALL = "--problem quadratic --graph ring:3 -a d2 --batch-size 0 --iterations 3 -q"
TOML = 'load = ["mine.py"]\nproblem = "quadratic"\ngraph = "ring:3"\nalgorithm = "d2"\niterations = 3\n'
SENTENCE = "loads mine.py, which runs Python code: read it, then add --trust"


@pytest.fixture
def stranger(here: Path) -> Path:
    """Files of a stranger; the code leaves a trace when it runs."""
    (here / "mine.py").write_text("open('executed', 'a').close()\n")
    (here / "a.toml").write_text(TOML)
    return here


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize("command", ["run", "compare", "explain", "tune"])
def test_a_file_that_loads_code_is_refused(command: str, peerdescent_: Command, stranger: Path) -> None:
    said = peerdescent_(command, "a.toml")
    assert said.code == 2
    assert f"a.toml {SENTENCE}" in said.sentences[0]
    assert not (stranger / "executed").exists()


@pytest.mark.usefixtures("undrawn")
def test_trust_and_load_allow_it(peerdescent_: Command, stranger: Path) -> None:
    assert peerdescent_("run", "a.toml", "--trust", "--out", "runs/a", "-q").code == 0
    assert (stranger / "executed").exists()
    (stranger / "executed").unlink()
    (stranger / "own.py").write_text("")
    assert peerdescent_("explain", "a.toml", "--load", "own.py").code == 0  # the flag replaces the key
    assert not (stranger / "executed").exists()


@pytest.mark.usefixtures("undrawn")
def test_a_run_folder_is_a_file_like_any_other(peerdescent_: Command, stranger: Path) -> None:
    """A stranger may have sent it."""
    assert peerdescent_("run", *shlex.split(SMALL), "--load", "mine.py", "--out", "runs/a").code == 0
    (stranger / "executed").unlink()
    for line in ("run runs/a", "run runs/a --resume", "run --out runs/a --resume", "run runs/a/experiment.toml"):
        said = peerdescent_(*line.split())
        assert said.code == 2
        assert f"runs/a/experiment.toml {SENTENCE}" in said.sentences[0]
    with pytest.raises(InputError, match=r"which runs Python code.*trust=True"):
        peerdescent.load("runs/a")
    with pytest.raises(InputError, match="which runs Python code"):
        read("runs/a")
    assert not (stranger / "executed").exists()
    assert peerdescent_("init", "b.toml", "--from", "runs/a").code == 0  # which runs nothing
    assert not (stranger / "executed").exists()
    assert peerdescent_("run", "runs/a", "--resume", "--trust", "-q").code == 0
    assert peerdescent.load("runs/a", trust=True).x.shape == (3, 10)
    assert (stranger / "executed").exists()


@pytest.mark.parametrize("answer", [True, False])
def test_at_a_terminal_it_asks(
    answer: bool, peerdescent_: Command, stranger: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def confirm(text: str, err: bool) -> bool:
        asked.append(text)
        return answer

    monkeypatch.setattr(flags.typer, "confirm", confirm)
    monkeypatch.setattr(flags, "_at_a_terminal", lambda: True)
    assert peerdescent_("explain", "a.toml").code == (0 if answer else 2)
    assert len(asked) == 1
    assert "mine.py" in asked[0]
    assert (stranger / "executed").exists() is answer


@pytest.mark.e2e
def test_workers_never_ask(process: Command, stranger: Path) -> None:
    flags_ = f"{SMALL} --load mine.py --workers 2 --out a"
    (stranger / "mine.py").write_text("with open('executed', 'a') as file:\n    file.write('x')\n")
    assert process("run", *shlex.split(flags_)).code == 0
    assert len((stranger / "executed").read_text()) >= 2  # in each process


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("\n\n1/0", "'mine.py' failed in line 3: ZeroDivisionError: division by zero"),
        ("x = (\n", "'mine.py' failed in line 1: SyntaxError"),
        ("import sys\nsys.exit(0)", "'mine.py' failed in line 2: SystemExit: 0"),
        ("raise GeneratorExit", "'mine.py' failed in line 1: GeneratorExit"),
        ("class E(BaseException): pass\nraise E('a\\nb')", "failed in line 2: peerdescent_user_mine.E: a b"),
        ("def f(): f()\nf()", "failed in line 1: RecursionError"),
        ("open('nothing')", "failed in line 1: FileNotFoundError"),
        ("import json\njson.loads('{')", "failed in line 2: json.decoder.JSONDecodeError"),
        ("raise ValueError('x' * 10**6)", "failed in line 1: ValueError: xxx"),
        ("class E(Exception):\n    def __str__(self): 1/0\nraise E", "failed in line 3: peerdescent_user_mine.E"),
        ("from peerdescent import InputError\nraise InputError('so not')", "failed in line 2: so not"),
        ("\x00", "'mine.py' failed"),
    ],
)
def test_a_failing_file_is_named_with_its_line(
    code: str, words: str, peerdescent_: Command, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.py").write_text(code)
    said = peerdescent_("list", "algorithms", "--load", "mine.py")
    assert said.code == 2
    (sentence,) = said.sentences
    assert words in sentence
    assert len(sentence) < 500
    assert "peerdescent_user_mine" not in sys.modules
