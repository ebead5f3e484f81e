"""Exchanges at random: in every iteration with a probability, by one coin for all agents."""

from __future__ import annotations

import functools
from bisect import bisect_left
from dataclasses import dataclass, field, replace

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.mixing.periods import OnePeriod, Periods

RANDOM = "random:"
"""How the text of such a schedule begins."""
LEAST = 1e-6
"""The smallest probability."""
BLOCK = 1024
"""Iterations whose coins are tossed together."""
KINDS, KEPT = 4, 4096
"""Schedules whose coins are kept, and blocks of each."""


@dataclass(frozen=True)
class RandomPeriods(Periods):
    """Messages travel in iteration k with a probability p, independently of other iterations.

    The coin of iteration k is a function of (seed, k) alone: the same for all agents, processes and methods, and
    after a resume.

    Args:
        probability: p, in (0, 1].
        seed: of the run.

    >>> periods = Periods.parse("random:0.3").seeded(1)
    >>> [k for k in range(12) if periods.exchanges(k)], periods.rounds_before(12)
    ([3, 11], 2)
    >>> [periods.steps(k) for k in range(5)], round(periods.expected_steps(0), 3)
    ([1, 2, 3, 4, 1], 3.333)
    """

    starts: tuple[int, ...] = (0,)
    lengths: tuple[int, ...] = (1,)
    probability: float = field(default=1.0, kw_only=True)
    seed: int = field(default=0, kw_only=True)

    @property
    def text(self) -> str:
        """The text that makes it again, with the seed of the run.

        >>> Periods.parse("random:.2").text
        'random:0.2'
        """
        return f"{RANDOM}{self.probability!r}"

    @property
    def plain(self) -> int | str:
        """Its text."""
        return self.text

    @property
    def words(self) -> str:
        """How often there are messages, in words."""
        return "every iteration" if self.always else f"in a random {self.probability:.4g} of all iterations"

    @property
    def distinct(self) -> tuple[OnePeriod, ...]:
        """Itself: no other period occurs."""
        return (1,) if self.always else (self,)

    @property
    def longest(self) -> int:
        """The mean number of iterations from one exchange to the next, as a whole number: there is no longest."""
        return round(1 / self.probability)

    @property
    def always(self) -> bool:
        """Whether every iteration exchanges."""
        return self.probability == 1

    def seeded(self, seed: int) -> RandomPeriods:
        """The same with the coins of this seed."""
        return replace(self, seed=seed)

    def exchanges(self, k: int) -> bool:
        """Whether messages travel in iteration k."""
        block, place = divmod(k, BLOCK)
        exchanging = _exchanging(self.seed, self.probability, block)
        found = bisect_left(exchanging, place)
        return found < len(exchanging) and exchanging[found] == place

    def rounds_before(self, k: int) -> int:
        """The number of exchanges in iterations 0, …, k−1; also the number of the exchange in iteration k."""
        block, place = divmod(k, BLOCK)
        before = _before(self.seed, self.probability)
        while len(before) <= block:
            before.append(before[-1] + len(_exchanging(self.seed, self.probability, len(before) - 1)))
        return before[block] + bisect_left(_exchanging(self.seed, self.probability, block), place)

    def steps(self, k: int) -> int:
        """The iterations from the last exchange before k to k, with k."""
        block, place = divmod(k, BLOCK)
        while block >= 0:
            exchanging = _exchanging(self.seed, self.probability, block)
            found = bisect_left(exchanging, place)
            if found:
                return k - block * BLOCK - exchanging[found - 1]
            block, place = block - 1, BLOCK
        return k + 1

    def expected_steps(self, k: int) -> float:
        """1/p."""
        return 1 / self.probability

    def share(self, iterations: int) -> float:
        """The share of the iterations that exchange messages, on average: p."""
        return self.probability


def read(text: str, name: str) -> RandomPeriods:
    """The schedule of a text such as random:0.2.

    >>> read("random:2", "every")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: every = 'random:2': expected a probability in [1e-06, 1] after random:.
    """
    try:
        probability = float(text.removeprefix(RANDOM))
    except ValueError:
        probability = 0.0
    if not LEAST <= probability <= 1:
        raise InputError(f"{name} = {described(text)}: expected a probability in [{LEAST:g}, 1] after {RANDOM}.")
    return RandomPeriods(probability=probability)


@functools.lru_cache(maxsize=KEPT)
def _exchanging(seed: int, probability: float, block: int) -> tuple[int, ...]:
    """The iterations of a block that exchange, counted from its first."""
    from peerdescent._util.randomness import stream  # it loads NumPy

    coins = stream(seed, "communication", block=block).random(BLOCK)
    return tuple((coins < probability).nonzero()[0].tolist())


@functools.lru_cache(maxsize=KINDS)
def _before(seed: int, probability: float) -> list[int]:
    """The number of exchanges before each block, as far as it is known."""
    return [0]
