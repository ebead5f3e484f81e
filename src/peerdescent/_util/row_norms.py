"""The norms of the rows of a matrix, in a defined order of summation."""

from __future__ import annotations

import numpy as np
import torch

ROWS_AT_ONCE = 64
"""Rows whose squares are in memory together."""


def row_norms(g: torch.Tensor) -> torch.Tensor:
    """‖g_i‖ of every row in double precision.

    Entries are added pairwise in a fixed order, so that the result is the same bits however many rows and threads
    there are: several processes give the same trajectory as one. Dividing by the largest entry avoids overflow.

    >>> row_norms(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([5., 0.], dtype=torch.float64)
    """
    return torch.cat([_row_norms(rows) for rows in torch.split(g, ROWS_AT_ONCE)])


def _row_norms(g: torch.Tensor) -> torch.Tensor:
    largest = g.abs().amax(dim=1).double()
    squares = (g.double() / torch.where(largest > 0, largest, 1.0)[:, None]).square()
    while (width := squares.shape[1]) > 1:
        half = width // 2
        rest = squares[:, 2 * half :]
        squares = torch.cat([squares[:, :half] + squares[:, half : 2 * half], rest], dim=1)
    return largest * _sqrt(squares[:, 0])


def _sqrt(a: torch.Tensor) -> torch.Tensor:
    """√a, correctly rounded: on the CPU torch's own root may be off by a unit in the last place."""
    return torch.from_numpy(np.sqrt(a.numpy())) if a.device.type == "cpu" else a.sqrt()
