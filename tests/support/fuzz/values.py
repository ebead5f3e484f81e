"""Random texts and numbers: mostly plausible, some at the edge of what a type holds, some absurd."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Sequence
from typing import Any

SMALL = ("0", "1", "2", "3", "5", "0.1", "0.5", "1.0", "1e-3")
EDGES = (
    *("-1", "-0", "0.0", "1e-320", "1e308", "-1e308", "1e400", "nan", "inf", "-inf", "NaN", "1e12", "1000000000000"),
    *("2147483647", "2147483648", "4294967296", "9223372036854775807", "9223372036854775808", "-9223372036854775809"),
    *("0x10", "1_000", "1e3", "٣", "１０", "1,5", "+1", " 1", "1 ", "--1", "1e", ".", "1/3", "1j", "true", "None"),
)
HUGE = ("1e12", "1000000000000", "2147483648", "9223372036854775807", "1e308", "1e300")
NASTY = (
    *(
        "",
        " ",
        "\t",
        "\n",
        "a\nb",
        "\r",
        "\0",
        "a\0b",
        "'",
        '"',
        "\\",
        "%s",
        "%n",
        "{}",
        "{0}",
        "$(true)",
        ";",
        "|",
        "&",
    ),
    *("-", "--", "-x", "--x", "=", "a=b", "=b", "a=", ":", "::", ",", ",,", ".", "#", "@", "*", "?", "~", "é"),
    *(
        "ηλ",
        "😀",
        "\u202e",
        "\u200b",
        "e\u0301",
        "\ufeff",
        "\udcff",
        "ÿ",
        "İ",
        "ß",
        "null",
        "[]",
        "{",
        "[[",
        "]]",
        "\x1b[31m",
    ),
    *("x" * 300, "é" * 300, "9" * 400, "1:" * 2000, "a." * 500, "[" * 2000, "x" * 60_000),
)
ALPHABET = string.ascii_letters + string.digits + ":.,=-_@/ \n\0é😀\udcff"
NUMBER = re.compile(r"\d+(?:\.\d+)?")


def number(r: random.Random) -> str:
    """A number as a person writes it."""
    return r.choice(r.choice((SMALL, SMALL, EDGES)))


def text(r: random.Random) -> str:
    """Anything."""
    if r.random() < 0.2:
        return _inside("".join(r.choice(ALPHABET) for _ in range(r.randint(1, 20))))
    return r.choice(NASTY)


def mutated(r: random.Random, valid: str) -> str:
    """A valid text with one or two changes."""
    for _ in range(r.choice((1, 1, 2))):
        valid = r.choice(_MUTATIONS)(r, valid)
    return _inside(valid)


def _inside(path: str) -> str:
    """The text as a path that stays in the working directory: a random one elsewhere might be made there."""
    return path.lstrip("/").replace("..", ".")


def varied(r: random.Random, plausible: Sequence[str]) -> str:
    """A plausible text, a damaged one, or anything."""
    kind = r.random()
    if kind < 0.55:
        return r.choice(plausible)
    if kind < 0.85:
        return mutated(r, r.choice(plausible))
    return r.choice((number, text))(r)


def data(r: random.Random, depth: int = 2) -> Any:
    """A value as JSON or TOML may hold it, of any type."""
    simple = (
        *(None, True, False, 0, 1, -1, 3, 1.5, 1e308, -0.0, 2**31, 2**63, -(2**70), 10**30, "", "x", "1", "ring:4"),
        *("é😀", "x" * 300, "inf", "true", "\x7f", [], {}),
    )
    if depth and r.random() < 0.3:
        inner = [data(r, depth - 1) for _ in range(r.randint(1, 3))]
        return inner if r.random() < 0.5 else {r.choice(("", "a", "eta", "é", "file")): value for value in inner}
    return r.choice(simple)


def damaged(r: random.Random, content: bytes) -> bytes:
    """Bytes with a few of them wrong, missing or added."""
    at = r.randrange(len(content) + 1)
    kind = r.randrange(8)
    if kind <= 2 and content:
        changed = bytearray(content)
        for _ in range(r.choice((1, 1, 1, 2, 8))):
            changed[r.randrange(len(changed))] ^= 1 << r.randrange(8)
        return bytes(changed)
    return {
        3: content[:at],
        4: b"",
        5: content[:at] + r.choice((b"\xff", b"\0", b"\xc3", b"\xef\xbb\xbf", b"\n", b"#")) + content[at:],
        6: content + content,
        7: r.randbytes(r.choice((1, 8, 100, 5000))),
    }.get(kind, content[at:])


def _delete(r: random.Random, valid: str) -> str:
    at = r.randrange(len(valid) + 1)
    return valid[:at] + valid[at + r.randint(1, 3) :]


def _insert(r: random.Random, valid: str) -> str:
    at = r.randrange(len(valid) + 1)
    return valid[:at] + r.choice((*ALPHABET, *NASTY[:60])) + valid[at:]


def _renumber(r: random.Random, valid: str) -> str:
    found = list(NUMBER.finditer(valid))
    if not found:
        return valid + number(r)
    one = r.choice(found)
    return valid[: one.start()] + number(r) + valid[one.end() :]


def edged(r: random.Random, valid: str) -> str:
    """A text with one of its numbers at the edge of what there is."""
    one = r.choice(list(NUMBER.finditer(valid)))
    return valid[: one.start()] + r.choice(EDGES) + valid[one.end() :]


def _swap_case(r: random.Random, valid: str) -> str:
    return valid.swapcase() if r.random() < 0.5 else valid.upper()


def _repeat(r: random.Random, valid: str) -> str:
    return valid * r.choice((2, 3)) if r.random() < 0.7 else r.choice((":", ",", " ", "\n")).join([valid] * 2)


def _cut(r: random.Random, valid: str) -> str:
    return valid[: r.randrange(len(valid) + 1)]


_MUTATIONS = (_delete, _insert, _renumber, _renumber, _renumber, _swap_case, _repeat, _cut)
