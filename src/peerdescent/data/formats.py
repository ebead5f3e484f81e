"""Files of data sets other than MNIST's: sheets of pictures, lists of labels, census tables, plain texts."""

from __future__ import annotations

import io
import json
from functools import partial

import numpy as np
from numpy.typing import NDArray

from peerdescent._util.extras import needed_for
from peerdescent.data.files import File
from peerdescent.errors import InputError

SIDE = 32
CENSUS_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation", "relationship",
    "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country", "income",
)  # fmt: skip
CENSUS_NUMBERS = ("age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week")
INCOMES = ("<=50K", ">50K")
UNKNOWN = "?"


def sheet_file(name: str, size: int, sha256: str, count: int = 10_000) -> File:
    """A PNG file with one picture of 32×32 pixels in each row of pixels, its own rows one after the other.

    Args:
        name: its name.
        size: its size in bytes.
        sha256: its digest.
        count: the number of pictures.
    """
    return File(name, size, sha256, partial(_sheet, count), "PNG")


def labels_file(name: str, size: int, sha256: str, count: int, classes: int = 10) -> File:
    """A JSON file with a list of labels.

    >>> labels_file("labels.json", 7, "…", 3).parse(b"[6,9,9]", "labels.json")
    array([6, 9, 9])
    """
    return File(name, size, sha256, partial(_labels, count, classes), "JSON")


def census_file(name: str, size: int, sha256: str, rows: int) -> File:
    """A file of the Adult data set: 15 values in a row, separated by commas, with `?` for an unknown one."""
    return File(name, size, sha256, partial(_census, rows), "CSV")


def text_file(name: str, size: int, sha256: str) -> File:
    """A text in ASCII.

    >>> text_file("hamlet.txt", 3, "…").parse(b"Ay.", "hamlet.txt")
    'Ay.'
    """
    return File(name, size, sha256, _text, "text")


def _sheet(count: int, content: bytes, name: str) -> NDArray[np.uint8]:
    """Return the pictures as (count, 3, 32, 32)."""
    with needed_for("pictures", "data"):
        from PIL import Image
    try:
        with Image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            if picture.mode != "RGB" or picture.size != (SIDE * SIDE, count):
                width, height = picture.size
                raise InputError(
                    f"{name} is a picture of {width}×{height} {picture.mode}, expected {SIDE * SIDE}×{count} RGB."
                )
            pixels = np.asarray(picture)
    except InputError:
        raise
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError):  # SyntaxError: a broken chunk
        raise InputError(f"{name} is not a PNG file, or a damaged one.") from None
    return np.ascontiguousarray(pixels.reshape(count, SIDE, SIDE, 3).transpose(0, 3, 1, 2))


def _labels(count: int, classes: int, content: bytes, name: str) -> NDArray[np.int64]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError(f"{name} is not JSON.") from None
    whole = isinstance(found, list) and all(type(label) is int and 0 <= label < classes for label in found)
    if not whole or len(found) != count:
        raise InputError(f"{name} does not hold a list of {count} labels from 0 to {classes - 1}.")
    return np.array(found, dtype=np.int64)


def _census(rows: int, content: bytes, name: str) -> dict[str, list[str]]:
    """Return the columns by name; comments begin with a bar, and the test file has a full stop after every row."""
    lines = [line.strip().rstrip(".") for line in _text(content, name).splitlines()]
    table = [[value.strip() for value in line.split(",")] for line in lines if line and not line.startswith("|")]
    if len(table) != rows:
        raise InputError(f"{name} has {len(table)} rows, expected {rows}.")
    for i, row in enumerate(table, 1):
        if len(row) != len(CENSUS_COLUMNS):
            raise InputError(f"{name} has {len(row)} values in row {i}, expected {len(CENSUS_COLUMNS)}.")
    columns = dict(zip(CENSUS_COLUMNS, map(list, zip(*table, strict=True)), strict=True))
    wrong = [key for key in CENSUS_NUMBERS if not all(value.isdecimal() for value in columns[key])]
    if wrong or not set(columns["income"]) <= set(INCOMES):
        raise InputError(f"{name} has unexpected values in the column {(wrong or ['income'])[0]}.")
    return columns


def _text(content: bytes, name: str) -> str:
    try:
        return content.decode("ascii")
    except UnicodeDecodeError:
        raise InputError(f"{name} is not a text in ASCII.") from None
