"""Shakespeare's plays: what each role says, for agents that each read another one."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass

from peerdescent.data.datasets import PLAYS
from peerdescent.data.fetch import Announce, load, silent

_NAME = re.compile(r"[A-Z][A-Za-z' ,&-]{0,40}\.?")
_HEADING = re.compile(
    r"(ACT|SCENE|PROLOGUE|EPILOGUE|INDUCTION)\b|(DRAMATIS PERSONAE|PERSONS|THE END|FINIS)", re.IGNORECASE
)
_STAGE = re.compile(r"(Enter|Re-enter|Exit|Exeunt|Flourish|Alarum|Alarums|Sennet|Manet|Manent)\b")
_DIRECTION = re.compile(r"\[[^\[\]]*\]")


@dataclass(frozen=True)
class Role:
    """A role and all that it says, speech by speech."""

    name: str
    play: str
    speeches: tuple[str, ...]


def shakespeare(announce: Announce = silent) -> list[Role]:
    """Return the speaking roles of Shakespeare's plays, those who say most first.

    A role has the name that stands before its speeches in a play, in capitals; stage directions are left out. Fetches
    the data set first if it is not in the cache, like `peerdescent data fetch shakespeare`.

    Args:
        announce: called with one line of text for every source tried, if the data set must be fetched.

    >>> [(role.name, role.play) for role in shakespeare(announce=print)[:2]]  # doctest: +SKIP
    [('HAM', 'Hamlet'), ('IAGO', 'Othello')]
    """
    held = load("shakespeare", announce)
    found = [
        Role(name, PLAYS[file], tuple(speeches))
        for file, text in held.items()
        for name, speeches in roles(text).items()
    ]
    return sorted(found, key=lambda role: -sum(map(len, role.speeches)))


def roles(text: str) -> dict[str, list[str]]:
    """Return the speeches of a play by role.

    A speech is a paragraph whose first line is a name alone, with a full stop or in capitals, and the paragraphs that
    follow it; a name that stands there only once is a line of the speech before.

    >>> play = "ACT I.\\n\\nHam.\\nTo be,\\nor not.\\n\\nOph.\\nMy lord! [Aside] Ay.\\n\\n[Exit.]\\n\\nStay."
    >>> roles(play + "\\n\\nHam.\\nWell.\\n\\nOph.\\nNo.")
    {'HAM': ['To be,\\nor not.', 'Well.'], 'OPH': ['My lord! Ay.\\nStay.', 'No.']}
    """
    paragraphs = [[line.strip() for line in part.splitlines()] for part in re.split(r"\n[ \t]*\n", _spoken(text))]
    paragraphs = [lines for lines in ([line for line in part if line] for part in paragraphs) if lines]
    heads = Counter(name for lines in paragraphs if (name := _name(lines)))
    speeches: dict[str, list[str]] = {}
    speaker = None
    for lines in paragraphs:
        if _HEADING.match(lines[0]) or _STAGE.match(lines[0]):
            continue
        if (name := _name(lines)) and heads[name] > 1:
            speaker = name
            speeches.setdefault(speaker, []).append("\n".join(lines[1:]))
        elif speaker is not None:
            speeches[speaker][-1] += "\n" + "\n".join(lines)
    return speeches


def _spoken(text: str) -> str:
    """Leave out stage directions."""
    return re.sub(r"(?<=\S)  +", " ", _DIRECTION.sub("", text))


def _name(lines: list[str]) -> str | None:
    """Return the role whose name is the first line of a paragraph, or None."""
    first = lines[0]
    if len(lines) == 1 or not _NAME.fullmatch(first) or _HEADING.match(first) or _STAGE.match(first):
        return None
    return first.rstrip(".").upper() if first.endswith(".") or first.isupper() else None
