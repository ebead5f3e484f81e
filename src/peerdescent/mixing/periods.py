"""When agents exchange messages: in every m-th iteration, with a period m that may change as a run goes on."""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from dataclasses import dataclass

from peerdescent._util.schema import LARGEST
from peerdescent._util.validation import check_integer, described
from peerdescent.errors import InputError

EXPECTED = (
    "expected a whole number, at least 1; periods with the iterations they start at, such as 8,4@1000,1@3000; or "
    "random:P, exchanges with a probability"
)


@dataclass(frozen=True)
class Periods:
    """A schedule of communication periods.

    In a segment that starts at iteration s with period m, messages travel in iterations s+m−1, s+2m−1, …, so the last
    of m iterations exchanges; the others are local. A whole number is one segment that starts at iteration 0.

    Args:
        starts: the first iteration of each segment, ascending from 0.
        lengths: the period in each segment.

    >>> periods = Periods.parse("3,2@7")
    >>> [k for k in range(12) if periods.exchanges(k)]
    [2, 5, 8, 10]
    >>> periods.rounds_before(9), periods.longest, Periods.parse(1).always
    (3, 3, True)
    """

    starts: tuple[int, ...]
    lengths: tuple[int, ...]

    @classmethod
    def parse(cls, value: object, name: str = "communication_period") -> Periods:
        """A schedule from a whole number, a text such as "8,4@1000,1@3000" or "random:0.2", or itself.

        Args:
            value: the period, PERIOD,PERIOD@ITERATION,… or random:PROBABILITY
            name: what messages call it.

        >>> Periods.parse("8,4@1000,4@500")
        Traceback (most recent call last):
            ...
        peerdescent.errors.InputError: communication_period = '8,4@1000,4@500': iteration 500 does not come after 1000.
        """
        if isinstance(value, Periods):
            return value
        if isinstance(value, str):
            return _read(value, name)
        try:
            return cls((0,), (check_integer(name, value, 1, LARGEST + 1),))
        except InputError:
            raise InputError(f"{name} = {described(value)}: {EXPECTED}.") from None

    @property
    def text(self) -> str:
        """The text that makes it again.

        >>> Periods.parse(" 8@0, 4@1000").text
        '8,4@1000'
        """
        later = (f"{m}@{start}" for start, m in zip(self.starts[1:], self.lengths[1:], strict=True))
        return ",".join([str(self.lengths[0]), *later])

    @property
    def plain(self) -> int | str:
        """The same for a file: a number where the period never changes."""
        return self.lengths[0] if len(self.lengths) == 1 else self.text

    @property
    def words(self) -> str:
        """How often there are messages, in words.

        >>> Periods.parse(5).words, Periods.parse("8,1@1000").words
        ('every 5 iterations', 'every 8 iterations, from iteration 1,000 every iteration')
        """
        often = ["every iteration" if m == 1 else f"every {m} iterations" for m in self.lengths]
        later = (f"from iteration {start:,} {each}" for start, each in zip(self.starts[1:], often[1:], strict=True))
        return ", ".join([often[0], *later])

    @property
    def distinct(self) -> tuple[OnePeriod, ...]:
        """The periods that occur, each once, in the order in which they first do."""
        return tuple(dict.fromkeys(self.lengths))

    @property
    def longest(self) -> int:
        """The longest period."""
        return max(self.lengths)

    @property
    def always(self) -> bool:
        """Whether every iteration exchanges."""
        return self.longest == 1

    def exchanges(self, k: int) -> bool:
        """Whether messages travel in iteration k."""
        segment = bisect_right(self.starts, k) - 1
        return (k - self.starts[segment] + 1) % self.lengths[segment] == 0

    def rounds_before(self, k: int) -> int:
        """The number of exchanges in iterations 0, …, k−1; also the number of the exchange in iteration k."""
        ends = (*self.starts[1:], k)
        segments = zip(self.starts, ends, self.lengths, strict=True)
        return sum(max(0, min(k, end) - start) // m for start, end, m in segments)

    def steps(self, k: int) -> int:
        """The iterations from the last exchange before k to k, with k.

        >>> [Periods.parse("3,2@4").steps(k) for k in range(8)]
        [1, 2, 3, 1, 2, 3, 1, 2]
        """
        end = k
        for start, m in reversed(list(zip(self.starts, self.lengths, strict=True))):
            if start < end and end - start >= m:
                return k - (start + (end - start) // m * m - 1)
            end = min(start, end)
        return k + 1

    def expected_steps(self, k: int) -> float:
        """The period in iteration k; the mean one where it is random."""
        return float(self.lengths[bisect_right(self.starts, k) - 1])

    def share(self, iterations: int) -> float:
        """The share of the first iterations that exchange messages."""
        return self.rounds_before(iterations) / max(1, iterations)

    def seeded(self, seed: int) -> Periods:
        """The same with the random numbers of a run, if it has any."""
        return self


def plain_period(value: object) -> int | str:
    """A schedule as files hold it: a number where the period never changes, else its text.

    >>> plain_period("05"), plain_period("8@0,1@50")
    (5, '8,1@50')
    """
    return Periods.parse(value).plain


@functools.lru_cache(maxsize=64)
def _read(text: str, name: str) -> Periods:
    if text.strip().startswith("random:"):
        from peerdescent.mixing.random_periods import read

        return read(text.strip(), name)
    starts, lengths = list[int](), list[int]()
    for part in text.split(","):
        m, at, start = (piece.strip() for piece in part.partition("@"))
        first = start if at else "0" * (not starts)
        if not all(number.isascii() and number.isdecimal() for number in (m, first)) or len(part) > 40:
            raise InputError(f"{name} = {described(text)}: {EXPECTED}.")
        starts, lengths = [*starts, int(first)], [*lengths, int(m)]
    if starts[0] != 0 or min(lengths) < 1 or max(*starts, *lengths) > LARGEST:
        raise InputError(f"{name} = {described(text)}: {EXPECTED}.")
    for before, after in itertools.pairwise(starts):
        if after <= before:
            raise InputError(f"{name} = {described(text)}: iteration {after} does not come after {before}.")
    return Periods(tuple(starts), tuple(lengths))


OnePeriod = int | Periods
"""A period that stays the same: a number, or a random one."""

Period = int | str | Periods
"""What is given for a schedule: a period, the text of a schedule, or the schedule itself."""
