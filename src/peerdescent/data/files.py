"""One file of a data set: its name, size, digest and parser."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent.data import idx
from peerdescent.errors import InputError

Parser = Callable[[bytes, str], Any]
"""Turns the uncompressed content of a file, whose name is for messages, into what it holds; InputError if it cannot."""


@dataclass(frozen=True)
class File:
    """One file of a data set; `idx_file`, `json_file` and those of `formats` describe the usual kinds."""

    name: str
    size: int
    """The uncompressed size in bytes."""
    sha256: str
    """Of the uncompressed content, so that a recompressed file is accepted."""
    parse: Parser
    kind: str
    """The format in messages, such as IDX."""

    @property
    def spellings(self) -> tuple[str, ...]:
        """The names under which this file is distributed.

        >>> idx_file("train-labels-idx1-ubyte", (60_000,), "65a5…").spellings[:2]
        ('train-labels-idx1-ubyte', 'train-labels.idx1-ubyte')
        """
        plain = dict.fromkeys((self.name, self.name.replace("-idx", ".idx")))
        return (*plain, *(f"{name}.gz" for name in plain))

    def verify(self, raw: bytes) -> bytes:
        """Return the uncompressed content if `raw`, plain or gzip, is exactly this file; raise InputError otherwise.

        >>> idx_file("labels", (2,), "").verify(bytes([0, 0, 8, 1, 0, 0, 0, 1, 7]))
        Traceback (most recent call last):
            ...
        peerdescent.errors.InputError: labels holds uint8 (1,), expected uint8 (2,).
        """
        content = self._uncompressed(raw)
        if (digest := hashlib.sha256(content).hexdigest()) != self.sha256:
            self.parse(content, self.name)  # a wrong format is a better reason than a wrong digest
            raise InputError(f"{self.name} has SHA-256 {digest[:12]}…, expected {self.sha256[:12]}….")
        return content

    def _uncompressed(self, raw: bytes) -> bytes:
        if raw[:2] != b"\x1f\x8b":
            return raw
        try:
            with gzip.GzipFile(fileobj=io.BytesIO(raw)) as stream:
                return stream.read(self.size + 1)  # one more byte shows that it is too long, without unpacking a bomb
        except (OSError, EOFError, zlib.error) as error:
            raise InputError(f"{self.name} cannot be unpacked: {error}.") from None


def idx_file(name: str, shape: tuple[int, ...], sha256: str, classes: int | None = None) -> File:
    """An IDX file of unsigned bytes.

    Args:
        name: its name.
        shape: the shape of the array.
        sha256: the digest of the uncompressed content.
        classes: for labels, which are 0, …, classes − 1.

    >>> idx_file("t10k-labels-idx1-ubyte", (10_000,), "ff7b…").size
    10008
    """
    size = 4 + 4 * len(shape) + math.prod(shape)
    return File(name, size, sha256, partial(_unsigned_bytes, shape, classes), "IDX")


def json_file(name: str, size: int, sha256: str, fields: Mapping[str, type]) -> File:
    """A JSON file of one object.

    Args:
        name: its name.
        size: its size in bytes.
        sha256: its digest.
        fields: the types of the members that the object must have.

    >>> json_file("speech.json", 15, "…", {"year": int}).parse(b'{"year": 1790}', "speech.json")
    {'year': 1790}
    """
    return File(name, size, sha256, partial(_json_object, dict(fields)), "JSON")


def _unsigned_bytes(shape: tuple[int, ...], classes: int | None, content: bytes, name: str) -> NDArray[np.uint8]:
    array = idx.parse(content, name)
    if array.dtype != "u1" or array.shape != shape:
        raise InputError(f"{name} holds {array.dtype} {array.shape}, expected uint8 {shape}.")
    if classes is not None and array.size and array.max() >= classes:
        raise InputError(f"{name} has the label {array.max()}, expected 0 to {classes - 1}.")
    return array


def _json_object(fields: Mapping[str, type], content: bytes, name: str) -> dict[str, Any]:
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not JSON.") from None
    if not isinstance(value, dict) or any(not isinstance(value.get(key), kind) for key, kind in fields.items()):
        wanted = ", ".join(f"{key} ({kind.__name__})" for key, kind in fields.items())
        raise InputError(f"{name} does not hold one JSON object with {wanted}.")
    return value
