"""Natural partitions: samples that belong together, such as the words of one speaker, stay at one agent."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peerdescent._util.validation import did_you_mean
from peerdescent.data.randomness import stream
from peerdescent.errors import InputError

Groups = Mapping[str, ArrayLike]
"""For every key, such as `occupation`, the group of each sample, as numbers or texts."""
BY = "by:"


def by_group(groups: Groups, key: str, samples: int, agents: int, seed: int = 0) -> list[NDArray[np.int64]]:
    """Give every group of samples to one agent: the largest first, each to the agent that has fewest samples yet.

    With as many groups as agents, every agent has one; agent 0 has the largest.

    Args:
        groups: the groups of the samples, by key.
        key: the one to split by.
        samples: the number of samples.
        agents: the number of shards.
        seed: the seed of the order within a shard.

    >>> jobs = {"job": ["cook", "cook", "baker", "cook", "nurse", "baker"]}
    >>> [sorted(shard.tolist()) for shard in by_group(jobs, "job", 6, agents=2)]
    [[0, 1, 3], [2, 4, 5]]
    """
    if key not in groups:
        known = (
            f": they can be split by {', '.join(groups)}"
            if groups
            else " and no other groups; use iid, label or dirichlet:A"
        )
        raise InputError(f"partition = '{BY}{key}': these data have no {key!r}{did_you_mean(key, groups)}{known}.")
    names, member, counts = np.unique(np.asarray(groups[key]), return_inverse=True, return_counts=True)
    if len(member) != samples:
        raise InputError(
            f"the groups by {key!r} have {len(member)} members, expected one for each of {samples} samples."
        )
    if agents > len(names):
        raise InputError(
            f"partition = '{BY}{key}': there are only {len(names)} groups for {agents} agents; use at most as many."
        )
    owner, load = np.empty(len(names), dtype=np.int64), np.zeros(agents, dtype=np.int64)
    for group in np.argsort(-counts, kind="stable"):
        owner[group] = load.argmin()
        load[owner[group]] += counts[group]
    order = stream(seed, "partition").permutation(samples)
    order = order[np.argsort(owner[member[order]], kind="stable")]
    return [shard.copy() for shard in np.split(order, np.cumsum(load)[:-1])]
