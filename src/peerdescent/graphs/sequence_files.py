"""Sequences in texts and files: `rounds:4:0-1,2-3/0-2,1-3` and `sequence:PATH`."""

from __future__ import annotations

import os
import re

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.edge_lists import read_edges
from peerdescent.graphs.files import read_text
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.periodic import Periodic
from peerdescent.graphs.sequence import several_parts

_INTEGER = re.compile(r"[0-9]{1,18}")
EMPTY = "none"
"""A line of a sequence file for a round in which nobody talks."""


def from_rounds(text: str) -> Periodic:
    """The sequence of edge lists `N:EDGES/EDGES/…`; an empty list is a round without edges.

    >>> from_rounds("4:0-1,2-3/0-2,1-3").period
    2
    >>> from_rounds("2:0-1=0.25/").weighted_rounds
    True
    """
    if not isinstance(text, str):
        raise InputError(f"graph rounds: expected a text such as '4:0-1,2-3/0-2,1-3', not {described(text)}.")
    agents, colon, lists = text.partition(":")
    if not colon or not _INTEGER.fullmatch(agents) or int(agents) == 0:
        raise InputError(
            f"graph rounds: expected N:EDGES/EDGES/…, such as 4:0-1,2-3/0-2,1-3, not {text[:60]!r}; "
            "N is the number of agents."
        )
    n = int(agents)
    checks.size("rounds", n, text.count("-"))
    try:
        rounds = [_round(n, each.strip()) for each in lists.split("/")]
        return Periodic(n, tuple(rounds))
    except InputError as error:
        raise InputError(f"graph rounds: {error}") from None


def from_sequence_file(path: str | os.PathLike[str]) -> Periodic:
    """Read a sequence from a file with one round per line, which starts again at its end.

    A line is an edge list such as `0-1,2-3` with agents from 0, a text for `parse` such as `ring:10`, or `none` for a
    round without edges; `#` starts a comment and blank lines are skipped. The number of agents is that of the texts,
    or the largest in the edge lists plus one.

    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile("w", suffix=".txt", delete=False) as file:
    ...     _ = file.write("0-1,2-3  # neighbours\\nnone\\nring:4\\n")
    >>> found = from_sequence_file(file.name)
    >>> found.period, found.text
    (3, 'rounds:4:0-1,2-3//0-1,0-3,1-2,2-3')
    >>> os.remove(file.name)
    """
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"sequence file: expected a path, not {described(path)}.")
    name = str(os.fspath(path))
    text = read_text(name, "sequence file", "one graph per line, such as 0-1,2-3 or ring:10")
    lines = [(number, line.partition("#")[0].strip()) for number, line in enumerate(text.split("\n"), start=1)]
    lines = [(number, line) for number, line in lines if line]
    if not lines:
        raise InputError(f"the sequence file {name!r} contains no graphs; write one per line, as 0-1,2-3 or ring:10.")
    try:
        return Periodic(*_rounds_of(lines), spec=f"sequence:{name}")
    except InputError as error:
        raise InputError(f"sequence file {name!r}: {error}") from None


def _rounds_of(lines: list[tuple[int, str]]) -> tuple[int, tuple[Graph, ...]]:
    """The number of agents and the graphs of numbered lines."""
    from peerdescent.graphs.spec import TOPOLOGIES, static

    known: dict[int, Graph] = {}
    n = edges = 0
    for number, line in lines:
        try:
            if ":" in line or line in TOPOLOGIES:
                known[number] = several_parts(static(line, "a sequence file"))
                n = max(n, known[number].n)
                edges += len(known[number].edges)
            elif line != EMPTY:
                pairs, _ = read_edges(line)
                n, edges = max(n, 1 + int(pairs.max())), edges + len(pairs)
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        checks.size("sequence", n, edges)
    rounds = []
    for number, line in lines:
        try:
            rounds.append(known.get(number) or _round(n or 1, line.replace(EMPTY, "")))
        except InputError as error:
            raise InputError(f"line {number}: {error}") from None
        if rounds[-1].n != n and line != EMPTY:
            raise InputError(f"line {number}: the graph has {rounds[-1].n} agents, and another line has {n}.")
    return max(n, 1), tuple(rounds)


def _round(n: int, text: str) -> Graph:
    if not text:
        return Graph(n, (), connected=False)
    pairs, weights = read_edges(text)
    return Graph.from_pairs(n, pairs, weights, connected=False)
