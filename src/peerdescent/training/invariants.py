"""The invariants of a method in a run: how far they are off, and the first breach."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace

import torch

from peerdescent.algorithms import Algorithm
from peerdescent.algorithms.state import State
from peerdescent.runs.metrics import Row
from peerdescent.training.added_updates import EMA

TOLERANCE = {torch.float64: 1e-9}
SINGLE_TOLERANCE = 1e-3
"""How far an invariant may drift by rounding, relative to the largest entry of the state."""
COLUMN = "invariant_error"
"""How far the worst invariant is off, relative to the largest entry: recorded where messages are lost or late."""
BREACH = "invariant violated at iteration"


def tolerance(dtype: torch.dtype) -> float:
    """How far an invariant may drift by rounding, relative to the largest entry of the state."""
    return TOLERANCE.get(dtype, SINGLE_TOLERANCE)


def drift(algorithm: Algorithm, state: State) -> dict[str, float]:
    """How far each of the method's invariants is off, relative to the largest entry; empty if that is not finite."""
    peaks = [float(array.abs().max()) for name, array in state.items() if name != EMA]
    largest = max(peaks)
    if not all(map(math.isfinite, peaks)) or largest == 0:
        return {}
    invariants: Mapping[str, torch.Tensor] = algorithm.invariants(SimpleNamespace(**state))
    return {name: float(array.mean(dim=0).abs().max()) / largest for name, array in invariants.items()}


def violations(algorithm: Algorithm, state: State) -> dict[str, float]:
    """The method's invariants that its state violates, with how far, relative to the largest entry."""
    allowed = tolerance(state["x"].dtype)
    return {name: size for name, size in drift(algorithm, state).items() if size > allowed}


def recorded_drift(algorithm: Algorithm, state: State) -> Row:
    """What an evaluation records of it: nothing for methods without invariants."""
    known = algorithm.invariants(SimpleNamespace(**state))
    return {COLUMN: max(drift(algorithm, state).values(), default=None)} if known else {}


def first_breach(rows: Sequence[Row], allowed: float) -> tuple[int, float] | None:
    """The iteration of the first recorded breach and its size, also of rows that an earlier process wrote.

    >>> first_breach([{"iteration": 0, COLUMN: 0.0}, {"iteration": 5, COLUMN: 0.2}, {"iteration": 9, COLUMN: 0.3}], 0.1)
    (5, 0.2)
    """
    sizes = ((row["iteration"], row.get(COLUMN) or 0.0) for row in rows)
    return next(((k, size) for k, size in sizes if size > allowed), None)


def new_breaches(algorithm: Algorithm, state: State, k: int, rows: Sequence[Row], notes: Sequence[str]) -> list[str]:
    """The invariants that are violated at iteration k and that no note names yet, in sentences.

    Args:
        algorithm: the method.
        state: of all agents.
        k: the iteration.
        rows: all evaluations, of an earlier process too: if they record a breach, the first one is named.
        notes: what has been noted.
    """
    found = []
    for name, size in violations(algorithm, state).items():
        if not any(BREACH in note and name in note for note in notes):
            first, far = first_breach(rows, tolerance(state["x"].dtype)) or (k, size)
            found.append(f"{BREACH} {first}: {name} is off by {far:.1e} of the largest entry")
    return found
