"""The pages say what is so: their examples run, their links lead somewhere, their tests exist."""

from __future__ import annotations

import ast
import doctest
import re
from pathlib import Path

import pytest
from tests.support.commands import Command

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
THEORY = [ROOT / "docs" / name for name in ("theory.md", "convergence.md")]
HELD_BY = re.compile(r"\[(tests/[\w/]+\.py)::(\w+)\]\(([^)]+)\)")


def functions_of(path: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", THEORY, ids=lambda page: page.name)
def test_every_test_that_is_named_exists(page: Path) -> None:
    named = HELD_BY.findall(page.read_text())
    assert len(named) > 15
    assert len(named) == page.read_text().count("::test_"), "a test is named outside of a link"
    for file, name, link in named:
        assert (page.parent / link).resolve() == ROOT / file, link
        assert name.startswith("test_")
        assert name in functions_of(ROOT / file), f"{file}::{name}"


@pytest.mark.parametrize("page", THEORY, ids=lambda page: page.name)
def test_every_statement_ends_with_the_tests_that_hold_it(page: Path) -> None:
    parts = re.split(r"^(?=\*\*\(\d+\))", page.read_text(), flags=re.MULTILINE)[1:]
    assert [int(re.match(r"\*\*\((\d+)\)", part).group(1)) for part in parts] == list(range(1, len(parts) + 1))  # type: ignore[union-attr]
    for part in parts:
        statement, arrow, rest = part.partition("\n→ ")
        assert arrow, statement
        assert HELD_BY.match(rest), statement


@pytest.mark.parametrize(
    ("page", "least"),
    [("theory.md", 10), ("convergence.md", 4), ("training.md", 8), ("clock.md", 3), ("nonlinearities.md", 6)],
)
def test_the_examples_run(page: str, least: int) -> None:
    outcome = doctest.testfile(str(ROOT / "docs" / page), module_relative=False)
    assert outcome.attempted >= least
    assert outcome.failed == 0


def test_the_readme_shows_what_explain_says(peerdescent_: Command) -> None:
    block = re.search(r"```text\n\$ peerdescent (explain .*)\n([^`]*)```", (ROOT / "README.md").read_text())
    assert block
    said = " ".join(peerdescent_(*block.group(1).split()).out.split())
    for shown in re.split(r"\n(?=\S)", block.group(2)):
        assert " ".join(shown.split()) in said


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_within_the_project_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text())
    missing = [t for t in targets if "://" not in t and not (page.parent / t).exists()]
    assert not missing
