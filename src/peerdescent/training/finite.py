"""NaN and infinity in what a run starts from, named as such: they would look like divergence."""

from __future__ import annotations

import torch

from peerdescent.errors import InputError
from peerdescent.problems import Problem, Sampled

REMEDY = "replace or remove them"


def check_finite_data(problem: Problem, dtype: torch.dtype) -> None:
    """Refuse samples with NaN or infinite numbers, also those that are infinite only in the dtype of the run."""
    if not isinstance(problem, Sampled):
        return
    for data in (problem.inputs, problem.targets):
        if (found := first_not_finite(data, dtype)) is not None:
            row, word = found
            agent = int(torch.searchsorted(problem.offsets, row, right=True)) - 1
            sample = row - int(problem.offsets[agent])
            raise InputError(
                f"the data of agent {problem.number(agent)} contain {word} (sample {sample} of its shard): {REMEDY}."
            )
    for data in problem.test or ():
        if (found := first_not_finite(data, dtype)) is not None:
            raise InputError(f"the test data contain {found[1]} (sample {found[0]}): {REMEDY}.")


def check_finite_points(points: torch.Tensor, what: str) -> torch.Tensor:
    """Return the agents' points; refuse NaN and infinite numbers.

    >>> check_finite_points(torch.tensor([[0.0], [float("nan")]]), "x0")
    Traceback (most recent call last):
        ...
    peerdescent.errors.InputError: x0 contains NaN (first for agent 1): replace or remove them.
    """
    if (found := first_not_finite(points, points.dtype)) is not None:
        verb = "contains" if what == "x0" else "contain"
        raise InputError(f"{what} {verb} {found[1]} (first for agent {found[0]}): {REMEDY}.")
    return points


def first_not_finite(data: torch.Tensor, dtype: torch.dtype) -> tuple[int, str] | None:
    """Return the first row with a number that is not finite in that dtype, and whether it is NaN; None if all are.

    >>> first_not_finite(torch.tensor([[1.0], [1e300]], dtype=torch.float64), torch.float32)
    (1, 'infinite numbers')
    """
    if not data.is_floating_point() or not data.numel():
        return None
    largest = torch.finfo(dtype).max
    low, high = (float(end) for end in torch.aminmax(data))  # NaN if there is one; no copy of the data
    if -largest <= low and high <= largest:
        return None
    wrong = ~(data.abs() <= largest)
    row = int(wrong.flatten(1).any(dim=1).nonzero()[0]) if data.dim() > 1 else int(wrong.nonzero()[0])
    return row, "NaN" if bool(data[row].isnan().any()) else "infinite numbers"
