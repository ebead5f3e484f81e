"""Inputs and targets as trees: one tensor, or tuples, lists and dicts of tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten

from peerdescent._util.validation import described
from peerdescent.errors import InputError

Tree = Any
"""A tensor, or a tuple, list or dict of trees."""
Batch = tuple[Tree, Tree]
"""Inputs and targets."""
ALIGNMENT = 64
"""Bytes: the widest vectors that processors load, and what torch aligns new tensors to."""
EXPECTED = "expected (inputs, targets) or a Dataset of such pairs, of equal length and not empty"


def as_tree(value: Any, name: str) -> Tree:
    """Return a value with tensors for its leaves.

    Tuples and lists that hold tensors or arrays, and mappings, are branches. Lists of numbers are tensors.

    >>> as_tree({"ids": [1, 2], "pair": (torch.ones(1), [0.5])}, "inputs")
    {'ids': tensor([1, 2]), 'pair': (tensor([1.]), tensor([0.5000]))}
    """
    if isinstance(value, Mapping):
        return {key: as_tree(part, f"{name}[{key!r}]") for key, part in value.items()}
    if _is_branch(value):
        parts = [as_tree(part, f"{name}[{i}]") for i, part in enumerate(value)]
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return as_tensor(value, name)


def _is_branch(value: Any) -> bool:
    if isinstance(value, tuple | list):
        return any(isinstance(part, torch.Tensor | np.ndarray | Mapping) or _is_branch(part) for part in value)
    return False


def as_tensor(value: Any, name: str) -> torch.Tensor:
    """Return a value as a tensor; refuse what cannot become one."""
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise InputError(
            f"{name} is {described(value)}, which cannot become a tensor ({str(error).splitlines()[0]}): {EXPECTED}."
        ) from None


def stack(trees: Sequence[Tree], mismatch: Callable[[int, str, str], InputError]) -> Tree:
    """Return trees of one structure as one tree, whose leaves have one more dimension in front.

    Args:
        trees: at least one.
        mismatch: makes the error for tree i, whose shape or structure is not that of tree 0, from i and both in words.

    >>> stack([(torch.tensor(1), torch.zeros(2)), (torch.tensor(2), torch.ones(2))], mismatch=None)
    (tensor([1, 2]), tensor([[0., 0.],
            [1., 1.]]))
    """
    first, structure = tree_flatten(trees[0])
    columns = [[leaf] for leaf in first]
    for i, tree in enumerate(trees[1:], 1):
        leaves, other = tree_flatten(tree)
        if other != structure:
            raise mismatch(i, _shape(tree), _shape(trees[0]))
        for column, leaf in zip(columns, leaves, strict=True):
            if leaf.shape != column[0].shape:
                raise mismatch(i, f"shape {tuple(leaf.shape)}", str(tuple(column[0].shape)))
            column.append(leaf)
    return tree_unflatten([torch.stack(column) for column in columns], structure)


def take(tree: Tree, rows: torch.Tensor | slice) -> Tree:
    """Return some rows of every leaf."""
    return tree_map(lambda leaf: leaf[rows], tree)


def move(tree: Tree, device: torch.device, dtype: torch.dtype) -> Tree:
    """Return a tree on a device, with its real numbers in a precision; integers keep their type.

    >>> move([torch.tensor([1]), torch.tensor([1.0])], torch.device("cpu"), torch.float64)
    [tensor([1]), tensor([1.], dtype=torch.float64)]
    """
    return tree_map(lambda leaf: leaf.to(device=device, dtype=dtype if leaf.is_floating_point() else leaf.dtype), tree)


def aligned(tree: Tree) -> Tree:
    """Return tensors in aligned memory, copied if they are not.

    How sums are rounded may depend on where numbers begin in memory, and that depends on the agents that share a
    process.

    >>> part = torch.zeros(100)[3:]
    >>> part.data_ptr() % ALIGNMENT, aligned(part).data_ptr() % ALIGNMENT
    (12, 0)
    """
    if isinstance(tree, torch.Tensor):
        return tree.clone() if tree.data_ptr() % ALIGNMENT else tree
    return tree_map(aligned, tree)


def bytes_of(tree: Tree) -> int:
    """Return the bytes of all leaves.

    >>> bytes_of({"ids": torch.zeros(3, dtype=torch.int64), "mask": torch.zeros(3)})
    36
    """
    return sum(leaf.numel() * leaf.element_size() for leaf in tree_leaves(tree))


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
    if data.dim() == 0:
        return 0, "NaN" if bool(data.isnan()) else "infinite numbers"
    wrong = ~(data.abs() <= largest)
    row = int(wrong.flatten(1).any(dim=1).nonzero()[0]) if data.dim() > 1 else int(wrong.nonzero()[0])
    return row, "NaN" if bool(data[row].isnan().any()) else "infinite numbers"


def _shape(tree: Tree) -> str:
    """Return the structure of a tree in words."""
    if isinstance(tree, Mapping):
        return f"a dict of {', '.join(map(repr, tree))}"
    if isinstance(tree, tuple | list):
        return f"a {type(tree).__name__} of {len(tree)}"
    return f"shape {tuple(tree.shape)}"
