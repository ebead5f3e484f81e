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

MOST_PARTS = 32
"""The parts that a dotted key may have; the parser's time is quadratic in them."""
_STRING_OR_COMMENT = re.compile(
    r'"""(?:\\.|[^\\])*?"""|' r"'''.*?'''|" r'"(?:\\.|[^"\\\n])*"|' r"'[^'\n]*'|" r"#[^\n]*", re.DOTALL
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]+[ \t]*\.[ \t]*){{{MOST_PARTS}}}")


def loads(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; `source` names the text in the error message.

    >>> loads("eta = 0.1", "an example")
    {'eta': 0.1}
    """
    if _LONG_KEY.search(_STRING_OR_COMMENT.sub("s", text)):
        raise InputError(f"{source} has a key of more than {MOST_PARTS} parts: no key of an experiment is that deep.")
    try:
        keys: dict[str, Any] = tomllib.loads(text)
    except RecursionError:
        raise InputError(f"{source} nests its values too deeply: no key of an experiment does.") from None
    except ValueError as error:  # a number of thousands of digits, besides what the parser itself reports
        raise InputError(f"{source} is not valid TOML: {str(error).rstrip('.')}.") from error
    return keys


def dumps(keys: dict[str, Any]) -> bytes:
    """Return the keys as TOML, encoded for a file."""
    return tomli_w.dumps(keys).encode()
