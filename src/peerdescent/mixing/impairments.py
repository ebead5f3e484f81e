"""What goes wrong on a network, as short texts: lost messages and inactive agents."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from peerdescent._util.validation import described
from peerdescent.errors import InputError
from peerdescent.mixing.chance import Bursts, Independent, Law, Turns

ONE_SIDED = "one-sided"
DROPS = "a probability such as 0.1, or gilbert:P:R or gilbert:P:R:LOSS, each optionally followed by :one-sided"
INACTIVITY = "a probability such as 0.2, markov:P:R or cyclic:PERIOD:OFF"
LONGEST_PERIOD = 2**31


@dataclass(frozen=True)
class Drop:
    """Which messages are lost: both of an edge in the same rounds, or, one-sided, each by itself."""

    law: Law
    one_sided: bool = False


def parse_drop(text: object) -> Drop:
    """Lost messages from their text.

    "0.1" loses the messages of an edge with this probability, in every round anew. "gilbert:P:R:LOSS" is the
    Gilbert–Elliott model: an edge turns bad with probability P and good again with probability R in every round, and a
    bad one loses its messages with probability LOSS (1 unless given). Both messages of an edge are lost together,
    which keeps sums over the agents; ":one-sided" at the end lets each direction be lost by itself.

    >>> parse_drop("gilbert:0.05:0.2").law.rate
    0.2
    >>> parse_drop("0.1:one-sided")
    Drop(law=Independent(probability=0.1), one_sided=True)
    >>> parse_drop("2")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: drop = '2': a probability must be in [0, 1), and 2 is not.
    """
    parts = _parts("drop", text, DROPS)
    one_sided = parts[-1] == ONE_SIDED
    if one_sided:
        parts.pop()
    if len(parts) == 1:
        return Drop(_independent("drop", text, parts[0], DROPS), one_sided)
    if parts[:1] != ["gilbert"] or len(parts) not in (3, 4):
        raise InputError(f"drop = {described(text)}: expected {DROPS}.")
    return Drop(_bursts("drop", text, parts[1:], DROPS), one_sided)


def parse_inactive(text: object) -> Law:
    """When agents are inactive, from its text.

    "0.2" makes an agent inactive with this probability, in every iteration anew. With "markov:P:R" an active agent
    becomes inactive with probability P and active again with probability R in every iteration. With
    "cyclic:PERIOD:OFF" agents take turns, each inactive in OFF of every PERIOD iterations.

    >>> parse_inactive("cyclic:10:3")
    Turns(period=10, off=3)
    >>> parse_inactive("sometimes")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: inactive = 'sometimes': expected a probability such as 0.2, markov:P:R or \
cyclic:PERIOD:OFF.
    """
    parts = _parts("inactive", text, INACTIVITY)
    if len(parts) == 1:
        return _independent("inactive", text, parts[0], INACTIVITY)
    if parts[0] == "markov" and len(parts) == 3:
        return _bursts("inactive", text, parts[1:], INACTIVITY)
    if parts[0] == "cyclic" and len(parts) == 3 and all(part.isascii() and part.isdigit() for part in parts[1:]):
        period, off = (int(part[:12]) for part in parts[1:])
        if not 1 <= off < period <= LONGEST_PERIOD:
            raise InputError(
                f"inactive = {described(text)}: expected at least 1 inactive iteration in a longer period of at most "
                f"{LONGEST_PERIOD}, such as cyclic:10:3."
            )
        return Turns(period, off)
    raise InputError(f"inactive = {described(text)}: expected {INACTIVITY}.")


def _parts(name: str, text: object, expected: str) -> list[str]:
    if not isinstance(text, str):
        raise InputError(f"{name} = {described(text)}: expected {expected}.")
    return [part.strip() for part in text.split(":")]


def _independent(name: str, text: object, part: str, expected: str) -> Independent:
    probability = _number(name, text, part, expected)
    if not 0 <= probability < 1:
        raise InputError(f"{name} = {described(text)}: a probability must be in [0, 1), and {probability:g} is not.")
    return Independent(probability)


def _bursts(name: str, text: object, parts: Sequence[str], expected: str) -> Bursts:
    """P, R and optionally the probability of a loss in the bad state."""
    P, R, *rest = (_number(name, text, part, expected) for part in parts)
    loss = rest[0] if rest else 1.0
    for letter, value in {"P": P, "R": R, "LOSS": loss}.items():
        if not 0 < value <= 1:
            raise InputError(f"{name} = {described(text)}: {letter} must be in (0, 1], and {value:g} is not.")
    return Bursts(P, R, loss)


def _number(name: str, text: object, part: str, expected: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise InputError(f"{name} = {described(text)}: expected {expected}.")
    return number
