"""How curves look in every figure and on the page."""

from __future__ import annotations

from typing import Any

# Okabe and Ito's palette, which colour-blind readers can tell apart, without the yellow that vanishes on paper
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# coprime periods, so that 36 curves differ even where print or eye drops the colour
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1)), (0, (5, 1.5, 1, 1.5)))
MARKERS = ("o", "s", "^", "D", "v", "P", "<", "*", ">")


def curve_style(number: int) -> dict[str, Any]:
    """The colour, line and marker of the curve with a number, as matplotlib takes them.

    >>> curve_style(1)
    {'color': '#D55E00', 'linestyle': (0, (5, 1.5)), 'marker': 's'}
    """
    return {
        "color": COLOURS[number % len(COLOURS)],
        "linestyle": DASHES[number % len(DASHES)],
        "marker": MARKERS[number % len(MARKERS)],
    }
