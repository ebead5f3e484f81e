"""Directed topologies: rings and exponential graphs, in which everybody sends and receives equally much."""

from __future__ import annotations

import numpy as np

from peerdescent._util.validation import check_integer
from peerdescent.graphs import checks
from peerdescent.graphs.directed import Arcs, DirectedGraph


def directed_ring(n: int) -> DirectedGraph:
    """Agents in a circle, each sends to the next.

    >>> directed_ring(3).arcs(0).edges
    ((0, 1), (1, 2), (2, 0))
    """
    n = check_integer("graph directed-ring: N", n, 1)
    checks.size("directed-ring", n, n)
    return DirectedGraph(n, (_arcs(n, [1] if n > 1 else []),), spec=f"directed-ring:{n}")


def directed_exponential(n: int) -> DirectedGraph:
    """The directed exponential graph: agent i sends to i + 1, i + 2, i + 4, … (modulo n), all powers of 2 below n.

    >>> directed_exponential(6).arcs(0).edges[:3]
    ((0, 1), (0, 2), (0, 4))
    """
    n = check_integer("graph directed-exp: N", n, 1)
    hops = _hops(n)
    checks.size("directed-exp", n, n * len(hops))
    return DirectedGraph(n, (_arcs(n, hops),), spec=f"directed-exp:{n}")


def directed_one_peer_exponential(n: int) -> DirectedGraph:
    """The one-peer exponential graph of any n: in round r, agent i sends to i + 2^(r mod m), m = ⌈log₂ n⌉ (modulo n).

    Every round halves what an agent has; 2^m agents average exactly in m rounds.

    >>> [directed_one_peer_exponential(5).arcs(r).edges[0] for r in (0, 1, 2, 3)]
    [(0, 1), (0, 2), (0, 4), (0, 1)]
    """
    n = check_integer("graph directed-onepeer-exp: N", n, 1)
    hops = _hops(n)
    checks.size("directed-onepeer-exp", n, n * len(hops))
    rounds = tuple(_arcs(n, [hop]) for hop in hops) or (Arcs(()),)
    return DirectedGraph(n, rounds, spec=f"directed-onepeer-exp:{n}")


def _hops(n: int) -> list[int]:
    """The powers of 2 below n."""
    return [1 << bit for bit in range((n - 1).bit_length())]


def _arcs(n: int, hops: list[int]) -> Arcs:
    """From every agent to those so many steps further on."""
    senders = np.repeat(np.arange(n), len(hops))
    receivers = (senders + np.tile(np.array(hops, dtype=np.int64), n)) % n
    order = np.lexsort((receivers, senders))
    return Arcs(tuple(zip(senders[order].tolist(), receivers[order].tolist(), strict=True)))
