"""Minibatches: the samples of an agent in iteration k, a pure function of (seed, agent, k)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray

from peerdescent._util.validation import check_integer
from peerdescent.data.randomness import stream
from peerdescent.errors import InputError

# Numbers drawn at once for an agent: many, since a new generator is expensive; few enough for 1000 agents.
_DRAWN_AT_ONCE = 4096
_MOST_ITERATIONS_AT_ONCE = 256


class Minibatches:
    """Minibatches of local sample indices for the agents hosted in this process.

    With replacement, agent i draws in iteration k

        s_ik1, …, s_ikB  independent and uniform on {0, …, m_i − 1},   m_i the size of its shard.

    Without replacement, it traverses its shard in epochs of ⌊m_i/B⌋ iterations: every epoch draws a new permutation π
    of the shard, and iteration j of the epoch takes π_jB, …, π_jB+B−1; the remaining m_i mod B samples are dropped
    until the next epoch. Agents with shards of different sizes have epochs of different lengths.

    The batch of (agent, k) depends only on seed, shard size and batch size, not on which agents this process hosts
    or which iterations were drawn before. So a run can be split over processes and resumed anywhere.

    Args:
        shard_sizes: the shard sizes of all agents, hosted here or not.
        batch_size: B, samples per agent and iteration.
        seed: the seed of the run.
        replacement: sample with replacement, or in epochs.
        agents: the agents hosted here; None for all.
        numbers: the number of each agent in its random stream; its index in `shard_sizes` by default.

    >>> minibatches = Minibatches([50, 60, 70], batch_size=4, seed=1)
    >>> minibatches.batches(1000)
    tensor([[43, 26, 48,  3],
            [51, 29, 44, 53],
            [28, 60, 47, 41]])
    >>> Minibatches([50, 60, 70], batch_size=4, seed=1, agents=range(1, 2)).batches(1000)
    tensor([[51, 29, 44, 53]])
    """

    def __init__(
        self,
        shard_sizes: Sequence[int],
        batch_size: int,
        seed: int,
        replacement: bool = True,
        agents: range | None = None,
        numbers: Sequence[int] | None = None,
    ) -> None:
        self.batch_size = check_integer("batch_size", batch_size, 1)
        self.seed = check_integer("seed", seed, 0, 2**63)
        self.replacement = replacement
        self.shard_sizes = [check_integer(f"the shard size of agent {i}", m, 1) for i, m in enumerate(shard_sizes)]
        self.agents = range(len(self.shard_sizes)) if agents is None else agents
        self._numbers = range(len(self.shard_sizes)) if numbers is None else numbers
        self._check()
        self._chunk = max(1, min(_MOST_ITERATIONS_AT_ONCE, _DRAWN_AT_ONCE // self.batch_size))
        self._start = 0
        self._cached: tuple[torch.Tensor, ...] = ()
        self._unfinished: dict[int, tuple[int, NDArray[np.int64]]] = {}

    def _check(self) -> None:
        """Refuse unknown agents and, without replacement, shards smaller than a batch; warn of them otherwise."""
        known = range(len(self.shard_sizes))
        if not known:
            raise InputError("shard_sizes is empty, expected the shard size of at least one agent.")
        for agent in self.agents:
            if agent not in known:
                raise InputError(
                    f"agents contains {agent}, expected agents between 0 and {len(known) - 1}, "
                    "one for each entry of shard_sizes."
                )
        small = next((i for i, size in enumerate(self.shard_sizes) if size < self.batch_size), None)
        if small is None:
            return
        size = self.shard_sizes[small]
        if not self.replacement:  # all agents are checked, so that every process raises the same error
            raise InputError(
                f"batch_size is {self.batch_size} but agent {small} has a shard of {size} without "
                f"replacement; use a batch_size of at most {size}, larger shards, or replacement=True."
            )
        if 0 in self.agents:  # one process of the run warns
            _warn_of_repeats(self._numbers[small], size, self.batch_size)

    def batches(self, k: int) -> torch.Tensor:
        """Return the int64 tensor (hosted agents × batch_size) of iteration k, which must not be modified.

        Args:
            k: the iteration, k >= 0, in any order; consecutive iterations are fastest.

        >>> Minibatches([4], batch_size=2, seed=0, replacement=False).batches(0).shape
        torch.Size([1, 2])
        """
        offset = k - self._start
        if not 0 <= offset < len(self._cached):
            k = check_integer("k", k, 0)
            self._start = k - k % self._chunk
            # Make the views once: indexing a tuple is ten times faster than indexing a tensor.
            self._cached = torch.from_numpy(self._draw(self._start)).unbind()
            offset = k - self._start
        return self._cached[offset]

    def _draw(self, start: int) -> NDArray[np.int64]:
        """Draw iterations start, …, start + chunk − 1 of all hosted agents: (chunk, agents, batch_size)."""
        drawn = np.empty((self._chunk, len(self.agents), self.batch_size), dtype=np.int64)
        for column, agent in enumerate(self.agents):
            period = self._period(agent)
            done = 0
            while done < self._chunk:
                block, row = divmod(start + done, period)
                rows = self._table(agent, block)[row : row + self._chunk - done]
                drawn[done : done + len(rows), column] = rows
                done += len(rows)
        return drawn

    def _period(self, agent: int) -> int:
        """Return the number of iterations that one table of this agent covers."""
        if self.replacement:
            return self._chunk
        return self._epochs(agent) * (self.shard_sizes[agent] // self.batch_size)

    def _epochs(self, agent: int) -> int:
        """Return the number of epochs per table: many for a small shard, whose epochs are short."""
        return max(1, _DRAWN_AT_ONCE // self.shard_sizes[agent])

    def _table(self, agent: int, block: int) -> NDArray[np.int64]:
        """Return the batches of iterations block·period, …, (block + 1)·period − 1, one in each row."""
        size = self.shard_sizes[agent]
        if self.replacement:
            draw = stream(self.seed, "minibatch", self._numbers[agent], block)
            return draw.integers(size, size=(self._chunk, self.batch_size))
        known, table = self._unfinished.get(agent, (-1, np.empty(0, dtype=np.int64)))
        if known != block:  # an epoch may span many chunks: keep its permutation
            shards = np.tile(np.arange(size), (self._epochs(agent), 1))
            stream(self.seed, "epoch", self._numbers[agent], block).permuted(shards, axis=1, out=shards)
            table = shards[:, : size - size % self.batch_size].reshape(-1, self.batch_size)
            self._unfinished[agent] = (block, table)
        return table


@lru_cache
def _warn_of_repeats(agent: int, size: int, batch_size: int) -> None:
    """Warn once per process, however many methods draw from this shard."""
    warnings.warn(
        f"agent {agent} has a shard of {size} samples and a batch_size of {batch_size}, so its minibatches repeat "
        f"samples; use a batch_size of at most {size} to avoid that.",
        stacklevel=5,
    )
