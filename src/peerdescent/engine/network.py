"""Who hears whom, in memory: L·a, W·a and the mean for all agents of this process."""

from __future__ import annotations

import ctypes
import warnings
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse
import torch

from peerdescent.algorithms import Algorithm
from peerdescent.errors import InputError
from peerdescent.graphs import Graph, Spectrum, spectrum

DENSE_UP_TO = 64
"""Agents up to which the eager product uses a dense matrix."""


MATCHED = "matched"
"""The Laplacian (I−W)/(αη), with which ηαL = I−W."""


class MatrixStruct(ctypes.Structure):
    """A sparse matrix as the compiled kernels read it."""

    _fields_ = (("start", ctypes.c_void_p), ("column", ctypes.c_void_p), ("value", ctypes.c_void_p))


class Matrix:
    """A matrix with zero row sums, L or I−W, ready for tensors of one dtype and device, and for compiled kernels.

    Its product is taken over differences of rows, Σ_j m_ij (a_j − a_i): rounding is then relative to the
    disagreement, not to a itself, and equal rows give exactly zero.
    """

    def __init__(self, csr: scipy.sparse.csr_array, dtype: torch.dtype, device: torch.device) -> None:
        if csr.shape[0] <= DENSE_UP_TO:
            self._operator = torch.tensor(csr.toarray(), dtype=dtype, device=device)
        else:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message="Sparse")  # torch calls its sparse matrices a beta
                start, column = torch.from_numpy(csr.indptr), torch.from_numpy(csr.indices)
                value = torch.from_numpy(csr.data).to(dtype)
                self._operator = torch.sparse_csr_tensor(start, column, value, csr.shape, device=device)
        others = scipy.sparse.csr_array(scipy.sparse.diags_array(csr.diagonal()) - csr)
        others.eliminate_zeros()
        others.sort_indices()
        real = np.float64 if dtype == torch.float64 else np.float32
        self._parts = (others.indptr.astype(np.int32), others.indices.astype(np.int32), others.data.astype(real))
        self.struct = MatrixStruct(*(part.ctypes.data for part in self._parts))

    def __matmul__(self, a: torch.Tensor) -> torch.Tensor:
        return self._operator @ (a - a[:1])


@dataclass
class MemoryNetwork:
    """All agents in one process: a message is a row of the same matrix."""

    laplacian_matrix: Matrix
    disagreement_matrix: Matrix
    silent: bool = False
    """No message travels: L = 0 and W = I."""

    def silenced(self) -> MemoryNetwork:
        """The same agents, each by itself."""
        return replace(self, silent=True)

    def laplacian(self, a: torch.Tensor) -> torch.Tensor:
        """L·a."""
        return torch.zeros_like(a) if self.silent else self.laplacian_matrix @ a

    def disagreement(self, a: torch.Tensor) -> torch.Tensor:
        """(I−W)·a."""
        return torch.zeros_like(a) if self.silent else self.disagreement_matrix @ a

    def mix(self, a: torch.Tensor) -> torch.Tensor:
        """W·a."""
        return a - self.disagreement(a)

    def mean(self, a: torch.Tensor) -> torch.Tensor:
        """The mean of all rows, in every row."""
        return a.mean(dim=0, keepdim=True).expand_as(a)


@dataclass(frozen=True)
class Wiring:
    """A graph with the L and W that a run uses, and their spectrum."""

    graph: Graph
    laplacian: scipy.sparse.csr_array
    mixing: scipy.sparse.csr_array
    spectrum: Spectrum
    notes: tuple[str, ...] = ()
    """What had to be changed for the method to work, in sentences."""

    @classmethod
    def build(cls, graph: Graph, laplacian: str, mixing: str, algorithm: Algorithm) -> Wiring:
        """L and W of the kinds asked for, L = (I−W)/(αη) for "matched"; (I+W)/2 where the method needs it."""
        W = graph.mixing(mixing)
        L = _matched(W, algorithm) if laplacian == MATCHED else graph.laplacian(laplacian)
        spectral = spectrum(L, W)
        if algorithm.mixing(spectral.lambda_min) == "as-is":
            return cls(graph, L, W, spectral)
        note = (
            f"λmin(W) = {spectral.lambda_min:.3f} is too low for {type(algorithm).__name__}: "
            "it mixes with (I+W)/2 instead of W."
        )
        lazy = scipy.sparse.csr_array((scipy.sparse.eye_array(graph.n) + W) / 2)
        lazy.sort_indices()
        return cls(graph, L, lazy, spectrum(L, lazy), (note,))

    def network(self, dtype: torch.dtype, device: torch.device) -> MemoryNetwork:
        """The exchange for tensors of this dtype and device."""
        disagreement = scipy.sparse.csr_array(scipy.sparse.eye_array(self.graph.n) - self.mixing)
        return MemoryNetwork(Matrix(self.laplacian, dtype, device), Matrix(disagreement, dtype, device))


def _matched(W: scipy.sparse.csr_array, algorithm: Algorithm) -> scipy.sparse.csr_array:
    """(I−W)/(αη), with αη as at the start; I−W for methods that have no such product."""
    h = algorithm.hyperparameters(0)
    step = h["alpha"] * h["eta"] if "alpha" in h and "eta" in h else 1.0
    if step == 0:
        raise InputError("laplacian = 'matched' divides by αη, which is 0: set alpha and eta above 0, or another kind.")
    return scipy.sparse.csr_array((scipy.sparse.eye_array(W.shape[0]) - W) / step)
