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


class MatrixStruct(ctypes.Structure):
    """A sparse matrix as the compiled kernels read it."""

    _fields_ = (("start", ctypes.c_void_p), ("column", ctypes.c_void_p), ("value", ctypes.c_void_p))


class Matrix:
    """A matrix with zero row sums, L or I−W, for tensors of one dtype and device and for compiled kernels.

    Its product sums differences of rows, Σ_j m_ij (a_j − a_i): rounding is then relative to the disagreement, not
    to a itself, and equal rows give exactly zero. With a plan it is the part for the agents of this process, on
    the rows of the plan; sums are taken in the same order as over all agents.
    """

    def __init__(
        self, csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device, plan: ExchangePlan | None = None
    ) -> None:
        whole = csr if plan is None else csr[slice(plan.own.start, plan.own.stop)]
        whole.sort_indices()
        first = 0 if plan is None else plan.own.start
        starts, columns, values = _others(whole, first)
        if plan is not None:
            columns = np.searchsorted(plan.rows, columns) - plan.first  # relative to the first local row
        self._given = whole, dtype, device, plan
        real = np.float64 if dtype == torch.float64 else np.float32
        self._parts = (starts.astype(np.int32), columns.astype(np.int32), values.astype(real))
        self.struct = MatrixStruct(*(part.ctypes.data for part in self._parts))

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        return self._operator @ (a - a[:1])

    @cached_property
    def _operator(self) -> torch.Tensor | Gathered:
        """For eager products, which compiled kernels do without."""
        csr, dtype, device, plan = self._given
        return _operator(csr if plan is None else csr[:, list(plan.rows)], dtype, device)


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
