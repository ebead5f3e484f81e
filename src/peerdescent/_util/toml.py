"""TOML in and out, on every supported version of Python."""

from __future__ import annotations

import re
import sys
from typing import Any

import tomli_w

from peerdescent.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

MOST_PARTS = 100
"""Parts of a dotted key: the parser takes quadratic time for them, and no key here has more than three."""
_PART = re.compile(r"\s*[^\s,=\[\]{}]+\s*")


def loads(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; `source` names the text in the error message.

    >>> loads("eta = 0.1", "an example")
    {'eta': 0.1}
    """
    if any(_has_long_key(line) for line in text.splitlines()):
        raise InputError(f"{source} is not an experiment: a key has more than {MOST_PARTS} parts.")
    try:
        keys: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}.") from error
    except RecursionError:
        raise InputError(f"{source} is not an experiment: its values are nested too deeply.") from None
    return keys


def _has_long_key(line: str) -> bool:
    """Whether so many parts follow each other in a line, with dots between them, as only a key can have.

    >>> _has_long_key("a." * 200 + "b = 1"), _has_long_key("x = [" + "0.5, " * 200 + "]")
    (True, False)
    """
    parts = 0
    for piece in line.split("."):
        parts = parts + 1 if _PART.fullmatch(piece) else 0
        if parts > MOST_PARTS:
            return True
    return False


def dumps(keys: dict[str, Any]) -> bytes:
    """Return the keys as TOML, encoded for a file."""
    return tomli_w.dumps(keys).encode()
