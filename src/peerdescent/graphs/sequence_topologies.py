"""Deterministic sequences: every period has the same graphs, and its product of mixing matrices averages exactly."""

from __future__ import annotations

import numpy as np

from peerdescent._util.validation import check_integer
from peerdescent.errors import InputError
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.periodic import Periodic


def one_peer_exponential(n: int) -> Periodic:
    """The one-peer exponential graph of n = 2^m agents: in round r, agent i talks to i xor 2^(r mod m).

    With the weights 1/2, m rounds average exactly: W_0 ⋯ W_(m−1) = 11ᵀ/n.

    >>> [one_peer_exponential(4).graph(r).edges for r in (0, 1)]
    [((0, 1), (2, 3)), ((0, 2), (1, 3))]
    """
    n = check_integer("graph onepeer-exp: N", n, 1)
    checks.size("onepeer-exp", n, n * n.bit_length() // 2)
    if n & (n - 1):
        raise InputError(
            f"graph onepeer-exp: N must be a power of 2 for undirected edges, not {n}; "
            f"base:{n}:1 also has one neighbour per round and fits any number of agents, and so does the directed "
            f"form, directed-onepeer-exp:{n}."
        )
    agents = np.arange(n)
    hops = [1 << bit for bit in range(n.bit_length() - 1)] or [0]
    pairs = [np.stack([agents, agents ^ hop], axis=1)[(agents & hop) == 0] for hop in hops if hop]
    rounds = tuple(Graph.from_pairs(n, each, connected=False) for each in pairs) or (Graph(1, ()),)
    return Periodic(n, rounds, spec=f"onepeer-exp:{n}")
