"""A sparse matrix with zero row sums, for tensors and for compiled kernels."""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse
import torch
from numpy.typing import NDArray

from peerdescent.distributed.placement import ExchangePlan

DENSE_UP_TO = 64
"""Agents up to which the eager product uses a dense matrix."""
SPARSE_ON = ("cpu", "cuda")
"""Devices on which torch multiplies sparse matrices in CSR format."""


Parts = tuple[NDArray[np.int32], NDArray[np.int32], NDArray[Any]]
"""Where the entries of each row begin, the columns of the entries, their values."""


class MatrixStruct(ctypes.Structure):
    """A sparse matrix as the compiled kernels read it."""

    _fields_ = (("start", ctypes.c_void_p), ("column", ctypes.c_void_p), ("value", ctypes.c_void_p))


class Matrix:
    """A matrix with zero row sums, L or I−W, for tensors of one dtype and device and for compiled kernels.

    Its product sums differences of rows, Σ_j m_ij (a_j − a_i): rounding is then relative to the disagreement, not
    to a itself, and equal rows give exactly zero. With a plan it is the part for the agents of this process, on
    the rows of the plan; sums are taken in the same order as over all agents.
    """

    def __init__(self, parts: Parts, operator: Callable[[], torch.Tensor | Gathered]) -> None:
        self._parts, self._make_operator = parts, operator
        self.struct = MatrixStruct(*(part.ctypes.data for part in parts))

    @classmethod
    def of(
        cls, csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device, plan: ExchangePlan | None = None
    ) -> Matrix:
        """The matrix, or its part for the agents of this process."""
        whole = csr if plan is None else csr[slice(plan.own.start, plan.own.stop)]
        whole.sort_indices()
        first = 0 if plan is None else plan.own.start
        starts, columns, values = _others(whole, first)
        if plan is not None:
            columns = np.searchsorted(plan.rows, columns) - plan.first  # relative to the first local row
        parts = _for_kernels(starts, columns, values, dtype)
        return cls(parts, lambda: _operator(whole if plan is None else whole[:, list(plan.rows)], dtype, device))

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        return self._operator @ (a - a[:1])

    @cached_property
    def _operator(self) -> torch.Tensor | Gathered:
        """For eager products, which compiled kernels do without."""
        return self._make_operator()


class DiagonalBlocks:
    """The blocks of n rows on the diagonal of a matrix, as matrices that are made at once.

    >>> blocks = DiagonalBlocks(scipy.sparse.eye_array(4, format="csr"), 2, torch.float32, torch.device("cpu"))
    >>> blocks[1] @ torch.tensor([[3.0], [5.0]])
    tensor([[0.],
            [2.]])
    """

    def __init__(self, csr: scipy.sparse.csr_array, n: int, dtype: torch.dtype, device: torch.device) -> None:
        starts, columns, values = _others(csr, 0)
        block = np.repeat(np.arange(csr.shape[0]) // n, np.diff(starts))
        self._parts = _for_kernels(starts, columns - block * n, values, dtype)
        self._given = csr, n, dtype, device

    def __getitem__(self, index: int) -> Matrix:
        csr, n, dtype, device = self._given
        starts, columns, values = self._parts
        rows = slice(index * n, (index + 1) * n)
        parts = starts[rows.start : rows.stop + 1], columns, values  # starts count from the first block
        return Matrix(parts, lambda: _operator(csr[rows, rows], dtype, device))


def _for_kernels(starts: NDArray[Any], columns: NDArray[Any], values: NDArray[Any], dtype: torch.dtype) -> Parts:
    real = np.float64 if dtype == torch.float64 else np.float32
    return starts.astype(np.int32), columns.astype(np.int32), values.astype(real)


def _others(csr: scipy.sparse.csr_array, first: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Starts, columns and values −m_ij of what is not on the diagonal; row i is that of agent first + i."""
    rows = np.repeat(np.arange(csr.shape[0]), np.diff(csr.indptr))
    kept = (csr.indices != rows + first) & (csr.data != 0)
    starts = np.concatenate([[0], np.cumsum(np.bincount(rows[kept], minlength=csr.shape[0]))])
    return starts, csr.indices[kept], -csr.data[kept]


class CurrentMatrix:
    """The matrix of the current round, at one address for compiled kernels, made when it is needed."""

    def __init__(self, make: Callable[[], Matrix]) -> None:
        self._make = make
        self._read = False

    @cached_property
    def struct(self) -> MatrixStruct:
        """What compiled kernels read; once they have it, every round's matrix is made at once."""
        struct = MatrixStruct()
        ctypes.pointer(struct)[0] = self._make().struct
        self._read = True
        return struct

    def select(self, make: Callable[[], Matrix]) -> None:
        """Use this matrix from now on."""
        self._make = make
        if self._read:
            ctypes.pointer(self.struct)[0] = make().struct

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        return self._make() @ a


class AllAgents:
    """All agents' rows, as compiled kernels read them for the mean: numbered from the first local row."""

    def __init__(self, agents: int, first: int = 0) -> None:
        self._parts = np.array([0, agents], dtype=np.int32), np.arange(agents, dtype=np.int32) - np.int32(first)
        self.struct = MatrixStruct(*(part.ctypes.data for part in self._parts), None)


class Gathered:
    """A sparse matrix as lists of entries, for devices on which torch has no sparse products."""

    def __init__(self, csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device) -> None:
        coo = csr.tocoo()
        row, column = (torch.from_numpy(part.astype(np.int64)).to(device) for part in coo.coords)
        self._rows, self._row, self._column = csr.shape[0], row, column
        self._value = torch.from_numpy(coo.data).to(dtype).to(device)[:, None]

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        product = a.new_zeros(self._rows, a.shape[1])
        return product.index_add_(0, self._row, self._value * a.index_select(0, self._column))


def _operator(csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device) -> torch.Tensor | Gathered:
    if csr.shape[1] <= DENSE_UP_TO:
        return torch.tensor(csr.toarray(), dtype=dtype, device=device)
    if device.type not in SPARSE_ON:
        return Gathered(csr, dtype, device)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse")  # torch warns that sparse CSR is in beta
        csr = scipy.sparse.csr_array(csr)
        start, column = torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices)
        value = torch.from_numpy(csr.data).to(dtype)
        return torch.sparse_csr_tensor(start, column, value, csr.shape, device=device)
