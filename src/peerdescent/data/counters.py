"""Many random numbers at once, each a pure function of its own place: (seed, purpose, i, j, time)."""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer

Words = NDArray[np.uint64]
LOW, HALF = np.uint64(0xFFFFFFFF), np.uint64(32)
MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
KEY_STEPS = np.uint64(0x9E3779B9), np.uint64(0xBB67AE85)
PHILOX_ROUNDS = 10


def philox(counter: tuple[Words, Words, Words, Words], key: tuple[int, int]) -> tuple[Words, Words, Words, Words]:
    """Philox4x32-10: four random 32-bit words for every counter of four 32-bit words.

    Each of its ten rounds maps (c0, c1, c2, c3) to (hi(B·c2)⊕c1⊕k0, lo(B·c2), hi(A·c0)⊕c3⊕k1, lo(A·c0)), and the key
    grows by a constant. NumPy's own Philox makes one long stream; this one takes arrays of counters. Reference: Salmon
    et al. 2011.

    >>> zero = np.zeros(1, dtype=np.uint64)
    >>> [hex(int(word[0])) for word in philox((zero, zero, zero, zero), (0, 0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    c0, c1, c2, c3 = counter
    k0, k1 = np.uint64(key[0]), np.uint64(key[1])
    for _ in range(PHILOX_ROUNDS):
        a, b = MULTIPLIERS[0] * c0, MULTIPLIERS[1] * c2
        c0, c1, c2, c3 = (b >> HALF) ^ c1 ^ k0, b & LOW, (a >> HALF) ^ c3 ^ k1, a & LOW
        k0, k1 = (k0 + KEY_STEPS[0]) & LOW, (k1 + KEY_STEPS[1]) & LOW
    return c0, c1, c2, c3


def uniforms(
    seed: int, purpose: str, i: NDArray[np.integer], j: NDArray[np.integer], time: NDArray[np.integer]
) -> tuple[NDArray[np.float64], ...]:
    """Four independent numbers in (0, 1) for every (i, j, time); the three arrays are broadcast.

    Args:
        seed: the seed of the run.
        purpose: what the numbers are for; every purpose has numbers of its own.
        i: numbers of agents, below 2^32.
        j: the same, for pairs of agents.
        time: rounds or iterations, below 2^63.

    >>> first, *_ = uniforms(7, "drop", np.array([0, 1]), np.array([1, 2]), np.array(5))
    >>> again, *_ = uniforms(7, "drop", np.array([1]), np.array([2]), np.array([5]))
    >>> float(first[1]) == float(again[0])
    True
    """
    check_integer("seed", seed, 0, 2**63)
    digest = hashlib.blake2b(f"{seed}:{purpose}".encode(), digest_size=8).digest()
    key = int.from_bytes(digest[:4], "little"), int.from_bytes(digest[4:], "little")
    words = [np.asarray(part).astype(np.uint64) for part in (i, j, time)]
    a, b, c = np.broadcast_arrays(*words)
    return tuple((word.astype(np.float64) + 0.5) * 2.0**-32 for word in philox((a, b, c & LOW, c >> HALF), key))
