"""Graphs: texts such as ring:8, and files with edges, damaged."""

from __future__ import annotations

import os
import random
from typing import Any

from tests.support.fuzz.cases import Case, Place
from tests.support.fuzz.values import damaged, mutated, text, varied

SPECS = (
    *("ring:4", "ring:8", "path:3", "star:5", "complete:4", "grid:2:3", "torus:3:3", "hypercube:3", "exponential:8"),
    *("er:8:0.5", "er:6:0.4:seed=3", "regular:8:3", "geometric:6:0.6", "ws:8:2:0.1", "ba:8:2", "authors10", "path:1"),
    *("edges:0-1,1-2,2-0", "edges:0-1=0.5,1-2=2", "edges:0-1", "file:file.txt"),
)
LARGE = ("ring:100000", "complete:3000", "ring:20000", "star:50000", "er:2000:0.5", "grid:300:300", "hypercube:40")
"""What is admitted must end, and what cannot end must be refused."""
FILES: dict[str, bytes] = {
    "edges.txt": b"# a ring\n0 1\n1 2\n2 3\n3 0\n",
    "weighted.txt": b"1 2 0.5\n2 3 1.5\n3 1 2\n",
    "edges.csv": b"0,1\n1,2\n2,0\n",
    "matrix.csv": b"0,1,0,1\n1,0,1,0\n0,1,0,1\n1,0,1,0\n",
    "named.csv": b"source,target,weight\n0,1,0.5\n1,2,0.25\n",
    "graph.graphml": b"""<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected">
<node id="0"/><node id="1"/><node id="2"/><edge source="0" target="1"/><edge source="1" target="2"/>
</graph></graphml>
""",
    "bomb.graphml": b"""<?xml version='1.0'?><!DOCTYPE a [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">
<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d "&c;&c;&c;&c;&c;&c;&c;&c;">]>
<graphml><graph><node id="&d;"/></graph></graphml>
""",
    "graph.gml": b"graph [\n node [ id 0 ]\n node [ id 1 ]\n edge [ source 0 target 1 ]\n]\n",
}
SPECIAL = ("fifo", "folder", "/dev/zero", "/dev/null", "/proc/self/mem", "loop", "missing.txt", "~/x", "", "x" * 300)


def spec(r: random.Random) -> str:
    """A graph as a text."""
    if r.random() < 0.02:
        return r.choice(LARGE)
    return varied(r, SPECS)


def make(r: random.Random) -> Case:
    """A graph from a text or a file, through the command line or in Python."""
    if r.random() < 0.5:
        given = mutated(r, r.choice(SPECS)) if r.random() < 0.7 else spec(r)
        return _use(r, given, prepare=_write_all)
    if r.random() < 0.15:
        name = r.choice(SPECIAL)
        return _use(r, f"file:{name}", prepare=_write_special, path=name)
    name = r.choice(list(FILES))
    content = _changed(r, FILES[name])
    ending = r.choice((name, name, name, "graph", "graph.txt", "graph.npy", "graph.npz", "graph.csv"))

    def write(place: Place) -> None:
        (place.here / ending).write_bytes(content)

    return _use(r, f"file:{ending}", prepare=write, path=ending, remark=f"{ending} holds {content[:120]!r}")


def _use(r: random.Random, given: str, path: str | None = None, **more: Any) -> Case:
    kind = r.random()
    if kind < 0.2:
        return Case("graphs", ("explain", "--problem", "quadratic", "-a", "d-sgd-1", "--graph", given), **more)
    if kind < 0.3:
        command = ("run", "--problem", "quadratic", "-a", "d-sgd-1", "--iterations", "3", "--kernel", "plain")
        return Case("graphs", (*command, "--graph", given, "--out", "out"), **more)
    call = f"graphs.from_file({path!r})" if path is not None and kind < 0.6 else f"graphs.parse({given!r})"
    return Case("graphs", code=f"from peerdescent import graphs; print(str({call})[:200])", **more)


def _changed(r: random.Random, content: bytes) -> bytes:
    if r.random() < 0.4:
        return damaged(r, content)
    lines = content.decode().split("\n")
    at = r.randrange(len(lines))
    lines[at] = r.choice(
        (mutated(r, lines[at]), text(r), lines[0], "0 0", "0 1 -1", "0 1 nan", "5 900000000000", "9 8")
    )
    return "\n".join(lines).encode("utf-8", "surrogateescape")


def _write_all(place: Place) -> None:
    (place.here / "file.txt").write_bytes(FILES["edges.txt"])


def _write_special(place: Place) -> None:
    os.mkfifo(place.here / "fifo")
    (place.here / "folder").mkdir()
    (place.here / "loop").symlink_to("loop")
