"""Which cases there are: each is a function of a seed and a number, so that it can be repeated alone."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

from tests.support.fuzz import calls, commands, folders, graphs, surroundings, toml_files
from tests.support.fuzz.cases import Case

KINDS: dict[str, tuple[int, Callable[[random.Random], Case]]] = {
    "flags": (28, commands.make),
    "graphs": (13, graphs.make),
    "toml": (13, toml_files.make),
    "folders": (21, folders.make),
    "calls": (17, calls.make),
    "environment": (4, surroundings.environment),
    "cache": (2, surroundings.cache),
    "signals": (1, surroundings.struck),
    "disk": (1, surroundings.disk),
}
"""The kinds of cases, with their shares in per cent."""
REAL = 0.02
"""The share of commands that start an interpreter of their own."""


def make(seed: int, index: int) -> Case:
    """The case of that number."""
    r = random.Random(f"{seed}:{index}")
    kind = r.choices(list(KINDS), [share for share, _ in KINDS.values()])[0]
    case = KINDS[kind][1](r)
    words = (*case.argv, *map(str, case.environment.values()))
    startable = case.argv and not case.strike and not any("\0" in word for word in words)
    return replace(case, real=bool(startable) and _encodable(case) and (case.real or r.random() < REAL))


def _encodable(case: Case) -> bool:
    """Whether the system takes the words; a lone surrogate that stands for no byte cannot be passed on."""
    try:
        "".join(case.argv).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return sum(map(len, case.argv)) < 100_000


def documented_codes() -> frozenset[int]:
    """The exit codes that errors.py gives to errors, and 0."""
    from peerdescent import errors

    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    return frozenset({0, *(kind.exit_code for kind in kinds if hasattr(kind, "exit_code"))})
