"""NaN and infinity in what a run starts from, named as such: they would look like divergence."""

from __future__ import annotations

import torch
from torch.utils._pytree import tree_leaves

from peerdescent.algorithms import Algorithm
from peerdescent.data.shards import TensorShards
from peerdescent.data.trees import first_not_finite
from peerdescent.errors import DivergedError, InputError
from peerdescent.problems import Problem, Sampled

REMEDY = "replace or remove them"


def check_finite_data(problem: Problem, dtype: torch.dtype) -> None:
    """Refuse samples with NaN or infinite numbers, also those that are infinite only in the dtype of the run."""
    if not isinstance(problem, Sampled):
        return
    if isinstance(problem.data, TensorShards):  # other data are checked when they are read
        _check_finite_tensors(problem, problem.data, dtype)
    for leaf in tree_leaves(problem.test) if isinstance(problem.test, tuple) else ():
        if (found := first_not_finite(leaf, dtype)) is not None:
            raise InputError(f"the test data contain {found[1]} (sample {found[0]}): {REMEDY}.")


def _check_finite_tensors(problem: Problem, data: TensorShards, dtype: torch.dtype) -> None:
    for leaf in tree_leaves((data.inputs, data.targets)):
        if (found := first_not_finite(leaf, dtype)) is not None:
            row, word = found
            agent = int(torch.searchsorted(data.offsets, row, right=True)) - 1
            sample = row - int(data.offsets[agent])
            raise InputError(
                f"the data of agent {problem.number(agent)} contain {word} (sample {sample} of its shard): {REMEDY}."
            )


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


def divergence(algorithm: Algorithm, problem: Problem, k: int) -> DivergedError:
    """The error of a run whose numbers are no longer finite at iteration k."""
    if k == 0:
        return DivergedError(
            f"the loss of {problem.name} is not finite at the starting points, before the first step: check its data "
            "and where it starts."
        )
    return DivergedError(
        f"{type(algorithm).__name__} diverged: its numbers are no longer finite at iteration {k}; try smaller steps or "
        "a smaller Laplacian."
    )
