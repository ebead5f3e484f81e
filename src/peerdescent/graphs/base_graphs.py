"""Base-(k+1) graphs (Takezawa et al. 2023): n agents with at most k neighbours average exactly in finitely many rounds.

A round is a set of edges with the entries W_ij of its mixing matrix. The construction has three steps.

    hypercube     if n = n_1 ⋯ n_L with n_l <= k+1, agents are digits (d_1, …, d_L), and round l averages the cliques
                  that differ in digit l only
    simple base   n = a_1 (k+1)^p_1 + … + a_L (k+1)^p_L in base k+1 gives the sets V_1, …, V_L, each of a_l parts; all
                  average within, then V_j hands its share to the later sets, for j = 1, …, L−1, and averages again
    base          n = p·q with p the largest factor whose primes are at most k+1: p blocks of q agents average by the
                  simple base graph, then the agents with the same place in their blocks by a hypercube
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import combinations

import numpy as np

from peerdescent._util.validation import check_integer
from peerdescent.graphs import checks
from peerdescent.graphs.graph import Graph
from peerdescent.graphs.periodic import Periodic

Round = dict[tuple[int, int], float]
Agents = Sequence[int]


def base_graph(n: int, k: int) -> Periodic:
    """The Base-(k+1) graph of n agents: one period averages exactly, and in no round has an agent over k neighbours.

    The weights of a round are the entries of its mixing matrix.

    >>> sequence = base_graph(6, 1)
    >>> sequence.period, max(int(sequence.graph(r).degrees.max()) for r in range(sequence.period))
    (4, 1)
    >>> W = np.eye(6)
    >>> for r in range(sequence.period):
    ...     W = (np.eye(6) - sequence.graph(r).laplacian("weighted").toarray()) @ W
    >>> bool(np.allclose(W, 1 / 6))
    True
    """
    n = check_integer("graph base: N", n, 1)
    k = check_integer("graph base: K", k, 1)
    checks.size("base", n, n * min(k, n) * 2.0 * n.bit_length())
    rounds = [_graph(n, each) for each in _base(n, min(k, n)) or [{}]]
    return Periodic(n, tuple(rounds), spec=f"base:{n}:{k}")


def _base(n: int, k: int) -> list[Round]:
    simple = _simple(range(n), k)
    p = _smooth_part(n, k)
    q = n // p
    blocks = [_simple(range(q * b, q * (b + 1)), k) for b in range(p)]
    across = [_hypercube(range(place, n, q), k) for place in range(q)]
    both = _side_by_side(blocks) + _side_by_side(across)
    return simple if len(simple) < len(both) else both


def _simple(agents: Agents, k: int) -> list[Round]:
    """The simple Base-(k+1) graph of these agents."""
    if len(agents) == 1 or _factors(len(agents), k):
        return _hypercube(agents, k)
    sets = _digits(agents, k + 1)
    L, sizes = len(sets), [sum(map(len, parts)) for parts in sets]
    whole = [_hypercube([i for part in parts for i in part], k) for parts in sets]
    within = [
        _side_by_side([_hypercube(part, k) for part in parts]) if len(parts[0]) > 1 else all_of
        for parts, all_of in zip(sets, whole, strict=True)
    ]
    first, last = len(whole[0]), len(within[0])
    rounds = _side_by_side([_cycled(each, first) for each in whole])
    for m in range(last + 1):  # V_j hands over in round j, for j = 0, …, L−2, and averages within afterwards
        made: Round = {}
        for j in range(min(m, L)):
            made |= within[j][(m - j - 1) % len(within[j])] if within[j] else {}
        if m < L - 1:
            made |= _hand_over(sets[m], sets[m + 1 :], sizes[m] / sum(sizes[m:]), k)
        rounds.append(made)
    return rounds


def _hand_over(parts: list[Agents], later: list[list[Agents]], share: float, k: int) -> Round:
    """Every agent of the later sets gets `share` of its new value from one agent in each part.

    Then the later sets and each part have the average of all. The agents of the parts that are left over hold the
    same value; they meet in cliques, which changes nothing but spreads what gradients add.
    """
    receivers = [i for each in later for part in each for i in part]
    made = {_edge(i, part[t]): share / len(parts) for t, i in enumerate(receivers) for part in parts}
    idle = [i for part in parts for i in part[len(receivers) :]]
    for start in range(0, len(idle), k + 1):
        made |= _clique(idle[start : start + k + 1])
    return made


def _hypercube(agents: Agents, k: int) -> list[Round]:
    """Rounds of cliques whose agents differ in one digit of a mixed-radix number; none for one agent."""
    rounds = []
    stride = 1
    for factor in _factors(len(agents), k):
        made: Round = {}
        for start in range(len(agents)):
            if start // stride % factor == 0:
                made |= _clique([agents[start + stride * digit] for digit in range(factor)])
        rounds.append(made)
        stride *= factor
    return rounds


@lru_cache(maxsize=1024)
def _factors(n: int, k: int) -> tuple[int, ...]:
    """The fewest factors of n that are at most k+1; empty for 1, and if a prime factor is larger."""
    if n <= k + 1:
        return (n,) if n > 1 else ()
    found = (_factors(n // factor, k) for factor in range(k + 1, 1, -1) if n % factor == 0)
    ways = [(n // int(np.prod(rest)), *rest) for rest in found if rest]
    return min(ways, key=len, default=())


def _smooth_part(n: int, k: int) -> int:
    """The largest factor of n whose prime factors are at most k+1."""
    part = 1
    for prime in range(2, k + 2):
        while n % prime == 0:
            n, part = n // prime, part * prime
    return part


def _digits(agents: Agents, base: int) -> list[list[Agents]]:
    """The sets V_1, V_2, … of the digits of n that are not zero, each as a list of parts of base^p agents."""
    power = base
    while power * base <= len(agents):
        power *= base
    sets, start = [], 0
    while start < len(agents):
        digit = (len(agents) - start) // power
        if digit:
            sets.append([agents[start + power * part : start + power * (part + 1)] for part in range(digit)])
            start += power * digit
        power //= base
    return sets


def _side_by_side(sequences: list[list[Round]]) -> list[Round]:
    """Sequences of disjoint sets of agents as one; all have as many rounds."""
    return [{edge: w for each in rounds for edge, w in each.items()} for rounds in zip(*sequences, strict=True)]


def _cycled(rounds: list[Round], length: int) -> list[Round]:
    return [rounds[m % len(rounds)] if rounds else {} for m in range(length)]


def _clique(agents: Agents) -> Round:
    return {_edge(i, j): 1 / len(agents) for i, j in combinations(agents, 2)}


def _edge(i: int, j: int) -> tuple[int, int]:
    return (i, j) if i < j else (j, i)


def _graph(n: int, edges: Round) -> Graph:
    pairs = np.array(list(edges), dtype=np.int64).reshape(-1, 2)
    return Graph.from_pairs(n, pairs, edges.values() if edges else None, connected=False)
