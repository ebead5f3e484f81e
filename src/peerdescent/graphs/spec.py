"""Graphs as short texts such as `ring:10` or `er:10:0.4:seed=3`, and the list of their forms."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import networkx as nx

from peerdescent._util.validation import described, did_you_mean
from peerdescent.errors import InputError
from peerdescent.graphs import directed_texts, directed_topologies, files, sequence_files, topologies
from peerdescent.graphs import random_sequences as changing
from peerdescent.graphs import random_topologies as drawn
from peerdescent.graphs import sequence_topologies as timed
from peerdescent.graphs.base_graphs import base_graph
from peerdescent.graphs.budgeted_matchings import matcha
from peerdescent.graphs.directed import from_digraph
from peerdescent.graphs.edge_lists import from_edge_list
from peerdescent.graphs.graph import Graph, from_networkx
from peerdescent.graphs.own_matrices import from_matrix, is_matrix
from peerdescent.graphs.sequence import AnyGraph, GraphSequence, as_static

_INTEGER = re.compile(r"[0-9]{1,18}")
SEQUENCE, PYTHON = "sequence", "python"
"""What the texts of a file of graphs and of a Python function start with."""


@dataclass(frozen=True)
class Topology:
    """An entry of `TOPOLOGIES`.

    Args:
        make: the function that returns the graph or the sequence.
        form: the form of the text, with numbers in capitals: `er:N:P`; SPEC is the text of another graph.
        summary: one line about it.
        seeded: whether the text may end in `:seed=S`.
        verbatim: whether `make` takes everything after the first colon as one text.
    """

    make: Callable[..., AnyGraph]
    form: str
    summary: str
    seeded: bool = False
    verbatim: bool = False

    @property
    def usage(self) -> str:
        """How to write it, e.g. `er:N:P[:seed=S]`."""
        return self.form + "[:seed=S]" * self.seeded


def subset(text: str) -> AnyGraph:
    """The graph of some agents `I,J,…:SPEC`, as it is left after a loss of the others.

    >>> subset("0,1,3:onepeer-exp:4").n
    3
    """
    agents, _, spec = text.partition(":")
    numbers = [number.strip() for number in agents.split(",")]
    if not spec or not all(map(_INTEGER.fullmatch, numbers)):
        raise InputError(f"graph subset: expected I,J,…:SPEC, such as 0,1,3:ring:5, not {text[:60]!r}.")
    if spec.partition(":")[0] == "subset":
        raise InputError("graph subset: a subset of a subset; name the agents of the whole graph.")
    return parse(spec).subset(map(int, numbers))


_ENTRIES = (
    Topology(topologies.ring, "ring:N", "N agents in a circle"),
    Topology(topologies.path, "path:N", "N agents in a line"),
    Topology(topologies.star, "star:N", "one agent in the centre, connected to N−1 others"),
    Topology(topologies.complete, "complete:N", "every pair of agents connected"),
    Topology(topologies.grid, "grid:R:C", "R rows by C columns"),
    Topology(topologies.torus, "torus:R:C", "a grid with opposite sides connected"),
    Topology(topologies.hypercube, "hypercube:D", "2^D agents, connected if their numbers differ in one bit"),
    Topology(topologies.exponential, "exponential:N", "a ring where agent i is connected to i ± 1, 2, 4, 8, …"),
    Topology(drawn.erdos_renyi, "er:N:P", "Erdős–Rényi: each pair connected with probability P", True),
    Topology(drawn.regular, "regular:N:D", "random, every agent has D neighbours", True),
    Topology(drawn.geometric, "geometric:N:R", "random points of the unit square, connected within radius R", True),
    Topology(drawn.watts_strogatz, "ws:N:K:P", "small world: K nearest on a ring, rewired with probability P", True),
    Topology(drawn.barabasi_albert, "ba:N:M", "scale-free: each new agent connects to M earlier ones", True),
    Topology(topologies.authors10, "authors10", "the ten-agent graph of the DSGPA authors' public code"),
    Topology(timed.one_peer_exponential, "onepeer-exp:N", "N = 2^m, agent i talks to i xor 2^(r mod m) in round r"),
    Topology(base_graph, "base:N:K", "Base-(K+1): at most K neighbours, a period averages exactly, any N"),
    Topology(changing.equidyn, "equidyn:N", "one-peer undirected EquiDyn: pairs i, i+u with one random u", True),
    Topology(changing.matching, "matching:N", "a random perfect matching in every round", True),
    Topology(matcha, "matcha:SPEC:BUDGET", "matchings of a graph, active at random within a budget", True),
    Topology(changing.active_edges, "active-edges:SPEC:P", "each edge of a graph active with probability P", True),
    Topology(directed_topologies.directed_ring, "directed-ring:N", "N agents in a circle, each sends to the next"),
    Topology(directed_topologies.directed_exponential, "directed-exp:N", "agent i sends to i + 1, 2, 4, 8, …"),
    Topology(
        directed_topologies.directed_one_peer_exponential,
        "directed-onepeer-exp:N",
        "any N, agent i sends to i + 2^(r mod m) in round r",
    ),
    Topology(from_edge_list, "edges:I-J,…", "these edges, agents from 0; with weights edges:I-J=W,…", verbatim=True),
    Topology(files.from_file, "file:PATH", "file with lines 'i j' or 'i j weight', or with a matrix", verbatim=True),
    Topology(directed_texts.from_directed_edges, "directed-edges:I-J,…", "edges from I to J, or I-J=W", verbatim=True),
    Topology(
        directed_texts.from_directed_file, "directed-file:PATH", "the same as file, edges from i to j", verbatim=True
    ),
    Topology(
        directed_texts.from_directed_rounds,
        "directed-rounds:N:I-J,…/I-J,…",
        "the directed edges of each round, repeated",
        verbatim=True,
    ),
    Topology(sequence_files.from_rounds, "rounds:N:I-J,…/I-J,…", "the edges of each round, repeated", verbatim=True),
    Topology(sequence_files.from_sequence_file, "sequence:PATH", "file of graphs, one round per line", verbatim=True),
    Topology(subset, "subset:I,J,…:SPEC", "some agents of another graph, numbered from 0", verbatim=True),
)

TOPOLOGIES: Mapping[str, Topology] = MappingProxyType({entry.form.partition(":")[0]: entry for entry in _ENTRIES})


def parse(spec: str) -> AnyGraph:
    """Return the graph or the graph sequence that a text describes; `TOPOLOGIES` lists the forms.

    >>> parse("grid:2:3").n
    6
    >>> parse("er:10:0.4").spec
    'er:10:0.4:seed=0'
    """
    if not isinstance(spec, str):
        raise InputError(f"a graph must be a text such as 'ring:10', not {described(spec)}.")
    name, _, rest = spec.strip().partition(":")
    if name == PYTHON:
        raise InputError(f"graph {spec[:80]!r} is a Python function; pass graphs.sequence(function, n) from Python.")
    if name not in TOPOLOGIES:
        raise InputError(_unknown(spec, name))
    topology = TOPOLOGIES[name]
    if topology.verbatim:  # a path may contain colons
        if not rest:
            raise InputError(f"graph {spec!r}: nothing follows the colon; {_write(topology)}")
        return topology.make(rest)
    parts = spec.strip().split(":")[1:]
    options: dict[str, int] = {}
    if parts and parts[-1].startswith("seed="):
        options["seed"] = _seed(spec, topology, parts.pop())
    labels = topology.form.split(":")[1:]
    if labels[:1] == ["SPEC"] and len(parts) > len(labels):  # the text of another graph, which may have colons
        inner = len(parts) - len(labels) + 1
        parts[:inner] = [":".join(parts[:inner])]
    if len(parts) != len(labels):
        raise InputError(f"graph {spec!r}: wrong number of parts; {_write(topology)}")
    values = [_value(spec, topology, label, text) for label, text in zip(labels, parts, strict=True)]
    return topology.make(*values, **options)


def as_graph(graph: object) -> AnyGraph:
    """Return a graph or a sequence from one, a networkx graph, a matrix for `from_matrix` or a text for `parse`.

    >>> as_graph("ring:3") == as_graph(as_graph("complete:3"))
    True
    """
    if isinstance(graph, Graph | GraphSequence):
        return graph
    if isinstance(graph, str):
        return parse(graph)
    if isinstance(graph, nx.Graph):
        return from_digraph(graph) if graph.is_directed() else from_networkx(graph)
    if is_matrix(graph):
        return from_matrix(graph)
    raise InputError(
        f"cannot make a graph from {type(graph).__name__}; "
        "give a text such as 'ring:10', a Graph, a networkx graph or an adjacency matrix."
    )


def _write(topology: Topology) -> str:
    return f"write it as {topology.usage}."


def _unknown(spec: str, name: str) -> str:
    # suggest 'er' for the name of its function, 'erdos-renyi'
    names = {entry.make.__name__.replace("_", "-"): key for key, entry in TOPOLOGIES.items()}
    exact = names.get(name.lower().replace("_", "-"))
    hint = f" (did you mean {exact!r}?)" if exact else did_you_mean(name, TOPOLOGIES)
    return f"graph {spec!r}: there is no topology {name!r}{hint}; use one of {', '.join(TOPOLOGIES)}."


def _seed(spec: str, topology: Topology, part: str) -> int:
    text = part.removeprefix("seed=")
    if not topology.seeded:
        raise InputError(f"graph {spec!r}: {topology.form} is not random and takes no seed; {_write(topology)}")
    if not _INTEGER.fullmatch(text):
        raise InputError(f"graph {spec!r}: the seed must be an integer, not {text!r}; {_write(topology)}")
    return int(text)


def _value(spec: str, topology: Topology, label: str, text: str) -> Any:
    if label == "SPEC":
        return _inner(spec, topology, text)
    if _INTEGER.fullmatch(text):
        return int(text)
    try:
        return float(text)
    except ValueError:
        raise InputError(f"graph {spec!r}: {label} must be a number, not {text!r}; {_write(topology)}") from None


def _inner(spec: str, topology: Topology, text: str) -> Graph:
    """The graph that a sequence is made of; it is static, so texts nest no deeper."""
    name = topology.form.partition(":")[0]
    try:
        return static(text, f"graph {name}")
    except InputError as error:
        reason = str(error).rstrip(".")
        raise InputError(f"graph {spec!r}: {reason}; write the whole as {topology.usage}.") from None


def static(spec: str, what: str) -> Graph:
    """The static graph of a text in `what` is made of such graphs; texts that hold others are not even read."""
    name = spec.partition(":")[0]
    if name in TOPOLOGIES and (name in (SEQUENCE, "subset") or ":SPEC" in TOPOLOGIES[name].form):
        raise InputError(f"{what} is made of static graphs such as ring:10, and {spec[:60]!r} is none.")
    return as_static(parse(spec), what)
