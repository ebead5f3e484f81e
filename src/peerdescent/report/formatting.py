"""Numbers as people read them: bytes with a unit, means with a standard deviation."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from peerdescent._util.byte_units import UNITS, byte_unit, human_bytes

__all__ = ["ABSENT", "MEAN_DIGITS", "UNITS", "byte_unit", "human_bytes", "human_seconds", "with_spread"]

ABSENT = "–"
"""What a table shows where there is no number."""
MEAN_DIGITS = 6
"""A mean has at most this many significant digits, however small its deviation is."""


def human_seconds(seconds: float) -> str:
    """Seconds with two decimals, or whole ones from 100 on.

    >>> human_seconds(1.5), human_seconds(1234.5)
    ('1.50', '1,234')
    """
    return f"{seconds:.2f}" if seconds < 100 else f"{seconds:,.0f}"


def with_spread(values: Sequence[float], decimals: int | None = None) -> str:
    """The mean over the seeds and, if there are several, ± the sample standard deviation.

    Args:
        values: one per seed.
        decimals: of both numbers; None rounds the deviation to two significant digits and the mean to the same place.

    >>> with_spread([0.4563, 0.4588]), with_spread([1, 40]), with_spread([92.5, 93.5], 2), with_spread([0.5])
    ('0.4576 ± 0.0018', '20 ± 28', '93.00 ± 0.71', '0.5')
    """
    mean = statistics.fmean(values)
    if len(values) == 1:
        return f"{mean:.4g}" if decimals is None else f"{mean:.{decimals}f}"
    deviation = statistics.stdev(values)
    if decimals is not None:
        return f"{mean:.{decimals}f} ± {deviation:.{decimals}f}"
    if deviation == 0:
        return f"{mean:.4g} ± 0"
    return _rounded_alike(mean, deviation)


def _rounded_alike(mean: float, deviation: float) -> str:
    """Both numbers rounded to the second significant digit of the deviation, in the same notation."""
    top = max(_exponent(mean), _exponent(deviation))
    place = max(_exponent(deviation) - 1, top - MEAN_DIGITS + 1)  # the power of ten of the last digit shown
    tiny = _exponent(deviation) < place
    if -4 <= top < MEAN_DIGITS:
        decimals = max(0, -place)
        spread = f"{deviation:.0e}" if tiny else f"{round(deviation, -place):.{decimals}f}"
        return f"{round(mean, -place):.{decimals}f} ± {spread}"
    digits = max(0, _exponent(mean) - place)
    return f"{mean:.{digits}e} ± {deviation:.{0 if tiny else 1}e}"


def _exponent(value: float) -> int:
    """The power of ten of the first digit after rounding to two digits; that of 0 is very low."""
    return int(f"{value:.1e}".partition("e")[2]) if value else -400
