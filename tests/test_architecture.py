"""The shape of the project: words that readers know, files of one idea, a command that starts fast."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LONGEST = 350
FOLDERS = ("src", "tests", "docs", "examples", "benchmarks")
PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "Makefile", "pyproject.toml")
PRIVATE = re.compile(
    r"\b(with_laws|with_returned|wiring|mix[_-]every|carry_out|carries out|foretell\w*|foretold|THANKS|shelf|"
    r"(?:Hub|Spoke|Watch|Meeting)(?=\(|\b:)|everyone_plan|strike_now|\w+Lane|\w*lanes|"
    r"signs? of life|fall(?:s|en)? silent|(?:un)?like data|one's own|on the processor|no centre|the house)\b"
)
"""Words that cost every reader a look-up, for which there are standard terms."""


def texts() -> list[Path]:
    found = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    kinds = (".py", ".md", ".toml", ".h", ".html", ".js")
    return [path for path in found if path.suffix in kinds and path != Path(__file__)] + [ROOT / name for name in PAGES]


def test_no_private_word_is_left() -> None:
    left = [
        f"{path.relative_to(ROOT)}:{number}: {match.group()}"
        for path in texts()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if (match := PRIVATE.search(line))
    ]
    assert not left, "\n".join(left)


def test_modules_are_short() -> None:
    sizes = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in (ROOT / "src").rglob("*.py")}
    assert not {str(path.relative_to(ROOT)): size for path, size in sizes.items() if size > LONGEST}


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["--version"],
        ["run", "--help"],
        ["run", "--no-such-flag"],
        ["run", "--iterations", "many"],
        ["run", "--iterations", "-1"],
        ["run", "no-such-experiment"],
        ["compare", "--set", "eta"],
        ["nothing"],
    ],
)
def test_help_and_wrong_flags_need_no_torch(arguments: list[str]) -> None:
    """Counted in modules, not in seconds: torch alone takes longer to import than all the rest."""
    code = (
        "import sys; from peerdescent.cli.main import main\n"
        f"sys.argv = ['peerdescent', *{arguments!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    code = end.code or 0\n"
        "heavy = sorted({'torch', 'numpy', 'scipy', 'networkx', 'matplotlib', 'pandas'} & set(sys.modules))\n"
        "print(); print('HEAVY', heavy, 'CODE', code)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    expected = 0 if {"--help", "--version"} & set(arguments) else 2
    assert done.stdout.splitlines()[-1] == f"HEAVY [] CODE {expected}", done.stdout + done.stderr
    if expected:
        assert len(done.stderr.strip().splitlines()) == 1


def test_importing_the_package_imports_nothing_heavy() -> None:
    code = "import sys, peerdescent; print(sorted({'torch', 'scipy', 'matplotlib', 'pandas'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_training_imports_no_figures() -> None:
    """What `train` needs is torch, NumPy, SciPy and networkx; figures and DataFrames are extras."""
    extras = "{'matplotlib', 'pandas', 'jinja2', 'plotly', 'sklearn', 'mlxtend', 'typer', 'scipy.stats'}"
    code = f"import sys; from peerdescent import train, optim, explain; print(sorted({extras} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_every_public_name_exists() -> None:
    import peerdescent

    for name in peerdescent.__all__:
        assert getattr(peerdescent, name) is not None
    assert set(peerdescent.__all__) <= set(dir(peerdescent))
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = peerdescent.no_such_name
