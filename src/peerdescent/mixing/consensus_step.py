"""The consensus step c: by how much an agent follows the public copies of its neighbours.

With public copies, c·(I−W)â replaces (I−W)a. In a mode of the network whose eigenvalue of I−W is μ, with s = cμ and the
error e that compression leaves, ‖e‖ ≤ r‖a − â‖ with r = √(1−δ), agents that only seek consensus follow

    x⁺ = (1−s)x + s·e,    (x − â)⁺ = (1+s)e − s·x.

The largest gain from e to x − â over all frequencies is (2+s)/(2−s). So consensus is reached, whatever the compressor
does, if r(2+s)/(2−s) < 1 (the small-gain theorem; for random compressors in mean square):

    c < c_max = 2(1−r) / ((1+r)·ρ),    ρ the largest eigenvalue of I−W.

CHOCO's proof (Koloskova, Stich and Jaggi 2019) has c = g²δ/(16g + g² + 4ρ² + 2gρ² − 8gδ) with the spectral gap g of W,
and BEER's (Zhao et al. 2022) c proportional to δg; both are far smaller and vanish with g.
"""

from __future__ import annotations

import math

from peerdescent.mixing.compressor import Compressor

MANY = 10**9
"""Entries of a vector that is long enough for shares of it to be exact."""


def largest_consensus_step(delta: float, rho: float) -> float:
    """c_max for a compressor with contraction δ and a matrix whose largest eigenvalue is ρ.

    >>> round(largest_consensus_step(0.1, 4 / 3), 2), largest_consensus_step(1.0, 2.0)
    (0.04, 1.0)
    """
    r = math.sqrt(max(0.0, 1 - delta))
    return math.inf if rho <= 0 else 2 * (1 - r) / ((1 + r) * rho)


def default_consensus_step(compressor: Compressor, rho: float) -> float:
    """The c of a run that does not set it, rounded down to two digits: c_max for the compressor's typical δ, at most 1.

    The worst vectors, all of whose entries have the same size, do not occur in training; so δ is that of a vector with
    normal entries. A rule, not a guarantee: `largest_consensus_step(compressor.delta(p), rho)` is guaranteed.

    >>> from peerdescent.mixing.compressors import parse
    >>> [default_consensus_step(parse(text), 4 / 3) for text in ("qsgd:4", "topk:0.1", "topk:0.01", "randk:0.1")]
    [1.0, 0.21, 0.033, 0.039]
    """
    c = min(1.0, largest_consensus_step(compressor.typical_delta(MANY), rho))
    unit = 10.0 ** (math.floor(math.log10(c)) - 1)
    return float(f"{math.floor(c / unit + 1e-9) * unit:.2g}")
