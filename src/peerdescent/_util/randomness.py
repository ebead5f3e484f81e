"""Randomness as a pure function of (seed, purpose, agent, block), the same in every process and call order."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

from peerdescent._util.validation import check_integer


@lru_cache(maxsize=256)
def _word(purpose: str) -> int:
    """A 64-bit hash of a purpose, which, in contrast to hash(), is the same in every process."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")


def stream(seed: int, purpose: str, agent: int = 0, block: int = 0) -> np.random.Generator:
    """Return a new generator that depends on these four arguments alone.

    It is the counter-based Philox: output j is a keyed permutation of a 256-bit counter,

        u_j = Philox[key = (seed, agent)](counter = (j, 0, block, h(purpose))),

    so streams with the same seed and agent use disjoint ranges of one counter (unless one of them draws more than
    2^128 times), and streams with another seed or agent use another key.

    Args:
        seed: the seed of the run, 0 <= seed < 2^63.
        purpose: what the numbers are for; every purpose has a separate stream.
        agent: the agent that uses the numbers.
        block: the part of a long sequence; any part can be drawn without the earlier ones.

    >>> stream(7, "minibatch", agent=3).integers(100, size=4).tolist()
    [27, 73, 66, 94]
    >>> stream(7, "minibatch", agent=3, block=1).integers(100, size=4).tolist()
    [65, 5, 64, 70]
    """
    key = (check_integer("seed", seed, 0, 2**63), check_integer("agent", agent, 0, 2**63))
    counter = (0, 0, check_integer("block", block, 0, 2**63), _word(purpose))
    philox = np.random.Philox(key=np.array(key, dtype=np.uint64), counter=np.array(counter, dtype=np.uint64))
    return np.random.Generator(philox)
