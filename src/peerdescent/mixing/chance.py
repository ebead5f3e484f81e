"""When something random happens to an agent or a link: independently, in bursts, or in turns.

Each law is a pure function of (seed, place, time): any time can be asked for, in any order, with the same answer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from peerdescent.data.counters import uniforms

Mask = NDArray[np.bool_]
Places = NDArray[np.integer]
LOOK_BACK = 64
"""Times that a chain looks back at first; then twice as many, and so on."""


class Law(Protocol):
    """What decides when something happens."""

    def happens(self, seed: int, purpose: str, places: Places, start: int, count: int) -> Mask:
        """Whether it happens, for times start, …, start + count − 1 (rows) and places (columns).

        Args:
            seed: the seed of the run.
            purpose: different for each use.
            places: one row (i, j) per place: a pair of agents, or (i, i) for agent i.
            start: the first time, at least 0.
            count: how many times.
        """
        ...

    @property
    def rate(self) -> float:
        """The share of the time in which it happens."""
        ...


@dataclass(frozen=True)
class Independent:
    """It happens with this probability, independently at every time.

    >>> Independent(0.25).happens(0, "drop", np.array([[0, 1]]), 0, 1000).mean()
    np.float64(0.228)
    """

    probability: float

    def happens(self, seed: int, purpose: str, places: Places, start: int, count: int) -> Mask:
        """See `Law`."""
        return _uniforms(seed, purpose, places, np.arange(start, start + count))[0] < self.probability

    @property
    def rate(self) -> float:
        """The probability."""
        return self.probability


@dataclass(frozen=True)
class Bursts:
    """A Markov chain with a good and a bad state; in the bad state it happens with probability `loss`.

    The chain becomes bad with probability P and good again with probability R at each time, and is stationary from
    time 0 on: bad with probability P/(P+R), for 1/R times on average.

    A uniform number u decides each step: bad to bad if u < 1−R, good to bad if u < P. So u < min(P, 1−R) makes it bad
    and u ≥ max(P, 1−R) makes it good, whatever it was before. To know the state at any time, it is enough to look back
    to the last such u, 1/(P+R) steps on average if P+R ≤ 1; in between, every u keeps the state, or, if P+R > 1,
    changes it. (This is coupling from the past, as by Propp and Wilson 1996.)

    >>> chain = Bursts(0.1, 0.3)
    >>> later = chain.states(0, "drop", np.array([[0, 1]]), 5000, 3)
    >>> bool((later == chain.states(0, "drop", np.array([[0, 1]]), 4000, 1003)[1000:]).all())
    True
    """

    P: float
    R: float
    loss: float = 1.0

    @property
    def rate(self) -> float:
        """The stationary probability of the bad state, times the probability of a loss there."""
        return self.P / (self.P + self.R) * self.loss

    def happens(self, seed: int, purpose: str, places: Places, start: int, count: int) -> Mask:
        """See `Law`."""
        bad = self.states(seed, purpose, places, start, count)
        if self.loss == 1:
            return bad
        return bad & (_uniforms(seed, purpose, places, np.arange(start, start + count))[1] < self.loss)

    def states(self, seed: int, purpose: str, places: Places, start: int, count: int) -> Mask:
        """Whether the chain is bad, at times start, …, start + count − 1 and all places."""
        steps = _uniforms(seed, purpose, places, np.arange(start + 1, start + count))[0]
        bad = np.empty((count, len(places)), dtype=bool)
        bad[0] = self._state(seed, purpose, places, start)
        for t, u in enumerate(steps):
            bad[t + 1] = np.where(bad[t], u < 1 - self.R, u < self.P)
        return bad

    def _state(self, seed: int, purpose: str, places: Places, time: int) -> Mask:
        """Whether the chain is bad at this time: look back to where the state is certain, at most to time 0."""
        low, high = sorted((self.P, 1 - self.R))
        changes = self.P > 1 - self.R
        bad, flipped = np.zeros((2, len(places)), dtype=bool)
        open_ = np.arange(len(places))
        """The places whose state is not certain yet."""
        stop, length = time + 1, LOOK_BACK
        while len(open_) and stop > 1:
            start = max(1, stop - length)
            u = _uniforms(seed, purpose, places[open_], np.arange(start, stop))[0][::-1]  # the latest one first
            certain = (u < low) | (u >= high)
            found, last = certain.any(axis=0), certain.argmax(axis=0)
            passed = np.where(found, last, stop - start)
            flipped[open_] ^= changes & (passed % 2 == 1)
            bad[open_] = (u[last, np.arange(len(open_))] < low) ^ flipped[open_]
            open_, stop, length = open_[~found], start, 2 * length
        initial = _uniforms(seed, purpose, places[open_], np.arange(1))[2][0]
        bad[open_] = (initial < self.P / (self.P + self.R)) ^ flipped[open_]
        return bad


@dataclass(frozen=True)
class Turns:
    """Agents take turns: it happens to agent i in `off` of every `period` times, from time i·off on.

    >>> Turns(4, 1).happens(0, "inactive", np.array([[0, 0], [1, 1]]), 0, 5).T.astype(int).tolist()
    [[1, 0, 0, 0, 1], [0, 1, 0, 0, 0]]
    """

    period: int
    off: int

    @property
    def rate(self) -> float:
        """The share of a period."""
        return self.off / self.period

    def happens(self, seed: int, purpose: str, places: Places, start: int, count: int) -> Mask:
        """See `Law`."""
        times = np.arange(start, start + count)[:, None] % self.period
        happening: Mask = (times - places[:, 0] * self.off) % self.period < self.off
        return happening


def _uniforms(seed: int, purpose: str, places: Places, times: NDArray[np.int64]) -> tuple[NDArray[np.float64], ...]:
    return uniforms(seed, purpose, places[:, 0], places[:, 1], times[:, None])
