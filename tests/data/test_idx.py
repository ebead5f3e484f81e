"""IDX: what was written comes back, and anything else is one InputError."""

import contextlib
import struct

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from peerdescent.data import idx
from peerdescent.errors import InputError

CODES = {"u1": 0x08, "i1": 0x09, "i2": 0x0B, "i4": 0x0C, "f4": 0x0D, "f8": 0x0E}

any_array = st.sampled_from(sorted(CODES)).flatmap(
    lambda kind: arrays(kind, st.one_of(st.just(()), array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)))
)


def written(array):
    """IDX bytes, made without the code under test."""
    head = bytes([0, 0, CODES[array.dtype.str[1:]], array.ndim]) + b"".join(struct.pack(">I", n) for n in array.shape)
    return head + array.astype(array.dtype.newbyteorder(">")).tobytes()


@given(any_array)
def test_what_was_written_comes_back(array):
    again = idx.parse(written(array))
    assert again.dtype == array.dtype
    assert again.dtype.isnative
    np.testing.assert_array_equal(again, array)


@given(any_array, st.data())
def test_cut_short_anywhere(array, data):
    content = written(array)
    end = data.draw(st.integers(0, len(content) - 1))
    with pytest.raises(InputError, match=r"^digits (starts with|has \d+ bytes)"):
        idx.parse(content[:end], "digits")


@given(any_array, st.binary(min_size=1, max_size=20))
def test_bytes_after_the_end(array, more):
    with pytest.raises(InputError, match="bytes after its end"):
        idx.parse(written(array) + more)


@given(any_array, st.binary(min_size=3, max_size=3))
def test_another_magic(array, magic):
    assume(magic[:2] != b"\0\0" or magic[2] not in CODES.values())
    with pytest.raises(InputError, match=f"starts with {magic.hex(' ')} .*expected an IDX file"):
        idx.parse(magic + written(array)[3:])


@given(st.one_of(st.binary(max_size=60), st.binary(max_size=60).map(lambda rest: b"\0\0\x08" + rest)))
@example(b"")
@example(b"\0\0\x08\xff" + bytes(4 * 255))
@example(b"\0\0\x08\x04" + bytes(4) + b"\xff" * 12)  # no values, but sizes beyond all arrays
@example(b"\0\0\x0e\x20" + b"\xff" * 128)
def test_any_bytes_give_an_array_or_an_input_error(content):
    with contextlib.suppress(InputError):
        assert isinstance(idx.parse(content), np.ndarray)


def test_bytes_are_not_copied():
    content = written(np.arange(12, dtype=np.uint8).reshape(3, 4))
    assert np.shares_memory(idx.parse(content), np.frombuffer(content, np.uint8))
