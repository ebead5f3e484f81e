"""Numbers of bytes as people read them, with a decimal unit."""

from __future__ import annotations

import math

from peerdescent.errors import InputError

UNITS = ("B", "kB", "MB", "GB", "TB", "PB", "EB")


def byte_unit(n: float) -> tuple[float, str]:
    """The size and the name of the decimal unit that suits n bytes.

    >>> byte_unit(54_000_000)
    (1000000.0, 'MB')
    """
    for power, unit in enumerate(UNITS):
        if float(f"{n / 1000**power:.3g}") < 1000:  # after rounding: 999.9 kB becomes 1 MB
            return 1000.0**power, unit
    return 1000.0 ** (len(UNITS) - 1), UNITS[-1]


def human_bytes(n: float) -> str:
    """A number of bytes with three digits and a decimal unit.

    >>> human_bytes(0), human_bytes(999), human_bytes(82_240), human_bytes(1_085_568_000)
    ('0 B', '999 B', '82.2 kB', '1.09 GB')
    """
    if not (math.isfinite(n) and n >= 0):
        raise InputError(f"{n} is not a number of bytes: give a finite number that is at least 0.")
    size, unit = byte_unit(n)
    value = n / size
    digits = 0 if size == 1 or value >= 99.95 else 1 if value >= 9.995 else 2
    return f"{value:.{digits}f} {unit}"
