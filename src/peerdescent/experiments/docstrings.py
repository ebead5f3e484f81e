"""What the docstring of a method says: its title, equations, explanation and references."""

from __future__ import annotations

import re
from dataclasses import dataclass

MATH, EXAMPLE = ".. math::", ">>>"
SKIPPED = re.compile(r"^(Args|Example|Examples|Returns|Raises):$")
"""Headings whose indented lines are for readers of the code."""
REFERENCE = re.compile(r"\bReferences?: (.*)$", re.DOTALL)


@dataclass(frozen=True)
class Docstring:
    """The parts of a method's docstring."""

    title: str
    formulas: tuple[str, ...]
    """LaTeX, each displayed by itself."""
    text: str
    """The explanation, paragraphs separated by empty lines."""
    reference: str


def read_docstring(text: str) -> Docstring:
    r"""The parts of a docstring without its indentation (`inspect.getdoc`).

    >>> read_docstring("D: a method.\n\n.. math:: x^+ = Wx\n\nIt mixes. Reference: A and B 2019.\n\n>>> 1\n1")
    Docstring(title='D: a method.', formulas=('x^+ = Wx',), text='It mixes.', reference='A and B 2019')
    """
    title, *lines = text.splitlines() or [""]
    formulas: list[str] = []
    prose: list[str] = []
    inside = ""  # of formulas, of an example, which ends with an empty line, or of indented lines that are skipped
    for line in lines:
        if inside == EXAMPLE:
            inside = EXAMPLE if line else ""
            continue
        if line and not line.startswith(" "):
            starts = (MATH, EXAMPLE)
            inside = next((start for start in starts if line.startswith(start)), "-" if SKIPPED.match(line) else "")
        if inside == MATH:
            formulas.append(line.removeprefix(MATH).strip())
        elif not inside:
            prose.append(line.strip())
    paragraphs = _paragraphs(prose)
    found = [REFERENCE.search(paragraph) for paragraph in paragraphs]
    reference = "; ".join(match.group(1).removesuffix(".") for match in found if match)
    kept = [REFERENCE.sub("", paragraph).strip() for paragraph in paragraphs]
    return Docstring(title, tuple(_paragraphs(formulas)), "\n\n".join(filter(None, kept)), reference)


def _paragraphs(lines: list[str]) -> list[str]:
    """Lines joined up to the next empty one."""
    joined = "\n".join(lines).split("\n\n")
    return [" ".join(part.split()) for part in joined if part.strip()]
