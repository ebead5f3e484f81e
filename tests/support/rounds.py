"""Rounds for tests, written out as matrices."""

from itertools import pairwise

import numpy as np
import scipy.sparse

from peerdescent.mixing.rounds import Round
from peerdescent.theory.agents import KnownRounds

Pairs = list[tuple[int, int]]


def averaging(n: int, pairs: Pairs, lazy: bool = False) -> np.ndarray:
    """W in which the agents of each pair take their mean; (I+W)/2 if lazy."""
    W = np.eye(n)
    for i, j in pairs:
        W[i, i] = W[j, j] = W[i, j] = W[j, i] = 0.5
    return (np.eye(n) + W) / 2 if lazy else W


def rounds_of(matrices: list[np.ndarray], repeats: bool = True, scale: float = 1.0) -> KnownRounds:
    """Rounds with these W, and with L = scale·(I−W)."""
    found = (scipy.sparse.csr_array(np.eye(len(W)) - W) for W in matrices)
    return KnownRounds(tuple(Round(D * scale, D, np.argwhere(D.toarray() < 0)) for D in found), repeats)


def one_peer(m: int, lazy: bool = False) -> KnownRounds:
    """The one-peer exponential graph of 2^m agents: i and i xor 2^r in round r."""
    n = 2**m
    return rounds_of([averaging(n, [(i, i ^ 2**r) for i in range(n) if i < i ^ 2**r], lazy) for r in range(m)])


def matchings(n: int, count: int, lazy: bool = False, seed: int = 0) -> KnownRounds:
    """Uniform random matchings of all agents but at most one."""
    generator = np.random.default_rng(seed)
    orders = (generator.permutation(n).tolist() for _ in range(count))
    pairs = [list(zip(order[: n // 2], order[n // 2 : 2 * (n // 2)], strict=True)) for order in orders]
    return rounds_of([averaging(n, each, lazy) for each in pairs], repeats=False)


def path_halves(n: int) -> KnownRounds:
    """The edges of a path: even ones in round 0, odd ones in round 1."""
    edges = list(pairwise(range(n)))
    return rounds_of([averaging(n, edges[::2]), averaging(n, edges[1::2])])
