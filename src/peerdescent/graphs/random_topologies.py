"""Random topologies: pure functions of their numbers and a seed, always connected.

N = 1 gives a single agent without edges, whatever the other numbers are.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import chain
from typing import Any

import networkx as nx
import numpy as np

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph

DRAWS = 1000


def erdos_renyi(n: int, probability: float, seed: int = 0) -> Graph:
    """Every pair of agents is connected with some probability; redrawn until the graph is connected.

    >>> erdos_renyi(10, 0.4, seed=3).spec
    'er:10:0.4:seed=3'
    """
    n, seed = _agents_and_seed("er", n, seed)
    p = checks.real("er", "P", probability, most=1)
    checks.size("er", n, p * n * (n - 1) / 2)
    spec = f"er:{n}:{p}:seed={seed}"
    return _draw(n, seed, spec, "the probability P", lambda rng: nx.fast_gnp_random_graph(n, p, seed=rng))


def regular(n: int, degree: int, seed: int = 0) -> Graph:
    """Every agent has the same number of random neighbours; redrawn until the graph is connected.

    >>> regular(8, 3).degrees.tolist()
    [3, 3, 3, 3, 3, 3, 3, 3]
    """
    n, seed = _agents_and_seed("regular", n, seed)
    d = check_integer("graph regular: D", degree, 0 if n == 1 else 1)
    _below("regular", "D", d, n)
    checks.size("regular", n, n * d // 2)
    if n > 1 and n * d % 2:
        raise InputError(f"graph regular: N·D must be even, but {n}·{d} is odd; change N or D by one.")
    if d == 1 and n > 2:
        raise InputError(f"graph regular: D = 1 cannot connect {n} agents; choose D of at least 2.")

    def draw(rng: random.Random) -> Any:
        if 2 * d < n:
            return nx.random_regular_graph(d, n, seed=rng)
        # random pairing rarely succeeds for a dense graph, so draw its sparse complement
        return nx.complement(nx.random_regular_graph(n - 1 - d, n, seed=rng))

    return _draw(n, seed, f"regular:{n}:{d}:seed={seed}", "the degree D", draw)


def geometric(n: int, radius: float, seed: int = 0) -> Graph:
    """Agents at random points of the unit square, connected within a radius; redrawn until the graph is connected.

    >>> geometric(10, 0.5).spec
    'geometric:10:0.5:seed=0'
    """
    n, seed = _agents_and_seed("geometric", n, seed)
    r = checks.real("geometric", "R", radius)
    checks.size("geometric", n, min(1.0, math.pi * min(r, 1.0) ** 2) * n * (n - 1) / 2)
    spec = f"geometric:{n}:{r}:seed={seed}"
    return _draw(n, seed, spec, "the radius R", lambda rng: nx.random_geometric_graph(n, r, seed=rng))


def watts_strogatz(n: int, k: int, probability: float, seed: int = 0) -> Graph:
    """A small world: every agent connected to its K nearest on a ring (K even), edges rewired with some probability.

    >>> print(watts_strogatz(10, 4, 0.3))
    ws:10:4:0.3:seed=0 (10 agents, 20 edges)
    """
    n, seed = _agents_and_seed("ws", n, seed)
    k = check_integer("graph ws: K", k, 2)
    p = checks.real("ws", "P", probability, most=1, zero=True)
    _below("ws", "K", k, n)
    checks.size("ws", n, n * k // 2)
    if k % 2:
        raise InputError(f"graph ws: K must be even, K/2 on each side, not {k}; use {k - 1} or {k + 1}.")
    spec = f"ws:{n}:{k}:{p}:seed={seed}"
    return _draw(n, seed, spec, "K", lambda rng: nx.watts_strogatz_graph(n, k, p, seed=rng))


def barabasi_albert(n: int, m: int, seed: int = 0) -> Graph:
    """Agents arrive one by one and connect to M earlier ones, with preference for high degrees.

    >>> print(barabasi_albert(10, 2))
    ba:10:2:seed=0 (10 agents, 16 edges)
    """
    n, seed = _agents_and_seed("ba", n, seed)
    m = check_integer("graph ba: M", m, 1)
    _below("ba", "M", m, n)
    checks.size("ba", n, n * m)
    spec = f"ba:{n}:{m}:seed={seed}"
    return _draw(n, seed, spec, "M", lambda rng: nx.barabasi_albert_graph(n, m, seed=rng))


def _agents_and_seed(topology: str, n: int, seed: int) -> tuple[int, int]:
    n = check_integer(f"graph {topology}: N", n, 1)
    checks.size(topology, n, n)
    return n, check_integer(f"graph {topology}: seed", seed, 0)


def _below(topology: str, name: str, value: int, n: int) -> None:
    if n > 1 and value >= n:
        raise InputError(f"graph {topology}: {name} must be below the {n} agents, not {value}; lower {name}.")


def _draw(n: int, seed: int, spec: str, knob: str, draw: Callable[[random.Random], Any]) -> Graph:
    if n == 1:
        return Graph(1, (), spec=spec)
    rng = random.Random(seed)
    for _ in range(DRAWS):
        g = draw(rng)
        if nx.is_connected(g):
            pairs = np.fromiter(chain.from_iterable(g.edges()), dtype=np.int64).reshape(-1, 2)
            return Graph.from_pairs(n, pairs, spec=spec)
    raise InputError(f"graph {spec}: none of {DRAWS} draws was connected; {knob} is too small, increase it.")
