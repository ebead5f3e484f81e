"""IDX, the file format of MNIST."""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from peerdescent.errors import InputError

# The third byte of a file is its type; all numbers are big-endian.
_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_DIMENSIONS = 32  # the limit of NumPy 1


def parse(content: bytes, name: str = "the IDX content") -> NDArray[Any]:
    """Parse IDX bytes into an array; an array of unsigned bytes is not a copy and is read-only.

    The content is 0, 0, the type, the number d of dimensions, d sizes of 4 bytes, and the values with the last index
    fastest, with nothing after them.

    Args:
        content: the complete file, not compressed.
        name: the name of the file in error messages.

    >>> parse(bytes([0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 6]))
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)
    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 1, 2]), "labels")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: labels has 10 bytes, expected 11 for its shape (3,): it is truncated.
    """
    kind, shape = _header(content, name)
    start, count = 4 + 4 * len(shape), math.prod(shape)
    expected = start + count * kind.itemsize
    if len(content) != expected:
        fault = "is truncated" if len(content) < expected else "has bytes after its end"
        raise InputError(f"{name} has {len(content)} bytes, expected {expected} for its shape {shape}: it {fault}.")
    try:
        flat = np.frombuffer(content, kind, count, start) if count else np.empty(0, kind)
        return flat.reshape(shape).astype(kind.newbyteorder("="), copy=False)
    except ValueError as error:  # such as sizes (0, 2^32 − 1, 2^32 − 1, 2^32 − 1)
        raise InputError(f"{name} has shape {shape}, which is too large for an array ({error}).") from None


def _header(content: bytes, name: str) -> tuple[np.dtype[Any], tuple[int, ...]]:
    """Return the type and the shape in the header."""
    magic = content[:4]
    if len(magic) < 4 or magic[:2] != b"\0\0" or magic[2] not in _TYPES:
        shown = magic.hex(" ") or "nothing"
        raise InputError(f"{name} starts with {shown}, expected an IDX file, such as 00 00 08 03 for images.")
    dimensions = magic[3]
    if dimensions > _MOST_DIMENSIONS:
        raise InputError(f"{name} has {dimensions} dimensions, expected an IDX file of at most {_MOST_DIMENSIONS}.")
    if len(content) < 4 + 4 * dimensions:
        raise InputError(f"{name} has {len(content)} bytes and ends within its header: it is truncated.")
    return np.dtype(_TYPES[magic[2]]), struct.unpack_from(f">{dimensions}I", content, 4)
