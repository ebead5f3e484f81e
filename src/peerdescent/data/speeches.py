"""State of the Union addresses: texts of 43 writers, for agents that each read another one."""

from __future__ import annotations

from dataclasses import dataclass

from peerdescent.data.fetch import Announce, load, silent

_NAMES = {"William Mc Kinley": "William McKinley"}  # the collection splits this one


@dataclass(frozen=True)
class Speech:
    """One address."""

    year: int
    speaker: str
    party: str
    text: str


def sotu(announce: Announce = silent) -> dict[str, list[Speech]]:
    """Return the State of the Union addresses by president, each president's by year; presidents in order of office.

    Fetches the data set first if it is not in the cache, like `peerdescent data fetch sotu`.

    Args:
        announce: called with one line of text for every source tried, if the data set must be fetched.

    >>> speeches = sotu(announce=print)  # doctest: +SKIP
    >>> len(speeches), [speech.year for speech in speeches["Abraham Lincoln"]]  # doctest: +SKIP
    (43, [1861, 1862, 1863, 1864])
    """
    by_speaker: dict[str, list[Speech]] = {}
    for held in sorted(load("sotu", announce).values(), key=lambda held: int(held["year"])):
        speaker = _NAMES.get(held["name"], held["name"])
        by_speaker.setdefault(speaker, []).append(Speech(held["year"], speaker, held["party"], held["text"]))
    return by_speaker
