"""How the powerball changes norms: Lemma 1, corrected."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from peerdescent._util.validation import check_number, described
from peerdescent.errors import InputError


def corrected_lemma1_bound(g: ArrayLike, gamma: float) -> float:
    """The correct bound of Lemma 1: ‖σ(g,γ)‖² ≤ p^((1−γ)/(1+γ)) ‖g‖_{1+γ}^{2γ}.

    As printed, ‖g‖²_{1+γ}, it fails already for p = 1, g = 0.1, γ = 0.7.

    >>> round(corrected_lemma1_bound([0.1], 0.7), 4), 0.1**2
    (0.0398, 0.010000000000000002)
    """
    try:
        entries = np.abs(np.asarray(g, dtype=np.float64)).ravel()
    except (TypeError, ValueError):
        raise InputError(f"g is {described(g)}: expected numbers.") from None
    gamma = check_number("gamma", gamma, 0, 1)
    norm = float(np.sum(entries ** (1 + gamma)) ** (1 / (1 + gamma)))
    return float(entries.size ** ((1 - gamma) / (1 + gamma)) * norm ** (2 * gamma))
