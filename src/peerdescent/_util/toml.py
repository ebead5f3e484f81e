"""TOML in and out, on every supported version of Python."""

from __future__ import annotations

import sys
from typing import Any

import tomli_w

from peerdescent.errors import InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def loads(text: str, source: str) -> dict[str, Any]:
    """Parse TOML; `source` names the text in the error message.

    >>> loads("eta = 0.1", "an example")
    {'eta': 0.1}
    """
    try:
        keys: dict[str, Any] = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{source} is not valid TOML: {error}.") from error
    return keys


def dumps(keys: dict[str, Any]) -> bytes:
    """Return the keys as TOML, encoded for a file."""
    return tomli_w.dumps(keys).encode()
